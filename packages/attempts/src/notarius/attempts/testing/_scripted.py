"""A producer that plays a script, and records exactly what it was asked."""

from collections.abc import Callable, Iterable
from typing import TypeAlias

import msgspec

from notarius.attempts._cancel import CancelToken
from notarius.contracts import (
    Cancellation,
    FinishReason,
    OperationCancelledError,
    Produced,
    ProducerRequest,
    Reply,
    ResponseContract,
    StructuralDefect,
    judge_reply,
)


class JsonObjectContract:
    """A response contract that any one JSON object meets, for tests that need no more."""

    name = "json_object"
    schema_json = '{"type":"object"}'
    max_bytes = 1024 * 1024

    def defect(self, text: str) -> StructuralDefect | None:
        """Say whether `text` is anything but one JSON object."""
        try:
            value = msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError):
            return StructuralDefect.NOT_JSON
        return None if isinstance(value, dict) else StructuralDefect.WRONG_SHAPE


class FakeClock:
    """A clock that moves only when a test says so. Seconds."""

    def __init__(self, now: float = 0.0) -> None:
        """Begin at `now`."""
        self.now: float = now

    def monotonic(self) -> float:
        """Return the time that was set."""
        return self.now

    def advance(self, seconds: float) -> None:
        """Move on by `seconds`."""
        self.now += seconds


Answer: TypeAlias = str | Reply | Produced | BaseException
Step: TypeAlias = Answer | Callable[[ProducerRequest], Answer]
"""What a script says next: an answer, an error to raise, or a function of the request."""


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a producer as data: what it answers, and what happens meanwhile.

    `takes_s` are seconds; `cancels` says that somebody cancels before it answers.
    """

    answer: Answer
    takes_s: float = 0.0
    cancels: bool = False

    def step(self, clock: FakeClock, token: CancelToken) -> Callable[[ProducerRequest], Answer]:
        """Return the step of a script, for an operation with this clock and this token."""

        def play(_request: ProducerRequest) -> Answer:
            clock.advance(self.takes_s)
            if self.cancels:
                token.cancel()
            return self.answer

        return play


class ScriptExhaustedError(AssertionError):
    """More was asked than the script has answers for."""


class ScriptedProducer:
    """Answers each request with the next step, in both worlds: `produce` and `aproduce`.

    A step is a reply's text, a `Reply`, a `Produced`, an exception to raise, or a function of
    the request that returns one of these. Texts and replies are judged as every producer must,
    by `judge_reply`. `requests` holds each request exactly as it came.
    """

    def __init__(self, steps: Iterable[Step]) -> None:
        """Take the script."""
        self._steps = list(steps)
        self.requests: list[ProducerRequest] = []

    def produce(
        self, request: ProducerRequest, *, contract: ResponseContract, cancellation: Cancellation
    ) -> Produced:
        """Play the next step."""
        if cancellation.cancelled:
            message = "cancelled before the call"
            raise OperationCancelledError(message)
        return self._play(request, contract)

    async def aproduce(self, request: ProducerRequest, *, contract: ResponseContract) -> Produced:
        """Play the next step."""
        return self._play(request, contract)

    def _play(self, request: ProducerRequest, contract: ResponseContract) -> Produced:
        self.requests.append(request)
        if len(self.requests) > len(self._steps):
            message = f"the script has {len(self._steps)} steps, and one more was asked for"
            raise ScriptExhaustedError(message)
        step = self._steps[len(self.requests) - 1]
        answer = step(request) if callable(step) else step
        match answer:
            case BaseException():
                raise answer
            case Produced():
                return answer
            case Reply():
                reply = answer
            case str():
                reply = Reply(text=answer, finish_reason=FinishReason.STOP)
        return Produced(
            result=judge_reply(reply, contract),
            finish_reason=reply.finish_reason,
            usage=reply.usage,
        )
