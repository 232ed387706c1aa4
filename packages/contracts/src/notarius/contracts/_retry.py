"""What a normalizer answers: a value, or the directive to ask again."""

import copy
import re
from typing import ClassVar, Final, Generic, Self, TypeVar

from notarius.contracts._errors import ContractError
from notarius.contracts._limits import (
    GUIDANCE_MAX_BYTES,
    ISSUE_IDS_MAX,
    ISSUES_MAX,
    OPERATOR_MESSAGE_MAX_BYTES,
    SAMPLE_MAX_BYTES,
    SAMPLES_MAX,
)
from notarius.contracts._messages import Message, Prompt, Role
from notarius.contracts._reply import ModelCandidate
from notarius.contracts._text import require_code, require_count, require_prose, require_tuple
from notarius.contracts._value import Value

T = TypeVar("T")

CORRECTION_MODE: Final = "complete_original_then_latest_exact_response_then_one_correction_v1"
"""How a correction is sent; part of every policy fingerprint, so that it can't change unseen."""

_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,32}")


# Not for the garbage collector: it holds no cycle, and a long reply can have thousands of issues.
class IssueDetails(Value, frozen=True, kw_only=True, gc=False):
    """One defect of one proposed group, for operators: never sent to a model.

    `group_index` counts from 0 in the order of the reply. `request_ids` are ids of the request
    (never text that a model invented), at most `ISSUE_IDS_MAX`.
    """

    category: str
    group_index: int
    request_ids: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check codes and bounds."""
        require_code(self.category, "the category of an issue")
        require_count(self.group_index, "the group index of an issue")
        require_tuple(self.request_ids, str, "the ids of an issue", max_items=ISSUE_IDS_MAX)
        if not all(_REQUEST_ID.fullmatch(item) for item in self.request_ids):
            message = "an id of an issue must be 1 to 32 letters, digits, underscores or hyphens"
            raise ContractError(message)


class IssueCount(Value, frozen=True, kw_only=True):
    """How many proposed groups have one category of defect."""

    category: str
    count: int

    def __post_init__(self) -> None:
        """Check code and count."""
        require_code(self.category, "the category of an issue")
        require_count(self.count, "the count of an issue", minimum=1)


class Fallback(Value, Generic[T], frozen=True, kw_only=True):
    """What can safely be had without another attempt, and how to tell an operator about it.

    `preserved` is one sentence that says what was applied and that the affected candidates were
    preserved separately. `samples` are short lines about them, at most `SAMPLES_MAX`.
    """

    value: T
    preserved: str
    refused_groups: int = 0
    samples: tuple[str, ...] = ()

    PRIVATE: ClassVar[frozenset[str]] = frozenset({"value"})

    def __post_init__(self) -> None:
        """Check the bounds."""
        require_prose(
            self.preserved, "the preservation sentence", max_bytes=OPERATOR_MESSAGE_MAX_BYTES
        )
        require_count(self.refused_groups, "the number of refused groups")
        require_samples(self.samples)


def require_samples(samples: tuple[str, ...]) -> None:
    """Require at most `SAMPLES_MAX` visible lines of at most `SAMPLE_MAX_BYTES` each."""
    require_tuple(samples, str, "the samples", max_items=SAMPLES_MAX)
    for sample in samples:
        require_prose(sample, "a sample", max_bytes=SAMPLE_MAX_BYTES)


class Normalized(Value, Generic[T], frozen=True, kw_only=True):
    """An accepted proposal, applied."""

    value: T

    PRIVATE: ClassVar[frozenset[str]] = frozenset({"value"})


class NormalizeRetry(Value, Generic[T], frozen=True, kw_only=True):
    """The directive to ask again, and what to fall back on if that is not possible.

    `reason_code` (stable), `operator_message`, `issues` and `issue_counts` are for operators and
    never reach a model. `guidance` is the model-facing correction, at most `GUIDANCE_MAX_BYTES`;
    it and `candidate` (the exact reply that it is about) come together or not at all. Without
    them the next attempt sends the bare original prompt.

    Raises `ContractError` if a bound or the pairing does not hold, or if the guidance contains
    the reason code, the operator message or an issue category.
    """

    reason_code: str
    operator_message: str
    fallback: Fallback[T]
    issues: tuple[IssueDetails, ...] = ()
    issue_counts: tuple[IssueCount, ...] = ()
    candidate: ModelCandidate | None = None
    guidance: str | None = None

    PRIVATE: ClassVar[frozenset[str]] = frozenset({"guidance"})

    def __post_init__(self) -> None:
        """Check bounds, pairing, and that no operator text stands in the guidance."""
        require_code(self.reason_code, "the reason code")
        require_prose(
            self.operator_message, "the operator message", max_bytes=OPERATOR_MESSAGE_MAX_BYTES
        )
        if not isinstance(self.fallback, Fallback):
            message = "a retry directive needs a Fallback"
            raise ContractError(message)
        require_tuple(self.issues, IssueDetails, "the issues", max_items=ISSUES_MAX)
        require_tuple(self.issue_counts, IssueCount, "the issue counts", max_items=ISSUES_MAX)
        if (self.candidate is None) != (self.guidance is None):
            message = "correction guidance and its exact model candidate must come together"
            raise ContractError(message)
        if self.guidance is not None:
            _require_guidance(self.guidance, self.candidate)
            self._require_closed(self.guidance)

    def clone(self) -> Self:
        """Return a deep copy that shares nothing mutable with this directive, checked again."""
        return copy.deepcopy(self)

    def _require_closed(self, guidance: str) -> None:
        operator_texts = {
            self.reason_code,
            self.operator_message,
            *(issue.category for issue in self.issues),
            *(issue.category for issue in self.issue_counts),
        }
        folded = guidance.casefold()
        if any(text.casefold() in folded for text in operator_texts):
            message = "correction guidance must not contain operator text or codes"
            raise ContractError(message)


class SemanticCorrection(Value, frozen=True, kw_only=True):
    """The complete original prompt, the latest exact reply, and one correction.

    Raises `ContractError` if the guidance is blank or too long, or a part has the wrong type.
    """

    prompt: Prompt
    candidate: ModelCandidate
    guidance: str

    PRIVATE: ClassVar[frozenset[str]] = frozenset({"guidance"})

    def __post_init__(self) -> None:
        """Check the parts."""
        if not isinstance(self.prompt, Prompt):
            message = "a semantic correction needs the complete original Prompt"
            raise ContractError(message)
        _require_guidance(self.guidance, self.candidate)

    @property
    def messages(self) -> tuple[Message, ...]:
        """What to send: the original messages, the reply as the assistant's, the correction."""
        return (
            *self.prompt.messages,
            Message(role=Role.ASSISTANT, content=self.candidate.text),
            Message(role=Role.USER, content=self.guidance),
        )


def _require_guidance(guidance: str, candidate: object) -> None:
    if type(candidate) is not ModelCandidate:
        message = "correction guidance needs a valid model candidate"
        raise ContractError(message)
    require_prose(guidance, "correction guidance", max_bytes=GUIDANCE_MAX_BYTES)
