"""The suite passes for a producer that keeps its rules; each rule fails for one that breaks it."""

from collections.abc import Sequence

import msgspec
import pytest

from notarius.attempts import CancelToken
from notarius.attempts.testing import (
    AsyncProducerConformance,
    ProducerConformance,
    ScriptedProducer,
)
from notarius.contracts import (
    AttemptCause,
    Cancellation,
    Message,
    ModelCandidate,
    Produced,
    Producer,
    ProducerRequest,
    ProviderError,
    ProviderErrorKind,
    Reply,
    ResponseContract,
    Role,
    StructuralDefect,
    StructuralFailure,
    Usage,
    judge_reply,
)

RULES = [name for name in dir(ProducerConformance) if name.startswith("test_")]


class TestScriptedProducer(ProducerConformance):
    """The scripted producer keeps every rule that it is there to help test."""

    def make_producer(self, replies: Sequence[Reply | ProviderError]) -> Producer:
        """Play the replies."""
        return ScriptedProducer(replies)

    def received(self, producer: Producer) -> Sequence[tuple[Message, ...]]:
        """Read what was asked."""
        assert isinstance(producer, ScriptedProducer)
        return [request.messages for request in producer.requests]


class TestAsyncScriptedProducer(AsyncProducerConformance):
    """So it does in asyncio."""

    def make_producer(self, replies: Sequence[Reply | ProviderError]) -> ScriptedProducer:
        """Play the replies."""
        return ScriptedProducer(replies)

    def received(self, producer: object) -> Sequence[tuple[Message, ...]]:
        """Read what was asked."""
        assert isinstance(producer, ScriptedProducer)
        return [request.messages for request in producer.requests]


class OverHttp(ScriptedProducer):
    """A producer that is told of an error by the status of an HTTP response alone."""

    def _play(self, request: ProducerRequest, contract: ResponseContract) -> Produced:
        try:
            return super()._play(request, contract)
        except ProviderError as error:
            denied = error.status in {401, 403}
            kind = ProviderErrorKind.DENIED if denied else ProviderErrorKind.SERVER_ERROR
            raise ProviderError(kind, status=error.status) from None


class TestOverHttp(TestScriptedProducer):
    """What the suite scripts can be played by a server."""

    def make_producer(self, replies: Sequence[Reply | ProviderError]) -> Producer:
        """Play the replies."""
        return OverHttp(replies)


class Noting(ScriptedProducer):
    """A producer that notes what it is asked before anything else."""

    def __init__(self, steps: Sequence[Reply | ProviderError]) -> None:
        super().__init__(steps)
        self.noted: list[ProducerRequest] = []

    def produce(
        self, request: ProducerRequest, *, contract: ResponseContract, cancellation: Cancellation
    ) -> Produced:
        """Note the request."""
        self.noted.append(request)
        return super().produce(request, contract=contract, cancellation=cancellation)


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_asks_as_the_machine_does(rule: str) -> None:
    """First the initial attempt, then the next, which is a retry."""
    asked: list[Noting] = []

    class Suite(TestScriptedProducer):
        def make_producer(self, replies: Sequence[Reply | ProviderError]) -> Producer:
            asked.append(Noting(replies))
            return asked[-1]

    getattr(Suite(), rule)()
    for producer in asked:
        initial = [
            (request.number, request.cause is AttemptCause.INITIAL) for request in producer.noted
        ]
        assert initial == [(1, True), (2, False)][: len(initial)]
        assert initial


class Backend(ScriptedProducer):
    """A producer with a fault, which its name tells."""

    fault = ""

    def produce(
        self, request: ProducerRequest, *, contract: ResponseContract, cancellation: Cancellation
    ) -> Produced:
        """Answer wrongly."""
        if self.fault == "deaf to a cancel":
            cancellation = CancelToken()
        if self.fault == "sends before it looks":
            self.requests.append(request)
        if self.fault == "adds a message":
            longer = (Message(role=Role.USER, content="please"), *request.messages)
            request = msgspec.structs.replace(request, messages=longer)
        try:
            produced = super().produce(request, contract=contract, cancellation=cancellation)
        except ProviderError:
            if self.fault == "hides provider errors":
                return Produced(result=_failure())
            if self.fault == "changes the kind of errors":
                raise ProviderError(ProviderErrorKind.UNREACHABLE) from None
            raise
        result = produced.result
        if self.fault == "strips the text" and isinstance(result, ModelCandidate):
            return msgspec.structs.replace(produced, result=ModelCandidate.of(result.text.strip()))
        return msgspec.structs.replace(produced, usage=_counted(produced.usage, self.fault))

    async def aproduce(self, request: ProducerRequest, *, contract: ResponseContract) -> Produced:
        """Answer wrongly."""
        return self.produce(request, contract=contract, cancellation=CancelToken())


def _counted(usage: Usage, fault: str) -> Usage:
    question, answer = usage.input_tokens, usage.output_tokens
    match fault:
        case "unknown is zero":
            return Usage(input_tokens=question or 0, output_tokens=answer or 0)
        case "forgets the usage":
            return Usage()
        case "counts the question alone":
            return Usage(input_tokens=question)
        case "counts the answer alone":
            return Usage(output_tokens=answer)
        case "mixes the counts up":
            return Usage(input_tokens=answer, output_tokens=question)
        case _:
            return usage


class Careless(Backend):
    """A producer that has a rule of its own for what is a candidate."""

    def _play(self, request: ProducerRequest, contract: ResponseContract) -> Produced:
        self.requests.append(request)
        reply = self._steps[len(self.requests) - 1]
        if isinstance(reply, Exception):
            raise reply
        assert isinstance(reply, Reply)
        plain = Reply(text=reply.text) if reply.text.strip() else reply
        return Produced(result=judge_reply(plain, contract), usage=reply.usage)


def _failure() -> StructuralFailure:
    return StructuralFailure(
        defect=StructuralDefect.EMPTY, response_sha256="0" * 64, response_bytes=0
    )


class Cached(Backend):
    """A producer that answers a second request with its first reply."""

    def _play(self, request: ProducerRequest, contract: ResponseContract) -> Produced:
        steps, self._steps = self._steps, self._steps[:1] * 9
        try:
            return super()._play(request, contract)
        finally:
            self._steps = steps


PRODUCER_FAULTS: list[tuple[str, str, type[Backend]]] = [
    ("test_text_is_exact", "strips the text", Backend),
    ("test_messages_are_exact", "adds a message", Backend),
    ("test_structural_failures", "ignores the finish reason", Careless),
    ("test_unknown_usage_stays_unknown", "unknown is zero", Backend),
    ("test_unknown_usage_stays_unknown", "forgets the usage", Backend),
    ("test_unknown_usage_stays_unknown", "counts the question alone", Backend),
    ("test_unknown_usage_stays_unknown", "counts the answer alone", Backend),
    ("test_unknown_usage_stays_unknown", "mixes the counts up", Backend),
    ("test_provider_error_comes_out", "hides provider errors", Backend),
    ("test_provider_error_comes_out", "changes the kind of errors", Backend),
    ("test_no_call_after_cancel", "deaf to a cancel", Backend),
    ("test_no_call_after_cancel", "sends before it looks", Backend),
    ("test_a_retry_is_asked_anew", "answers from a cache", Cached),
]


def test_every_rule_for_producers_has_a_fault_here() -> None:
    """A new rule of the suite needs a producer that breaks it."""
    assert {rule for rule, _, _ in PRODUCER_FAULTS} == set(RULES)


@pytest.mark.parametrize(
    ("suite", "rule", "fault", "backend"),
    [
        (suite, *case)
        for suite in (TestScriptedProducer, TestAsyncScriptedProducer)
        for case in PRODUCER_FAULTS
        if hasattr(suite, case[0])  # no call after a cancel is the driver's rule in asyncio
    ],
)
def test_a_rule_for_producers_fails_for_what_breaks_it(
    rule: str, fault: str, backend: type[Backend], suite: type[TestScriptedProducer]
) -> None:
    """Each rule catches the producer that breaks it, blocking or not."""

    class Suite(suite):  # type: ignore[valid-type, misc]  # a class that is a parameter
        def make_producer(self, replies: Sequence[Reply | ProviderError]) -> Producer:
            producer = backend(replies)
            producer.fault = fault
            return producer

    with pytest.raises(AssertionError, match=r"[a-z] [a-z]"):
        getattr(Suite(), rule)()
