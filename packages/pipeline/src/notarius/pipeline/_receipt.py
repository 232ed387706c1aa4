"""The receipt and the warnings of a run, as they are written: digests and sizes, never texts."""

from collections.abc import Sequence
from typing import Any

import msgspec

from notarius.attempts import AttemptPolicy
from notarius.contracts import (
    Accepted,
    AttemptRecord,
    Cancelled,
    Failed,
    FellBack,
    Outcome,
    ProcessWarning,
    Usage,
    total_usage,
)
from notarius.llmruntime import Sampling


class RunFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a receipt says beside the outcome. Digests are 64 hexadecimal digits."""

    registry: str
    model: str
    policy_fingerprint: str
    input_sha256: str
    candidates: int
    prompt_sha256: str
    policy: AttemptPolicy
    repair_retries: int
    transport_retries: int
    sampling: Sampling | None = None


def outcome_name(outcome: Outcome[Any]) -> str:
    """Return `accepted`, `fell_back`, `failed` or `cancelled`."""
    match outcome:
        case Accepted():
            return "accepted"
        case FellBack():
            return "fell_back"
        case Failed():
            return "failed"
        case Cancelled():
            return "cancelled"


def receipt(facts: RunFacts, outcome: Outcome[Any]) -> dict[str, Any]:
    """Return the content of `receipt.json`."""
    records = outcome.records
    return {
        "schema": "notarius.receipt.v1",
        "outcome": outcome_name(outcome),
        "applied_attempt": _applied_attempt(outcome),
        "failure": _failure(outcome),
        "registry": facts.registry,
        "model": facts.model,
        "sampling": facts.sampling,
        "policy_fingerprint": facts.policy_fingerprint,
        "input": {"sha256": facts.input_sha256, "candidates": facts.candidates},
        "prompt_sha256": facts.prompt_sha256,
        "budgets": {
            "normalize_retries": {
                "allowed": facts.policy.normalize_retries,
                "spent": max(0, len(records) - 1),
            },
            "repair_retries": {
                "allowed_per_attempt": facts.repair_retries,
                "spent": sum(record.repairs for record in records),
            },
            "transport_retries": {
                "allowed_per_attempt": facts.transport_retries,
                "spent": sum(record.transport_retries for record in records),
            },
            "deadline_s": facts.policy.deadline_s,
            "terminal": facts.policy.terminal.value,
        },
        "attempts": [_attempt(record) for record in records],
        "usage": _usage(total_usage(records)),
    }


def warnings(found: Sequence[ProcessWarning]) -> dict[str, Any]:
    """Return the content of `warnings.json`."""
    return {
        "schema": "notarius.warnings.v1",
        "warnings": [msgspec.to_builtins(warning) for warning in found],
    }


def _applied_attempt(outcome: Outcome[Any]) -> int | None:
    match outcome:
        case Accepted(records=records):
            return len(records) or None
        case FellBack(applied_attempt=number):
            return number
        case Failed() | Cancelled():
            return None


def _failure(outcome: Outcome[Any]) -> dict[str, str] | None:
    if not isinstance(outcome, Failed):
        return None
    return {"kind": outcome.kind.value, "code": outcome.code, "message": outcome.message}


def _attempt(record: AttemptRecord) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(record)
    plain["issue_counts"] = {item.category: item.count for item in record.issue_counts}
    plain["usage"] = _usage(record.usage)
    return plain


def _usage(usage: Usage) -> dict[str, int] | None:
    """Return the tokens, or `None` where nothing is known."""
    known = {
        name: tokens
        for name, tokens in (
            ("input_tokens", usage.input_tokens),
            ("output_tokens", usage.output_tokens),
        )
        if tokens is not None
    }
    return known or None
