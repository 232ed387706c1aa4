"""The values that cross a notarius package boundary, their validation, and the protocols."""

from notarius.contracts._errors import (
    ContractError,
    DeadlineExceededError,
    InvariantError,
    NoReplyError,
    NotariusError,
    OperationCancelledError,
    ProviderError,
    ProviderErrorKind,
    provider_message,
)
from notarius.contracts._json import (
    RepeatedKeyError,
    canonical_json,
    policy_fingerprint,
    require_unique_keys,
)
from notarius.contracts._limits import (
    CODE_MAX_BYTES,
    COUNT_MAX,
    GUIDANCE_MAX_BYTES,
    ISSUE_IDS_MAX,
    ISSUES_MAX,
    OPERATOR_MESSAGE_MAX_BYTES,
    PROMPT_MAX_BYTES,
    RESPONSE_MAX_BYTES,
    SAMPLE_MAX_BYTES,
    SAMPLES_MAX,
    WARNING_MESSAGE_MAX_BYTES,
)
from notarius.contracts._messages import AttemptCause, Message, ProducerRequest, Prompt, Role
from notarius.contracts._outcomes import (
    Accepted,
    AttemptRecord,
    AttemptResult,
    Cancelled,
    Failed,
    FailureKind,
    FellBack,
    Outcome,
    total_usage,
)
from notarius.contracts._protocols import AsyncProducer, Cancellation, Normalizer, Producer
from notarius.contracts._reply import (
    SINGLE_RESPONSE_V1,
    FinishReason,
    ModelCandidate,
    Produced,
    Reply,
    ResponseContract,
    StructuralDefect,
    StructuralFailure,
    Usage,
    judge_reply,
)
from notarius.contracts._retry import (
    CORRECTION_MODE,
    Fallback,
    IssueCount,
    IssueDetails,
    Normalized,
    NormalizeRetry,
    SemanticCorrection,
)
from notarius.contracts._text import cut, has_lone_surrogate, one_line
from notarius.contracts._value import Value
from notarius.contracts._warning import ProcessWarning, fallback_warning

__all__ = [
    "CODE_MAX_BYTES",
    "CORRECTION_MODE",
    "COUNT_MAX",
    "GUIDANCE_MAX_BYTES",
    "ISSUES_MAX",
    "ISSUE_IDS_MAX",
    "OPERATOR_MESSAGE_MAX_BYTES",
    "PROMPT_MAX_BYTES",
    "RESPONSE_MAX_BYTES",
    "SAMPLES_MAX",
    "SAMPLE_MAX_BYTES",
    "SINGLE_RESPONSE_V1",
    "WARNING_MESSAGE_MAX_BYTES",
    "Accepted",
    "AsyncProducer",
    "AttemptCause",
    "AttemptRecord",
    "AttemptResult",
    "Cancellation",
    "Cancelled",
    "ContractError",
    "DeadlineExceededError",
    "Failed",
    "FailureKind",
    "Fallback",
    "FellBack",
    "FinishReason",
    "InvariantError",
    "IssueCount",
    "IssueDetails",
    "Message",
    "ModelCandidate",
    "NoReplyError",
    "NormalizeRetry",
    "Normalized",
    "Normalizer",
    "NotariusError",
    "OperationCancelledError",
    "Outcome",
    "ProcessWarning",
    "Produced",
    "Producer",
    "ProducerRequest",
    "Prompt",
    "ProviderError",
    "ProviderErrorKind",
    "RepeatedKeyError",
    "Reply",
    "ResponseContract",
    "Role",
    "SemanticCorrection",
    "StructuralDefect",
    "StructuralFailure",
    "Usage",
    "Value",
    "canonical_json",
    "cut",
    "fallback_warning",
    "has_lone_surrogate",
    "judge_reply",
    "one_line",
    "policy_fingerprint",
    "provider_message",
    "require_unique_keys",
    "total_usage",
]


def __getattr__(name: str) -> str:
    """Read `__version__` from the installed metadata, only when someone asks."""
    if name == "__version__":
        from importlib.metadata import version as _version  # noqa: PLC0415 - takes long to import

        return _version("notarius-contracts")
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)
