"""What is remembered of each attempt, and how an operation ended."""

import enum
from typing import ClassVar, Generic, TypeAlias, TypeVar

from notarius.contracts._errors import ContractError
from notarius.contracts._limits import ISSUES_MAX, OPERATOR_MESSAGE_MAX_BYTES
from notarius.contracts._messages import AttemptCause
from notarius.contracts._reply import FinishReason, StructuralDefect, Usage
from notarius.contracts._retry import IssueCount, IssueDetails
from notarius.contracts._text import (
    require_code,
    require_count,
    require_instance,
    require_prose,
    require_sha256,
    require_tuple,
)
from notarius.contracts._value import Value
from notarius.contracts._warning import ProcessWarning

T = TypeVar("T")


class AttemptResult(enum.StrEnum):
    """How one attempt ended."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    """A valid candidate, but the normalizer asked again."""
    STRUCTURAL = "structural"
    """No valid candidate."""
    PROVIDER_ERROR = "provider_error"
    DEADLINE = "deadline"
    CANCELLED = "cancelled"
    BROKEN = "broken"
    """Our code or a caller's raised."""


class AttemptRecord(Value, frozen=True, kw_only=True):
    """The provenance of one attempt: digests and sizes, never texts.

    `number` counts from 1. `guidance_*` describe the correction that this attempt's request
    carried, `issue_counts` what was refused in its reply, and `issues` the first of it in detail.
    `response_*` are `None` if there was no reply. Sizes are bytes, `duration_ms` milliseconds.
    """

    number: int
    cause: AttemptCause
    result: AttemptResult
    request_sha256: str
    request_messages: int
    duration_ms: int
    response_sha256: str | None = None
    response_bytes: int | None = None
    finish_reason: FinishReason | None = None
    structural_defect: StructuralDefect | None = None
    reason_code: str | None = None
    issue_counts: tuple[IssueCount, ...] = ()
    issues: tuple[IssueDetails, ...] = ()
    guidance_sha256: str | None = None
    guidance_bytes: int | None = None
    usage: Usage = Usage()
    repairs: int = 0
    transport_retries: int = 0

    def __post_init__(self) -> None:
        """Check ranges and that digests and sizes come in pairs."""
        require_count(self.number, "the number of an attempt", minimum=1)
        require_instance(self.cause, AttemptCause, "the cause of an attempt")
        require_instance(self.result, AttemptResult, "the result of an attempt")
        require_count(self.request_messages, "the number of messages", minimum=1)
        require_count(self.duration_ms, "the duration")
        require_count(self.repairs, "the repairs")
        require_count(self.transport_retries, "the transport retries")
        require_sha256(self.request_sha256, "the digest of a request")
        _require_pair(self.response_sha256, self.response_bytes, "response")
        _require_pair(self.guidance_sha256, self.guidance_bytes, "guidance")
        if self.reason_code is not None:
            require_code(self.reason_code, "the reason code")
        require_tuple(self.issue_counts, IssueCount, "the issue counts", max_items=ISSUES_MAX)
        require_tuple(self.issues, IssueDetails, "the issues", max_items=ISSUES_MAX)


def _require_pair(digest: str | None, size: int | None, what: str) -> None:
    if (digest is None) != (size is None):
        message = f"the digest and the size of a {what} must come together"
        raise ContractError(message)
    if digest is not None:
        require_sha256(digest, f"the digest of a {what}")
        require_count(size, f"the size of a {what}")


class _Ended(Value, frozen=True, kw_only=True):
    """What every outcome has."""

    records: tuple[AttemptRecord, ...]

    def __post_init__(self) -> None:
        """Check the records."""
        require_tuple(self.records, AttemptRecord, "the records of an outcome")

    @property
    def usage(self) -> Usage:
        """Tokens of all attempts together; unknown if any part is unknown."""
        return total_usage(self.records)


class Accepted(_Ended, Generic[T], frozen=True, kw_only=True, tag="accepted"):
    """A proposal was accepted."""

    value: T

    PRIVATE: ClassVar[frozenset[str]] = frozenset({"value"})


class FellBack(_Ended, Generic[T], frozen=True, kw_only=True, tag="fell_back"):
    """The budget is gone: what was safe is applied, and one warning says what was not.

    `applied_attempt` is the number of the attempt whose safe part `value` holds: the latest
    with a valid candidate, or the latest at all if there was none.
    """

    value: T
    warning: ProcessWarning
    applied_attempt: int

    PRIVATE: ClassVar[frozenset[str]] = frozenset({"value"})

    def __post_init__(self) -> None:
        """Check the parts."""
        super().__post_init__()
        require_instance(self.warning, ProcessWarning, "the warning of a fallback")
        require_count(self.applied_attempt, "the applied attempt", minimum=1)


class FailureKind(enum.StrEnum):
    """Why there is no value at all."""

    EXHAUSTED = "exhausted"
    """The budget is gone and the terminal policy is to fail."""
    PROVIDER = "provider"
    """The provider could not be reached or refused."""
    DEADLINE = "deadline"
    """The time was over before there was anything to fall back on."""
    BROKEN = "broken"
    """Our code or a caller's raised."""


class Failed(_Ended, frozen=True, kw_only=True, tag="failed"):
    """There is no value; `message` says why, for operators."""

    kind: FailureKind
    code: str
    message: str

    def __post_init__(self) -> None:
        """Check the parts."""
        super().__post_init__()
        require_instance(self.kind, FailureKind, "the kind of a failure")
        require_code(self.code, "the code of a failure")
        require_prose(
            self.message, "the message of a failure", max_bytes=OPERATOR_MESSAGE_MAX_BYTES
        )


class Cancelled(_Ended, frozen=True, kw_only=True, tag="cancelled"):
    """The operation was cancelled; nothing may be persisted as its result."""


Outcome: TypeAlias = Accepted[T] | FellBack[T] | Failed | Cancelled
"""How an operation ended: each has the records of its attempts."""


def total_usage(records: tuple[AttemptRecord, ...]) -> Usage:
    """Return the sum over all attempts, failed ones too; no attempts cost nothing."""
    total = Usage(input_tokens=0, output_tokens=0)
    for record in records:
        total += record.usage
    return total
