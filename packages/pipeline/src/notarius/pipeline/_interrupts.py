"""Ctrl-C comes where it can be dealt with: while a model is asked, not between two writes.

A mask of signals would not do: the system gives the signal to another thread then, and Python
raises `KeyboardInterrupt` in the main thread all the same.
"""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from types import FrameType
from typing import TypeAlias

LetThrough: TypeAlias = Callable[[], AbstractContextManager[None]]
"""Makes blocks in which an interruption comes at once, also one that came before."""


@contextlib.contextmanager
def put_off() -> Iterator[LetThrough]:
    """Put an interruption off to the next block that lets it through, or to the end.

    Does nothing in other threads than the main one, which are never interrupted, and where
    Ctrl-C has another meaning than a function of Python.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield contextlib.nullcontext
        return
    came: list[tuple[int, FrameType | None]] = []

    def later(number: int, frame: FrameType | None) -> None:
        came.append((number, frame))

    @contextlib.contextmanager
    def at_once() -> Iterator[None]:
        signal.signal(signal.SIGINT, before)
        try:
            if came:
                before(*came.pop())
            yield
        finally:
            signal.signal(signal.SIGINT, later)

    signal.signal(signal.SIGINT, later)
    try:
        yield at_once
    finally:
        signal.signal(signal.SIGINT, before)
        if came:
            before(*came.pop())
