import asyncio
import contextlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from notarius.contracts import (
    AttemptCause,
    DeadlineExceededError,
    Message,
    OperationCancelledError,
    ProducerRequest,
    ProviderError,
    ProviderErrorKind,
    Reply,
    Role,
    StructuralDefect,
)
from notarius.llmruntime import AsyncStructuredProducer, BlockingBackend, ChatCall

Ask = Callable[..., SimpleNamespace]
GOOD = '{"gadget": "lamp"}'
BUSY = ProviderError(ProviderErrorKind.RATE_LIMITED, retry_after_s=3.0)


def late(_call: object) -> DeadlineExceededError:
    """Play a model that used up its time."""
    return DeadlineExceededError()


def test_nothing_is_sent_after_a_cancel(ask: Ask, cancellation: Any) -> None:  # noqa: ANN401 - the fixture's type is not importable
    """A cancelled operation does not reach the model."""
    cancellation.cancelled = True
    got = ask([GOOD], cancellation=cancellation)
    assert isinstance(got.error, OperationCancelledError)
    assert got.calls == []


def test_a_cancel_during_a_call_ends_the_repair(ask: Ask, cancellation: Any) -> None:  # noqa: ANN401 - as above
    """After a cancel during a call no repair is asked for."""

    def cancelled(_call: object) -> str:
        cancellation.cancelled = True
        return "not json"

    got = ask([cancelled], cancellation=cancellation, repair_retries=3)
    assert isinstance(got.error, OperationCancelledError)
    assert len(got.calls) == 1


def test_a_cancel_ends_a_wait(ask: Ask, cancellation: Any) -> None:  # noqa: ANN401 - as above
    """A cancel while waiting for a transport retry is heeded before the next call."""
    cancellation.during_wait = lambda: setattr(cancellation, "cancelled", True)
    got = ask([BUSY], cancellation=cancellation, transport_retries=3)
    assert isinstance(got.error, OperationCancelledError)
    assert (len(got.calls), got.waits) == (1, [3.0])


def test_the_model_sees_the_cancellation(ask: Ask) -> None:
    """What a model raises because of a cancel comes out unchanged."""
    stopped = OperationCancelledError()
    assert ask([stopped], repair_retries=3, transport_retries=3).error is stopped


@pytest.mark.parametrize("waiting", [True, False])
def test_an_async_cancel_is_never_swallowed(waiting: bool) -> None:
    """Cancelling the task ends a call and a wait with `CancelledError`, and no further call."""
    calls = []

    class Busy:
        async def acomplete(self, call: object) -> Any:  # noqa: ANN401 - it never returns
            calls.append(call)
            if waiting:
                raise BUSY
            await asyncio.sleep(30)

    class Anything:
        name, schema_json, max_bytes = "any", "{}", 1

        def defect(self, text: str) -> StructuralDefect | None:
            return None

    async def cancelled_soon() -> None:
        producer = AsyncStructuredProducer(Busy(), repair_retries=3, transport_retries=3)
        message = Message(role=Role.USER, content="hi")
        request = ProducerRequest(messages=(message,), number=1, cause=AttemptCause.INITIAL)
        task = asyncio.create_task(producer.aproduce(request, contract=Anything()))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled_soon())
    assert len(calls) == 1


LOOKING_UP = """
import asyncio, threading, time
from types import SimpleNamespace
from notarius.contracts import OperationCancelledError
from notarius.llmruntime import BlockingBackend, ChatCall

class LooksUp:
    async def acomplete(self, call):
        begun.set()
        await asyncio.get_running_loop().run_in_executor(None, time.sleep, 60)

    async def aclose(self):
        pass

def close():
    begun.wait()
    backend.close()

begun = threading.Event()
backend = BlockingBackend(LooksUp())
threading.Thread(target=close).start()
try:
    backend.complete(
        ChatCall(messages=(), schema_name="any", schema_json="{}"),
        cancellation=SimpleNamespace(subscribe=lambda callback: lambda: None),
    )
except OperationCancelledError:
    print("cancelled")
"""


def test_what_can_not_be_interrupted_is_not_waited_for() -> None:
    """A name that is being looked up holds neither the caller nor the end of the program."""
    done = subprocess.run(
        [sys.executable, "-c", LOOKING_UP], capture_output=True, check=False, text=True, timeout=50
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "cancelled\n", "")


class Unhurried:
    """A backend whose call takes its time after it was cancelled."""

    def __init__(self) -> None:
        """Not asked yet."""
        self.asked = threading.Event()

    async def acomplete(self, call: ChatCall) -> Reply:
        """Answer never."""
        self.asked.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        await asyncio.sleep(60)
        return Reply(text=call.schema_name)

    async def aclose(self) -> None:
        """Have nothing to close."""


def test_a_closing_that_is_interrupted_leaves_nobody_waiting() -> None:
    """Ctrl-C while the backend is closed ends the calls of other threads too."""
    slow = Unhurried()
    backend = BlockingBackend(slow)
    message = Message(role=Role.USER, content="hi")
    call = ChatCall(messages=(message,), schema_name="x", schema_json="{}")
    never: Any = SimpleNamespace(subscribe=lambda _stop: lambda: None)
    raised: list[BaseException] = []

    def complete() -> None:
        try:
            backend.complete(call, cancellation=never)
        except OperationCancelledError as error:
            raised.append(error)

    waiting = threading.Thread(target=complete, daemon=True)
    waiting.start()
    assert slow.asked.wait(10)
    main = threading.get_ident()
    threading.Timer(0.2, signal.pthread_kill, (main, signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        backend.close()
    waiting.join(10)
    assert len(raised) == 1


def test_without_time_nothing_is_sent(ask: Ask, world: str) -> None:
    """If the time is over before the first call, that is the error."""
    got = ask([GOOD], world=world, timeout_s=1e-9)
    assert isinstance(got.error, DeadlineExceededError)
    assert got.calls == []


def test_a_first_call_out_of_time_is_an_error(ask: Ask, world: str) -> None:
    """Where no reply came in time there is nothing to return."""
    got = ask([late], world=world, timeout_s=60.0, repair_retries=3, transport_retries=3)
    assert isinstance(got.error, DeadlineExceededError)
    assert len(got.calls) == 1


def test_a_repair_out_of_time_leaves_the_failure(ask: Ask, world: str) -> None:
    """When time ends during a repair, the result is the failure that it was to mend."""
    got = ask(
        ["not json", ProviderError(ProviderErrorKind.UNREACHABLE), late],
        world=world,
        timeout_s=60.0,
        repair_retries=3,
        transport_retries=3,
    )
    assert got.produced.result.defect is StructuralDefect.NOT_JSON
    assert got.produced.result.response_bytes == len("not json")
    # What was spent in vain was spent.
    assert (got.produced.repairs, got.produced.transport_retries) == (1, 1)


def test_time_that_is_over_between_calls_leaves_the_failure(ask: Ask, world: str) -> None:
    """No repair is begun after the deadline."""

    def slow(_call: object) -> str:
        time.sleep(0.02)
        return "not json"

    got = ask([slow, GOOD], world=world, timeout_s=0.01, repair_retries=3)
    assert got.produced.result.defect is StructuralDefect.NOT_JSON
    assert len(got.calls) == 1


def test_each_call_is_told_the_time_that_is_left(ask: Ask, world: str) -> None:
    """All calls of one request share its time; without a deadline there is no limit."""
    got = ask(["no", "no", GOOD], world=world, timeout_s=60.0, repair_retries=2)
    first, second, third = (call.timeout_s for call in got.calls)
    assert 60.0 >= first >= second >= third > 0
    assert ask([GOOD], world=world).calls[0].timeout_s is None
