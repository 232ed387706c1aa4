"""The attempt machine: decides what is sent next, and when it is over.

Rules
 1. Attempt 1 sends exactly the original prompt.
 2. A corrective attempt sends the original prompt, the latest exact reply and one correction.
    Nothing from an earlier attempt is ever sent.
 3. Every other retry sends the bare original prompt, also when the attempt before was corrective.
 4. Each retry spends one unit of the normalize budget; `_retry` alone counts on.
 5. When budget or time is gone the terminal policy decides. A fallback is that of the latest
    attempt with a valid candidate, or of the latest attempt if there was none; the one warning
    describes the final failure.
 6. Without any verdict there is nothing to fall back on: time over or provider gone is a failure.
 7. A provider error ends the operation. It is never shown to a model.
 8. After a cancel there is no further effect but `Finish`; records of attempts made survive.
 9. Every attempt that was begun leaves exactly one record.

No clock, no I/O, no randomness, no logging: time, replies and faults arrive as events.
"""

import enum
import hashlib
from types import MappingProxyType
from typing import Final, Generic, TypeVar, assert_never

import msgspec

from notarius.attempts._events import (
    Ask,
    Broke,
    CancelRequested,
    DeadlinePassed,
    Effect,
    Event,
    Finish,
    Judged,
    Normalize,
    ProviderFailed,
    Raise,
    Replied,
    Spent,
    Started,
)
from notarius.contracts import (
    Accepted,
    AttemptCause,
    AttemptRecord,
    AttemptResult,
    Cancelled,
    ContractError,
    Failed,
    FailureKind,
    FellBack,
    InvariantError,
    ModelCandidate,
    Normalized,
    NormalizeRetry,
    Outcome,
    Produced,
    ProducerRequest,
    Prompt,
    SemanticCorrection,
    StructuralFailure,
    fallback_warning,
)

T = TypeVar("T")

DEADLINE_CODE: Final = "deadline_passed"
"""Reason code: the time was over."""
DEADLINE_MESSAGE: Final = "The time for this operation ran out before a proposal was accepted."
PROVIDER_CODE: Final = "provider_failed"
"""Reason code: the provider could not be reached or refused."""


class TerminalPolicy(enum.StrEnum):
    """What happens when the budget is gone."""

    FALLBACK = "fallback"
    FAIL = "fail"


class AttemptPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one operation.

    `normalize_retries` counts attempts after the first, 0 or more. `deadline_s` is the time for
    the whole operation in seconds, more than 0, or `None`. Raises `ContractError` otherwise.
    """

    normalize_retries: int = 2
    terminal: TerminalPolicy = TerminalPolicy.FALLBACK
    deadline_s: float | None = None

    def __post_init__(self) -> None:
        """Check the ranges."""
        retries = self.normalize_retries
        if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
            message = "the number of retries must be a whole number, 0 or more"
            raise ContractError(message)
        if not isinstance(self.terminal, TerminalPolicy):
            message = "the terminal policy must be a TerminalPolicy"
            raise ContractError(message)
        if self.deadline_s is not None and not self.deadline_s > 0:
            message = "the deadline must be more than 0 seconds"
            raise ContractError(message)


class State(enum.StrEnum):
    """Where an operation stands."""

    READY = "ready"
    PRODUCING = "producing"
    NORMALIZING = "normalizing"
    DONE = "done"


TRANSITIONS: Final = MappingProxyType(
    {
        (State.READY, Started): (State.PRODUCING,),
        (State.PRODUCING, Replied): (State.NORMALIZING,),
        (State.PRODUCING, ProviderFailed): (State.DONE,),
        (State.PRODUCING, DeadlinePassed): (State.DONE,),
        (State.PRODUCING, CancelRequested): (State.DONE,),
        (State.PRODUCING, Broke): (State.DONE,),
        (State.NORMALIZING, Judged): (State.PRODUCING, State.DONE),
        (State.NORMALIZING, CancelRequested): (State.DONE,),
        (State.NORMALIZING, Broke): (State.DONE,),
    }
)
"""Which states an event may lead to; the machine obeys it and the diagram is drawn from it."""


class _Verdict(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """A retry directive and the attempt that it came from."""

    number: int
    retry: NormalizeRetry[T]


class AttemptMachine(Generic[T]):
    """One operation. Feed it events with `handle`; it answers with the next effect.

    `records` can be read at any time, also after an exception ended the driver.
    """

    def __init__(self, prompt: Prompt, policy: AttemptPolicy) -> None:
        """Begin with the original prompt, which is never changed."""
        self._prompt = prompt
        self._policy = policy
        self._state = State.READY
        self._request = ProducerRequest(
            messages=prompt.messages, number=1, cause=AttemptCause.INITIAL
        )
        self._correction: SemanticCorrection | None = None
        self._produced: Produced | None = None
        self._last: _Verdict[T] | None = None
        self._last_valid: _Verdict[T] | None = None
        self._records: tuple[AttemptRecord, ...] = ()

    @property
    def state(self) -> State:
        """Where the operation stands."""
        return self._state

    @property
    def number(self) -> int:
        """The number of the current attempt, counted from 1."""
        return self._request.number

    @property
    def policy(self) -> AttemptPolicy:
        """The limits."""
        return self._policy

    @property
    def records(self) -> tuple[AttemptRecord, ...]:
        """One record for each attempt that has ended, in order."""
        return self._records

    @property
    def retries_spent(self) -> int:
        """Units of the normalize budget that were spent: one for each attempt after the first."""
        return self._request.number - 1

    def handle(self, event: Event[T]) -> Effect[T]:
        """Take one event and return what to do next.

        Raises `InvariantError` if the event is not possible in this state, or if a verdict does
        not belong to the reply that was judged. Whatever is raised, an interruption too, the
        machine is then as it was before.
        """
        before = self.__dict__.copy()
        try:
            return self._handle(event)
        except BaseException:
            self.__dict__ = before
            raise

    def _handle(self, event: Event[T]) -> Effect[T]:
        allowed = TRANSITIONS.get((self._state, type(event)))
        if allowed is None:
            message = f"{type(event).__name__} is not possible while {self._state.value}"
            raise InvariantError(message)
        match event:
            case Started():
                effect: Effect[T] = self._ask()
            case Replied():
                self._produced = event.produced
                effect = Normalize(produced=event.produced)
            case Judged():
                effect = self._judge(event)
            case ProviderFailed():
                self._record(AttemptResult.PROVIDER_ERROR, event.elapsed_ms, spent=event.spent)
                effect = self._fail(FailureKind.PROVIDER, PROVIDER_CODE, event.message)
            case DeadlinePassed():
                self._record(AttemptResult.DEADLINE, event.elapsed_ms, spent=event.spent)
                effect = self._end_of_time()
            case CancelRequested():
                self._record(AttemptResult.CANCELLED, event.elapsed_ms, spent=event.spent)
                effect = Finish(outcome=Cancelled(records=self._records))
            case Broke():
                result = AttemptResult.CANCELLED if event.interrupted else AttemptResult.BROKEN
                self._record(result, event.elapsed_ms)
                effect = Raise()
            case _:
                assert_never(event)
        self._state = _state_for(effect)
        if self._state not in allowed:
            message = f"{type(event).__name__} must not lead to {self._state.value}"
            raise InvariantError(message)
        return effect

    def _ask(self) -> Ask:
        self._produced = None
        return Ask(request=self._request)

    def _judge(self, event: Judged[T]) -> Effect[T]:
        verdict, produced = event.verdict, self._produced
        if produced is None:
            message = "a verdict needs a reply"
            raise InvariantError(message)
        match verdict:
            case Normalized():
                if not isinstance(produced.result, ModelCandidate):
                    message = "the normalizer accepted a reply that is no candidate"
                    raise InvariantError(message)
                self._record(AttemptResult.ACCEPTED, event.elapsed_ms)
                accepted: Outcome[T] = Accepted(value=verdict.value, records=self._records)
                return Finish(outcome=accepted)
            case NormalizeRetry():
                _require_own_candidate(verdict, produced)
                return self._refused(verdict, produced, event.elapsed_ms)
            case _:
                assert_never(verdict)

    def _refused(self, retry: NormalizeRetry[T], produced: Produced, elapsed_ms: int) -> Effect[T]:
        entry = _Verdict(number=self._request.number, retry=retry)
        self._last = entry
        if isinstance(produced.result, ModelCandidate):
            self._last_valid = entry
            self._record(AttemptResult.REFUSED, elapsed_ms, retry)
        else:
            self._record(AttemptResult.STRUCTURAL, elapsed_ms, retry)
        return self._retry(entry, produced)

    def _retry(self, entry: _Verdict[T], produced: Produced) -> Effect[T]:
        """Spend one unit of the budget on another attempt, or end: the only counter."""
        retry = entry.retry
        if self.retries_spent >= self._policy.normalize_retries:
            applied = self._last_valid or entry
            return self._exhausted(applied, retry.reason_code, retry.operator_message)
        self._correction = None
        messages = self._prompt.messages
        if retry.guidance is not None and retry.candidate is not None:
            self._correction = SemanticCorrection(
                prompt=self._prompt, candidate=retry.candidate, guidance=retry.guidance
            )
            messages, cause = self._correction.messages, AttemptCause.CORRECTIVE_RETRY
        elif isinstance(produced.result, StructuralFailure):
            cause = AttemptCause.STRUCTURAL_RETRY
        else:
            cause = AttemptCause.MODULE_RETRY
        self._request = ProducerRequest(
            messages=messages, number=self._request.number + 1, cause=cause
        )
        return self._ask()

    def _end_of_time(self) -> Effect[T]:
        applied = self._last_valid or self._last
        if applied is None:
            return self._fail(FailureKind.DEADLINE, DEADLINE_CODE, DEADLINE_MESSAGE)
        return self._exhausted(applied, DEADLINE_CODE, DEADLINE_MESSAGE)

    def _exhausted(self, applied: _Verdict[T], code: str, message: str) -> Effect[T]:
        """Let the terminal policy decide; code and message describe the final failure."""
        terminal = self._policy.terminal
        match terminal:
            case TerminalPolicy.FAIL:
                return self._fail(FailureKind.EXHAUSTED, code, message)
            case TerminalPolicy.FALLBACK:
                fallback = applied.retry.fallback
                fell_back: Outcome[T] = FellBack(
                    value=fallback.value,
                    warning=fallback_warning(
                        final_code=code, final_message=message, applied=fallback
                    ),
                    applied_attempt=applied.number,
                    records=self._records,
                )
                return Finish(outcome=fell_back)
            case _:
                assert_never(terminal)

    def _fail(self, kind: FailureKind, code: str, message: str) -> Finish[T]:
        failed: Outcome[T] = Failed(kind=kind, code=code, message=message, records=self._records)
        return Finish(outcome=failed)

    def _record(
        self,
        result: AttemptResult,
        elapsed_ms: int | None,
        retry: NormalizeRetry[T] | None = None,
        spent: Spent | None = None,
    ) -> None:
        """Close the current attempt; `elapsed_ms` of `None` means that it was never begun."""
        if elapsed_ms is None:
            return
        record = AttemptRecord(
            number=self._request.number,
            cause=self._request.cause,
            result=result,
            request_sha256=self._request.sha256,
            request_messages=len(self._request.messages),
            duration_ms=elapsed_ms,
        )
        if self._correction is not None:
            guidance = self._correction.guidance.encode()
            record = msgspec.structs.replace(
                record,
                guidance_sha256=hashlib.sha256(guidance).hexdigest(),
                guidance_bytes=len(guidance),
            )
        if self._produced is not None:
            record = _with_reply(record, self._produced)
        elif spent is not None:
            record = msgspec.structs.replace(
                record, repairs=spent.repairs, transport_retries=spent.transport_retries
            )
        if retry is not None:
            record = msgspec.structs.replace(
                record,
                reason_code=retry.reason_code,
                issue_counts=retry.issue_counts,
                issues=retry.issues,
            )
        self._records = (*self._records, record)


def _state_for(effect: Effect[T]) -> State:
    match effect:
        case Ask():
            return State.PRODUCING
        case Normalize():
            return State.NORMALIZING
        case Finish() | Raise():
            return State.DONE
        case _:
            assert_never(effect)


def _require_own_candidate(retry: NormalizeRetry[T], produced: Produced) -> None:
    """Refuse guidance about anything but the exact reply that was judged."""
    retry.validate()
    if retry.candidate is not None and retry.candidate != produced.result:
        message = "the normalizer returned guidance for a text that is not the latest reply"
        raise InvariantError(message)


def _with_reply(record: AttemptRecord, produced: Produced) -> AttemptRecord:
    match produced.result:
        case ModelCandidate() as candidate:
            digest, size, defect = candidate.sha256, candidate.size, None
        case StructuralFailure() as failure:
            digest, size, defect = failure.response_sha256, failure.response_bytes, failure.defect
        case _:
            assert_never(produced.result)
    return msgspec.structs.replace(
        record,
        response_sha256=digest,
        response_bytes=size,
        structural_defect=defect,
        finish_reason=produced.finish_reason,
        usage=produced.usage,
        repairs=produced.repairs,
        transport_retries=produced.transport_retries,
    )
