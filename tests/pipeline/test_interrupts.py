"""When Ctrl-C comes out of work that must not be left half done."""

import signal
import threading
from collections.abc import Iterator

import pytest

from notarius.pipeline._interrupts import put_off

pytestmark = pytest.mark.skipif(
    threading.current_thread() is not threading.main_thread(), reason="only it gets signals"
)


@pytest.fixture(autouse=True)
def _usual_handler() -> Iterator[None]:
    """Ctrl-C as Python has it; afterwards as it was."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def ctrl_c() -> None:
    """Do what the key does."""
    signal.raise_signal(signal.SIGINT)


def test_it_comes_when_the_work_is_done() -> None:
    """Not in the middle, and not never; afterwards all is as before."""
    done = []

    def work() -> None:
        with put_off():
            ctrl_c()
            done.append("all")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["all"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_it_comes_at_once_where_it_is_let_through() -> None:
    """One that was put off comes at the beginning of such a block, a new one inside it."""
    done = []
    with put_off() as let_through:
        ctrl_c()
        with pytest.raises(KeyboardInterrupt), let_through():
            done.append("never")
        with pytest.raises(KeyboardInterrupt), let_through():
            ctrl_c()
        with let_through():
            done.append("nothing is left")
    assert done == ["nothing is left"]


def test_the_outer_block_decides() -> None:
    """Work inside other work does not let it out."""
    done = []

    def work() -> None:
        with put_off():
            with put_off():
                ctrl_c()
            done.append("all")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["all"]


def test_what_ctrl_c_means_to_others_is_left_alone() -> None:
    """Whoever ignores it goes on doing so, and another thread changes nothing."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with put_off() as let_through, let_through():
        ctrl_c()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    seen = []

    def elsewhere() -> None:
        with put_off() as let_through, let_through():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert seen == [signal.SIG_IGN]
