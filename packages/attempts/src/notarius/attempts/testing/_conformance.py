"""Suites that a user's own normalizer or producer can be run through.

Subclass one in a test module, give it what it asks for, and let pytest collect the subclass.
Each failure is an `AssertionError` that names the rule.
"""

import abc
import asyncio
from collections.abc import Sequence
from typing import Any, ClassVar, Generic, TypeVar

from notarius.attempts._cancel import CancelToken
from notarius.attempts._drive import run
from notarius.attempts._machine import AttemptMachine, AttemptPolicy
from notarius.attempts.testing._scripted import JsonObjectContract, ScriptedProducer
from notarius.contracts import (
    AsyncProducer,
    AttemptCause,
    FellBack,
    FinishReason,
    Message,
    ModelCandidate,
    Normalized,
    Normalizer,
    NormalizeRetry,
    OperationCancelledError,
    Produced,
    Producer,
    ProducerRequest,
    Prompt,
    ProviderError,
    ProviderErrorKind,
    Reply,
    ResponseContract,
    Role,
    StructuralDefect,
    StructuralFailure,
    Usage,
    canonical_json,
)

P = TypeVar("P", Producer, AsyncProducer)


def _require(condition: object, rule: str) -> None:
    if not condition:
        raise AssertionError(rule)


class NormalizerConformance(abc.ABC):
    """The rules that the attempt machine relies on, for a normalizer of your own."""

    accepted_reply: ClassVar[str]
    """A reply that your normalizer accepts."""
    refused_reply: ClassVar[str]
    """A structurally valid reply that it must refuse."""

    @abc.abstractmethod
    def make_normalizer(self) -> Normalizer[Any]:
        """Return a fresh normalizer, the same each time."""

    @abc.abstractmethod
    def make_contract(self) -> ResponseContract:
        """Return the response contract that both replies meet."""

    def value_bytes(self, value: object) -> bytes:
        """Return a value as bytes to compare; canonical JSON unless overridden."""
        return canonical_json(value)

    def test_replies_are_candidates(self) -> None:
        """Both example replies meet the response contract."""
        for text in (self.accepted_reply, self.refused_reply):
            defect = self.make_contract().defect(text)
            _require(defect is None, "an example reply does not meet the contract")

    def test_accepts(self) -> None:
        """A good reply is accepted."""
        verdict = self.make_normalizer().normalize(_candidate(self.accepted_reply))
        _require(isinstance(verdict, Normalized), "the good reply must be accepted")

    def test_refusal_pairs_guidance_with_the_exact_reply(self) -> None:
        """A refused reply comes back exactly, with guidance."""
        verdict = self._refused()
        _require(
            verdict.candidate == ModelCandidate.of(self.refused_reply),
            "a refused reply must come back with its exact text, and with guidance about it",
        )

    def test_structural_failure_gives_no_guidance(self) -> None:
        """Without a candidate there is nothing to correct, but something to fall back on."""
        for defect in StructuralDefect:
            verdict = self.make_normalizer().normalize(_failure(defect))
            if not isinstance(verdict, NormalizeRetry):
                rule = "a structural failure must be answered with a retry"
                raise AssertionError(rule)
            _require(
                verdict.candidate is None,
                "a structural failure must come back without a candidate or guidance about one",
            )

    def test_no_memory_between_attempts(self) -> None:
        """What came before does not change a verdict."""
        normalizer = self.make_normalizer()
        first = self._shape(normalizer.normalize(_candidate(self.accepted_reply)))
        normalizer.normalize(_candidate(self.refused_reply))
        normalizer.normalize(_failure(StructuralDefect.CUT_OFF))
        again = self._shape(normalizer.normalize(_candidate(self.accepted_reply)))
        _require(first == again, "an accepted value must not depend on earlier replies")

    def test_deterministic(self) -> None:
        """The same reply gives the same directive."""
        _require(
            self._shape(self._refused()) == self._shape(self._refused()),
            "the same reply must give the same directive",
        )

    def test_exhaustion_leaves_one_warning(self) -> None:
        """Through the machine: the fallback of the valid attempt, and what finally went wrong."""
        machine: AttemptMachine[Any] = AttemptMachine(
            Prompt.of("conformance"), AttemptPolicy(normalize_retries=1)
        )
        producer = ScriptedProducer([self.refused_reply, ""])
        outcome = run(machine, producer, self.make_normalizer(), contract=self.make_contract())
        if not isinstance(outcome, FellBack):
            rule = "refused twice must end in a fallback"
            raise AssertionError(rule)
        expected = self.value_bytes(self._refused().fallback.value)
        _require(
            self.value_bytes(outcome.value) == expected,
            "the fallback must be that of the attempt with a valid candidate",
        )

    def _refused(self) -> NormalizeRetry[Any]:
        verdict = self.make_normalizer().normalize(_candidate(self.refused_reply))
        if not isinstance(verdict, NormalizeRetry):
            rule = "the bad reply must be refused"
            raise AssertionError(rule)
        return verdict

    def _shape(self, verdict: Normalized[Any] | NormalizeRetry[Any]) -> object:
        if isinstance(verdict, Normalized):
            return self.value_bytes(verdict.value)
        return (
            verdict.reason_code,
            verdict.operator_message,
            verdict.guidance,
            verdict.issues,
            self.value_bytes(verdict.fallback.value),
        )


class _ProducerRules(abc.ABC, Generic[P]):
    """The rules for both kinds of producer."""

    valid_reply: ClassVar[str] = '{"duplicate_groups": []}'
    """A reply that meets the contract of `make_contract`."""

    @abc.abstractmethod
    def make_producer(self, replies: Sequence[Reply | ProviderError]) -> P:
        """Return a producer whose backend gives these answers in order, all its own retries off."""

    @abc.abstractmethod
    def received(self, producer: P) -> Sequence[tuple[Message, ...]]:
        """Return the conversations that the backend of `producer` was sent."""

    def make_contract(self) -> ResponseContract:
        """Return the contract to judge by; any JSON object unless overridden."""
        return JsonObjectContract()

    @abc.abstractmethod
    def call(self, producer: P, request: ProducerRequest) -> Produced:
        """Make one call."""

    def test_text_is_exact(self) -> None:
        """White space, line ends and unusual characters of a reply survive."""
        text = f"\r\n\t {self.valid_reply} \n\n"
        result = self.call(self.make_producer([Reply(text=text)]), _request()).result
        _require(
            isinstance(result, ModelCandidate) and result.text == text,
            "the candidate must be the exact text of the reply",
        )

    def test_messages_are_exact(self) -> None:
        """The backend is sent exactly the messages of the request."""
        request = _request("z\u00e9 \U0001f409\r\n  x\u2028")
        producer = self.make_producer([Reply(text=self.valid_reply)])
        self.call(producer, request)
        _require(
            list(self.received(producer)) == [request.messages],
            "the backend must be sent exactly the request's messages, once",
        )

    def test_structural_failures(self) -> None:
        """No visible text, a cut-off or refused reply, and no JSON are structural failures."""
        cases = {
            StructuralDefect.EMPTY: Reply(text=" \n"),
            StructuralDefect.CUT_OFF: Reply(
                text=self.valid_reply, finish_reason=FinishReason.LENGTH
            ),
            StructuralDefect.REFUSED: Reply(
                text=self.valid_reply, finish_reason=FinishReason.REFUSAL
            ),
            StructuralDefect.NOT_JSON: Reply(text="I think that"),
        }
        for defect, reply in cases.items():
            result = self.call(self.make_producer([reply]), _request()).result
            _require(
                isinstance(result, StructuralFailure) and result.defect is defect,
                f"this reply must be the structural failure {defect.value}",
            )

    def test_unknown_usage_stays_unknown(self) -> None:
        """Tokens that the backend does not report are `None`, and reported ones are kept."""
        known = Usage(input_tokens=3, output_tokens=4)
        for usage in (Usage(), known):
            producer = self.make_producer([Reply(text=self.valid_reply, usage=usage)])
            _require(
                self.call(producer, _request()).usage == usage,
                "usage must be what the backend said, unknown where it said nothing",
            )

    def test_provider_error_comes_out(self) -> None:
        """No reply is a `ProviderError`, never a structural failure."""
        producer = self.make_producer([ProviderError(ProviderErrorKind.DENIED, status=401)])
        try:
            self.call(producer, _request())
        except ProviderError as error:
            _require(error.kind is ProviderErrorKind.DENIED, "the kind of the error must be kept")
        else:
            rule = "a provider error must be raised"
            raise AssertionError(rule)

    def test_a_retry_is_asked_anew(self) -> None:
        """The same messages again are sent again: no cache answers a retry."""
        replies = [Reply(text=self.valid_reply), Reply(text=f" {self.valid_reply}")]
        producer = self.make_producer(replies)
        first = self.call(producer, _request())
        second = self.call(producer, _request(number=2))
        _require(first.result != second.result, "a retry must not be answered from a cache")


class ProducerConformance(_ProducerRules[Producer]):
    """The rules for a producer of your own, over a backend that you script."""

    def call(
        self, producer: Producer, request: ProducerRequest, token: CancelToken | None = None
    ) -> Produced:
        """Make one call."""
        return producer.produce(
            request, contract=self.make_contract(), cancellation=token or CancelToken()
        )

    def test_no_call_after_cancel(self) -> None:
        """A cancelled operation does not reach the backend."""
        producer = self.make_producer([Reply(text=self.valid_reply)])
        token = CancelToken()
        token.cancel()
        try:
            self.call(producer, _request(), token)
        except OperationCancelledError:
            _require(not self.received(producer), "nothing may be sent after a cancel")
        else:
            rule = "a cancelled call must raise OperationCancelledError"
            raise AssertionError(rule)


class AsyncProducerConformance(_ProducerRules[AsyncProducer]):
    """The rules for an `AsyncProducer`, whose calls are run in an event loop of their own.

    No call after a cancel is the driver's rule there: it makes none.
    """

    def call(self, producer: AsyncProducer, request: ProducerRequest) -> Produced:
        """Make one call."""
        return asyncio.run(producer.aproduce(request, contract=self.make_contract()))


def _candidate(text: str) -> Produced:
    return Produced(result=ModelCandidate.of(text))


def _failure(defect: StructuralDefect) -> Produced:
    return Produced(
        result=StructuralFailure(defect=defect, response_sha256="0" * 64, response_bytes=0)
    )


def _request(text: str = "hi", *, number: int = 1) -> ProducerRequest:
    return ProducerRequest(
        messages=(Message(role=Role.USER, content=text),),
        number=number,
        cause=AttemptCause.INITIAL if number == 1 else AttemptCause.STRUCTURAL_RETRY,
    )
