"""The reconciliation protocol: prompt, strict decoding, safe and refused groups, and guidance."""

from notarius.semanticreconcile._categories import ALL_CATEGORIES, IssueCategory
from notarius.semanticreconcile._decode import Proposal, ProposedGroup, parse_proposal
from notarius.semanticreconcile._policy import policy_content
from notarius.semanticreconcile._prose import CATEGORY_PROSE, Prose
from notarius.semanticreconcile._protocol import (
    PROTOCOL,
    REPLY_MAX_BYTES,
    RESPONSE_SCHEMA,
    Listed,
    ReconciliationContract,
    ReconciliationRequest,
    Subject,
    build_request,
    request_ids,
)
from notarius.semanticreconcile._render import (
    DOMAIN_RULE_MAX_BYTES,
    UnmappedCategoryError,
    render_guidance,
    summarize_issues,
)
from notarius.semanticreconcile._split import (
    GroupCheck,
    Part,
    RefusedGroup,
    SafeGroup,
    Split,
    TypedRefusal,
    split_proposal,
)

__all__ = [
    "ALL_CATEGORIES",
    "CATEGORY_PROSE",
    "DOMAIN_RULE_MAX_BYTES",
    "PROTOCOL",
    "REPLY_MAX_BYTES",
    "RESPONSE_SCHEMA",
    "GroupCheck",
    "IssueCategory",
    "Listed",
    "Part",
    "Proposal",
    "ProposedGroup",
    "Prose",
    "ReconciliationContract",
    "ReconciliationRequest",
    "RefusedGroup",
    "SafeGroup",
    "Split",
    "Subject",
    "TypedRefusal",
    "UnmappedCategoryError",
    "build_request",
    "parse_proposal",
    "policy_content",
    "render_guidance",
    "request_ids",
    "split_proposal",
    "summarize_issues",
]


def __getattr__(name: str) -> str:
    """Read `__version__` from the installed metadata, only when someone asks."""
    if name == "__version__":
        from importlib.metadata import version as _version  # noqa: PLC0415 - takes long to import

        return _version("notarius-semanticreconcile")
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)
