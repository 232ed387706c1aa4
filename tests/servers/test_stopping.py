"""Cancellation, deadlines and closing: the request ends when its caller does."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias

import pytest

from notarius.attempts import CancelToken
from notarius.contracts import (
    ContractError,
    DeadlineExceededError,
    NotariusError,
    OperationCancelledError,
    ProviderError,
    ProviderErrorKind,
)
from notarius.llmruntime import BlockingBackend, ChatCall
from notarius.llmruntime import _openai as module
from notarius.llmruntime.openai import AsyncOpenAIBackend

pytestmark = pytest.mark.allow_hosts(["127.0.0.1"])
Server: TypeAlias = Any  # the fixture's class can't be imported
Connect = Callable[..., BlockingBackend]
MakeCall = Callable[..., ChatCall]
LONG_S = 50.0
SOON_S = 5.0
"""Much longer than stopping takes, and much shorter than what it stops."""


@contextmanager
def promptly() -> Iterator[None]:
    """Require that what is inside ends soon."""
    began = time.monotonic()
    yield
    assert time.monotonic() - began < SOON_S


def cancels(token: CancelToken, server: Server) -> Callable[[socket.socket], None]:
    """Return a step that cancels while the client waits."""

    def step(connection: socket.socket) -> None:
        token.cancel()
        server.hold(connection)

    return step


@pytest.fixture(params=["hold", "drip"])
def slow(request: pytest.FixtureRequest, server: Server) -> Any:  # noqa: ANN401 - a step
    """A server that does not begin to answer, or does not end."""
    step = getattr(server, request.param)
    server.plays(step)
    return step


@pytest.mark.usefixtures("slow")
def test_a_cancel_from_another_thread_ends_the_request(
    connect: Connect, server: Server, make_call: MakeCall
) -> None:
    """The waiting thread is told at once, and the server sees the connection close."""
    token, backend = CancelToken(), connect()

    def cancel_when_asked() -> None:
        server.asked.wait(SOON_S)
        token.cancel()

    other = threading.Thread(target=cancel_when_asked)
    with promptly():
        other.start()
        with pytest.raises(OperationCancelledError):
            backend.complete(make_call(), cancellation=token)
        assert server.hung_up.wait(SOON_S)
        other.join()


def test_a_call_that_is_cancelled_already_asks_nothing(
    connect: Connect, server: Server, make_call: MakeCall
) -> None:
    """No request is made for an operation that was cancelled before."""
    token = CancelToken()
    token.cancel()
    with pytest.raises(OperationCancelledError):
        connect().complete(make_call(), cancellation=token)
    assert server.requests == []


def test_other_calls_go_on_after_a_cancel(
    connect: Connect, server: Server, say: SimpleNamespace, make_call: MakeCall
) -> None:
    """One cancelled call leaves the backend usable, and its token watches nothing any more."""
    token, backend = CancelToken(), connect()
    server.plays(cancels(token, server), say.chat("next"))
    with pytest.raises(OperationCancelledError):
        backend.complete(make_call(), cancellation=token)
    other = CancelToken()
    assert backend.complete(make_call(), cancellation=other).text == "next"
    assert (token._callbacks, other._callbacks) == ([], [])


@pytest.mark.usefixtures("slow")
def test_cancelling_the_task_ends_the_request(server: Server, make_call: MakeCall) -> None:
    """In asyncio `CancelledError` comes out unchanged, and the connection is closed."""

    async def cancelled() -> None:
        backend = AsyncOpenAIBackend("tiny", base_url=server.origin)
        try:
            task = asyncio.create_task(backend.acomplete(make_call()))
            await asyncio.to_thread(server.asked.wait, SOON_S)
            task.cancel()
            await task
        finally:
            await backend.aclose()

    with promptly():
        with pytest.raises(asyncio.CancelledError):
            asyncio.run(cancelled())
        assert server.hung_up.wait(SOON_S)


@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize("world", ["threads", "asyncio"])
def test_the_time_of_a_call_bounds_all_of_it(
    connect: Connect, server: Server, make_call: MakeCall, world: str
) -> None:
    """A server that sends a byte now and then gets no more time than one that sends nothing."""

    async def late() -> None:
        backend = AsyncOpenAIBackend("tiny", base_url=server.origin)
        try:
            await backend.acomplete(make_call(timeout_s=0.3))
        finally:
            await backend.aclose()

    def late_in_a_thread() -> None:
        connect().complete(make_call(timeout_s=0.3), cancellation=CancelToken())

    with promptly(), pytest.raises(DeadlineExceededError):
        asyncio.run(late()) if world == "asyncio" else late_in_a_thread()
    assert server.hung_up.wait(SOON_S)


def test_the_time_of_a_call_bounds_all_kinds_of_output_together(
    connect: Connect, server: Server, say: SimpleNamespace, make_call: MakeCall
) -> None:
    """Being asked again with a weaker kind of output does not begin the time anew."""

    def refuses_slowly(connection: socket.socket) -> None:
        time.sleep(0.3)
        connection.sendall(say.http(400, b""))

    server.plays(refuses_slowly, refuses_slowly, say.chat())
    with pytest.raises(DeadlineExceededError):
        connect().complete(make_call(timeout_s=0.5), cancellation=CancelToken())
    assert len(server.requests) == 2


@pytest.mark.parametrize("begun", [False, True])
def test_a_silent_server_is_given_up_without_a_deadline_too(
    connect: Connect,
    server: Server,
    say: SimpleNamespace,
    make_call: MakeCall,
    monkeypatch: pytest.MonkeyPatch,
    begun: bool,
) -> None:
    """Where no time is set, silence ends a call, before an answer and in the middle of one."""
    monkeypatch.setattr(module, "SILENCE_TIMEOUT_S", 0.3)

    def falls_silent(connection: socket.socket) -> None:
        if begun:
            connection.sendall(say.http(200, b"{", **{"Content-Length": "100"}))
        server.hold(connection)

    server.plays(falls_silent)
    with promptly(), pytest.raises(ProviderError) as caught:
        connect().complete(make_call(), cancellation=CancelToken())
    assert caught.value.kind is ProviderErrorKind.TIMED_OUT
    assert server.hung_up.wait(SOON_S)


@pytest.mark.parametrize("timeout_s", [None, 60.0])
def test_a_server_that_never_ends_is_given_up_without_a_deadline_too(
    connect: Connect,
    server: Server,
    make_call: MakeCall,
    monkeypatch: pytest.MonkeyPatch,
    timeout_s: float | None,
) -> None:
    """A byte now and then is no silence, but no reply either, however far off the deadline is."""
    monkeypatch.setattr(module, "CALL_TIMEOUT_S", 0.3)
    server.plays(server.drip)
    with promptly(), pytest.raises(ProviderError) as caught:
        connect().complete(make_call(timeout_s=timeout_s), cancellation=CancelToken())
    assert caught.value.kind is ProviderErrorKind.TIMED_OUT
    assert server.hung_up.wait(SOON_S)


@pytest.mark.skipif(os.name != "posix", reason="sends a signal to this process")
@pytest.mark.skipif(
    threading.current_thread() is not threading.main_thread(), reason="only it gets signals"
)
def test_an_interrupt_of_the_waiting_thread_ends_the_request(
    connect: Connect, server: Server, make_call: MakeCall
) -> None:
    """Ctrl-C comes out as itself, and no request goes on behind the back of the user."""

    def interrupts(connection: socket.socket) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        server.hold(connection)

    server.plays(interrupts)
    with promptly(), pytest.raises(KeyboardInterrupt):
        connect().complete(make_call(), cancellation=CancelToken())
    assert server.hung_up.wait(SOON_S)


LOOKING_UP = """
import atexit, gc, socket, sys, time
from notarius.pipeline import cli

def getaddrinfo(*_args, **_named):
    print("looking up", flush=True)
    time.sleep(60)

socket.getaddrinfo = getaddrinfo
atexit.register(lambda: print("frozen", gc.get_freeze_count() > 0, flush=True))
sys.exit(cli.main())
"""


@pytest.mark.skipif(os.name != "posix", reason="sends a signal to a process")
def test_nothing_is_waited_for_after_an_interruption(tmp_path: Path) -> None:
    """A name that nobody resolves can't be interrupted, and does not hold the process either.

    Nor does the collector, which would look through all that is there.
    """
    names = "".join(f'{{"source_id": "{name}", "name": "{name}"}}\n' for name in ("Orla", "Venn"))
    (tmp_path / "npc.jsonl").write_text(names)
    arguments = ["run", str(tmp_path), "--out", str(tmp_path / "out"), "--model", "openai:tiny"]
    with subprocess.Popen(
        [sys.executable, "-c", LOOKING_UP, *arguments, "--base-url", "http://nowhere.invalid/v1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "looking up\n"
        with promptly():
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=LONG_S)
    assert (process.returncode, out) == (130, "frozen True\n")
    assert err.startswith("interrupted: ")
    assert err.count("\n") == 1


def threads() -> list[threading.Thread]:
    """Return the threads of blocking backends."""
    return [thread for thread in threading.enumerate() if thread.name == "notarius-llm"]


@pytest.mark.parametrize("used", [True, False])
def test_closing_ends_the_thread_and_the_connections(
    server: Server, say: SimpleNamespace, make_call: MakeCall, used: bool
) -> None:
    """Closing leaves nothing behind, and closing again does nothing."""
    server.plays(say.chat())
    before = len(threads())
    with BlockingBackend(AsyncOpenAIBackend("tiny", base_url=server.origin)) as backend:
        assert len(threads()) == before + 1
        if used:
            backend.complete(make_call(), cancellation=CancelToken())
    assert len(threads()) == before
    backend.close()
    backend.close()


def test_closing_right_after_a_call_was_given_up(
    server: Server, make_call: MakeCall, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left of a call that was cancelled, or read no further, ends before the loop does."""
    monkeypatch.setattr(module, "ENVELOPE_MAX_BYTES", 1)
    for _ in range(5):
        token = CancelToken()
        server.plays(cancels(token, server), server.drip)
        for error in (OperationCancelledError, ProviderError):
            backend = BlockingBackend(AsyncOpenAIBackend("tiny", base_url=server.origin))
            with backend, pytest.raises(error):
                backend.complete(make_call(), cancellation=token)
            token = CancelToken()
        assert server.hung_up.wait(SOON_S)


@pytest.mark.usefixtures("slow")
def test_closing_ends_a_call_of_another_thread(
    connect: Connect, server: Server, make_call: MakeCall
) -> None:
    """Nobody waits for ever for a backend that was closed."""
    backend, raised = connect(), list[BaseException]()

    def call() -> None:
        try:
            backend.complete(make_call(), cancellation=CancelToken())
        except NotariusError as error:
            raised.append(error)

    waiting = threading.Thread(target=call, daemon=True)
    waiting.start()
    assert server.asked.wait(SOON_S)
    with promptly():
        backend.close()
        waiting.join(SOON_S)
        assert not waiting.is_alive()
    assert [isinstance(error, OperationCancelledError | ProviderError) for error in raised] == [
        True
    ]
    assert server.hung_up.wait(SOON_S)


def test_a_closed_backend_takes_no_call(connect: Connect, make_call: MakeCall) -> None:
    """A call after closing fails at once; it does not wait for a loop that has ended."""
    backend = connect()
    backend.close()
    with promptly(), pytest.raises(ContractError):
        backend.complete(make_call(), cancellation=CancelToken())
