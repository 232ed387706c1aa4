"""A scripted model, and both producers over it; nothing here waits or touches a network."""

import asyncio
import json
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from notarius.contracts import (
    AttemptCause,
    Message,
    NotariusError,
    Produced,
    ProducerRequest,
    Reply,
    Role,
    StructuralDefect,
)
from notarius.llmruntime import AsyncStructuredProducer, ChatCall, StructuredProducer


class GadgetContract:
    """Wants one object `{"gadget": text}` of at most 200 bytes."""

    name = "gadget"
    schema_json = '{"type":"object","required":["gadget"]}'
    max_bytes = 200

    def defect(self, text: str) -> StructuralDefect | None:
        """Say what is wrong with a reply."""
        try:
            value = json.loads(text, object_pairs_hook=tuple)  # arrays stay lists
        except ValueError:
            return StructuralDefect.NOT_JSON
        keys = [key for key, _ in value] if isinstance(value, tuple) else []
        if len(set(keys)) < len(keys):
            return StructuralDefect.REPEATED_KEY
        if keys == ["gadget"] and isinstance(value[0][1], str):
            return None
        return StructuralDefect.WRONG_SHAPE


class Cancellation:
    """Is cancelled when a test says so, and notes waits instead of waiting."""

    def __init__(self) -> None:
        """Begin not cancelled."""
        self.cancelled = False
        self.waits: list[float] = []
        self.during_wait: Callable[[], None] = lambda: None

    def wait(self, timeout_s: float) -> bool:
        """Note the wait."""
        self.waits.append(timeout_s)
        self.during_wait()
        return self.cancelled

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Nobody subscribes here."""
        pytest.fail("the producers have no need to subscribe")


class Model:
    """Answers each call with the next step: a text, a `Reply`, an error, or a function of it."""

    def __init__(self, steps: Iterable[Any]) -> None:
        """Take the script."""
        self._steps = iter(steps)
        self.calls: list[ChatCall] = []

    def complete(self, call: ChatCall, *, cancellation: object) -> Reply:
        """Play the next step."""
        return self._play(call)

    async def acomplete(self, call: ChatCall) -> Reply:
        """Play the next step."""
        return self._play(call)

    def _play(self, call: ChatCall) -> Reply:
        self.calls.append(call)
        step = next(self._steps)
        answer = step(call) if callable(step) else step
        if isinstance(answer, BaseException):
            raise answer
        return Reply(text=answer) if isinstance(answer, str) else answer


@pytest.fixture(scope="session")
def ask() -> Callable[..., SimpleNamespace]:
    """Send one request to a scripted model, in one of the two worlds."""

    def make_request(number: int, timeout_s: float | None) -> ProducerRequest:
        cause = AttemptCause.INITIAL if number == 1 else AttemptCause.STRUCTURAL_RETRY
        messages = (
            Message(role=Role.SYSTEM, content="Be brief."),
            Message(role=Role.USER, content="Which gadget?\r\n  é \N{DRAGON}"),
        )
        return ProducerRequest(messages=messages, number=number, cause=cause, timeout_s=timeout_s)

    def ask(
        steps: Iterable[Any],
        *,
        world: str = "threads",
        repair_retries: int = 0,
        transport_retries: int = 0,
        number: int = 1,
        timeout_s: float | None = None,
        cancellation: Cancellation | None = None,
    ) -> SimpleNamespace:
        model, token = Model(steps), cancellation or Cancellation()
        request, contract = make_request(number, timeout_s), GadgetContract()
        budgets = {"repair_retries": repair_retries, "transport_retries": transport_retries}
        produced: Produced | None = None
        error: NotariusError | None = None
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(asyncio, "sleep", _noted(token.waits))
            try:
                if world == "threads":
                    blocking = StructuredProducer(model, **budgets)
                    produced = blocking.produce(request, contract=contract, cancellation=token)
                else:
                    coroutine = AsyncStructuredProducer(model, **budgets)
                    produced = asyncio.run(coroutine.aproduce(request, contract=contract))
            except NotariusError as raised:
                error = raised
        return SimpleNamespace(
            produced=produced, error=error, calls=model.calls, waits=token.waits, request=request
        )

    return ask


def _noted(waits: list[float]) -> Callable[[float], Any]:
    real = asyncio.sleep

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        await real(0)

    return sleep


@pytest.fixture
def cancellation() -> Cancellation:
    """A cancellation to set during a call."""
    return Cancellation()


@pytest.fixture(params=["threads", "asyncio"])
def world(request: pytest.FixtureRequest) -> str:
    """Each of the two kinds of producers."""
    return str(request.param)
