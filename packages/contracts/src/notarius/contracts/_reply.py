"""What comes back from a model, and the rule that tells a candidate from a structural failure."""

import enum
from typing import ClassVar, Literal, Protocol, Self

from notarius.contracts._errors import ContractError
from notarius.contracts._limits import COUNT_MAX, RESPONSE_MAX_BYTES
from notarius.contracts._text import encoded, require_count, require_sha256, sha256_hex
from notarius.contracts._value import Value

SINGLE_RESPONSE_V1: Literal["single_response_v1"] = "single_response_v1"
"""The one protocol of a model candidate: the whole of one reply, exactly as received."""


class FinishReason(enum.StrEnum):
    """Why the model stopped, as far as the provider says."""

    STOP = "stop"
    LENGTH = "length"
    REFUSAL = "refusal"
    OTHER = "other"


class StructuralDefect(enum.StrEnum):
    """Why a reply is no candidate at all. Operators see these; a model never does."""

    EMPTY = "empty_reply"
    CUT_OFF = "cut_off_reply"
    REFUSED = "refused_reply"
    OVERSIZED = "oversized_reply"
    NOT_TEXT = "not_unicode_text"
    NOT_JSON = "not_one_json_value"
    REPEATED_KEY = "repeated_json_key"
    TOO_DEEP = "nested_too_deep"
    WRONG_SHAPE = "wrong_json_shape"


class Usage(Value, frozen=True, kw_only=True):
    """Tokens of one or more model calls; `None` is "the provider does not say", never 0."""

    input_tokens: int | None = None
    output_tokens: int | None = None

    def __post_init__(self) -> None:
        """Check that counts are not negative."""
        for tokens, what in ((self.input_tokens, "input"), (self.output_tokens, "output")):
            if tokens is not None:
                require_count(tokens, f"the {what} tokens")

    def __add__(self, other: "Usage") -> "Usage":
        """Add two usages; a sum with an unknown part is unknown, and so is one over `COUNT_MAX`."""
        return Usage(
            input_tokens=_sum(self.input_tokens, other.input_tokens),
            output_tokens=_sum(self.output_tokens, other.output_tokens),
        )


def _sum(first: int | None, second: int | None) -> int | None:
    if first is None or second is None or first + second > COUNT_MAX:
        return None
    return first + second


class Reply(Value, frozen=True, kw_only=True):
    """One raw reply of a model, before anything is decided about it. The text is never shown.

    The text may be blank or hold lone surrogates: `judge_reply` decides about that. Raises
    `ContractError` if it is no text, or on a finish reason that is no `FinishReason`: a bare
    string would not be recognised as a cut-off or a refusal.
    """

    text: str
    finish_reason: FinishReason | None = None
    usage: Usage = Usage()

    PRIVATE: ClassVar[frozenset[str]] = frozenset({"text"})

    def __post_init__(self) -> None:
        """Check the types."""
        if type(self.text) is not str:
            message = "the text of a reply must be plain text"
            raise ContractError(message)
        _require_provenance(self.finish_reason, self.usage)


def _require_provenance(finish_reason: FinishReason | None, usage: Usage) -> None:
    if not isinstance(finish_reason, FinishReason | None):
        message = "a finish reason must be a FinishReason"
        raise ContractError(message)
    if not isinstance(usage, Usage):
        message = "the usage must be a Usage, with None for what is unknown"
        raise ContractError(message)


class ModelCandidate(Value, frozen=True, kw_only=True, tag="model_candidate"):
    """The exact text of one structurally valid reply, with its digest.

    Build it with `ModelCandidate.of`. Raises `ContractError` if the text is blank, longer than
    `RESPONSE_MAX_BYTES`, no valid Unicode, of another protocol, or does not have this digest.
    """

    text: str
    sha256: str
    protocol: Literal["single_response_v1"] = SINGLE_RESPONSE_V1

    PRIVATE: ClassVar[frozenset[str]] = frozenset({"text"})

    def __post_init__(self) -> None:
        """Check protocol, text and digest."""
        if type(self.protocol) is not str or self.protocol != SINGLE_RESPONSE_V1:
            message = "a model candidate must be of the single-response protocol, version 1"
            raise ContractError(message)
        data = encoded(self.text, "the text of a model candidate")
        if not self.text.strip():
            message = "the text of a model candidate must not be blank"
            raise ContractError(message)
        if len(data) > RESPONSE_MAX_BYTES:
            message = f"a model candidate has at most {RESPONSE_MAX_BYTES} bytes, not {len(data)}"
            raise ContractError(message)
        if self.sha256 != sha256_hex(data):
            message = "the digest of a model candidate is not that of its text"
            raise ContractError(message)

    @classmethod
    def of(cls, text: str) -> Self:
        """Return the candidate for exactly this text."""
        return cls(text=text, sha256=sha256_hex(encoded(text, "the text of a model candidate")))

    @property
    def size(self) -> int:
        """Length of the text in bytes."""
        return len(self.text.encode())


class StructuralFailure(Value, frozen=True, kw_only=True, tag="structural_failure"):
    """A reply that is no candidate: what was wrong, its size and digest, and none of its text."""

    defect: StructuralDefect
    response_sha256: str
    response_bytes: int

    def __post_init__(self) -> None:
        """Check the fields."""
        if not isinstance(self.defect, StructuralDefect):
            message = "the defect of a structural failure must be a StructuralDefect"
            raise ContractError(message)
        require_sha256(self.response_sha256, "the digest of a reply")
        require_count(self.response_bytes, "the size of a reply")


class Produced(Value, frozen=True, kw_only=True):
    """What a producer made of one request: a candidate or a structural failure, and its cost.

    `repairs` and `transport_retries` count what the producer spent of its own two budgets.
    """

    result: ModelCandidate | StructuralFailure
    finish_reason: FinishReason | None = None
    usage: Usage = Usage()
    repairs: int = 0
    transport_retries: int = 0

    def __post_init__(self) -> None:
        """Check the types and counts."""
        if type(self.result) not in {ModelCandidate, StructuralFailure}:
            message = "a producer's result must be a ModelCandidate or a StructuralFailure"
            raise ContractError(message)
        _require_provenance(self.finish_reason, self.usage)
        require_count(self.repairs, "the repairs")
        require_count(self.transport_retries, "the transport retries")


class ResponseContract(Protocol):
    """The shape that a reply must have: a schema for providers, and the check that decides."""

    @property
    def name(self) -> str:
        """A short name for providers that want one."""
        ...

    @property
    def schema_json(self) -> str:
        """The JSON Schema, as JSON text, in the subset that providers share."""
        ...

    @property
    def max_bytes(self) -> int:
        """The longest reply that is looked at, in bytes."""
        ...

    def defect(self, text: str) -> StructuralDefect | None:
        """Say what is structurally wrong with a reply, or `None`."""
        ...


def judge_reply(reply: Reply, contract: ResponseContract) -> ModelCandidate | StructuralFailure:
    """Decide whether a reply is a candidate; every producer uses this one rule.

    What the provider says about the reply comes before its text is parsed: a refusal or a
    cut-off reply is a structural failure even when it happens to parse.
    """
    data = reply.text.encode("utf-8", "surrogatepass")
    defect = _defect(reply, len(data), contract)
    if defect is None:
        return ModelCandidate.of(reply.text)
    return StructuralFailure(
        defect=defect, response_sha256=sha256_hex(data), response_bytes=len(data)
    )


def _defect(reply: Reply, size: int, contract: ResponseContract) -> StructuralDefect | None:
    if reply.finish_reason is FinishReason.REFUSAL:
        return StructuralDefect.REFUSED
    if reply.finish_reason is FinishReason.LENGTH:
        return StructuralDefect.CUT_OFF
    if not reply.text.strip():
        return StructuralDefect.EMPTY
    if size > min(contract.max_bytes, RESPONSE_MAX_BYTES):
        return StructuralDefect.OVERSIZED
    try:
        reply.text.encode()
    except UnicodeEncodeError:
        return StructuralDefect.NOT_TEXT
    return contract.defect(reply.text)
