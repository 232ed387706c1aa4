"""The receipt and the warnings of a run, as they are written: digests and sizes, never texts."""

from collections.abc import Sequence
from typing import Any

import msgspec

from notarius.contracts import AttemptRecord, ProcessWarning, Usage, total_usage
from notarius.llmruntime import Sampling
from notarius.pipeline._exchange import Budgets
from notarius.pipeline._result import Result, applied_attempt, outcome_name
from notarius.pipeline._settle import Part, Settled


class RunFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a receipt says beside the result. Digests are 64 hexadecimal digits."""

    registry: str
    model: str
    policy_fingerprint: str
    input_sha256: str
    candidates: int
    prompt_sha256: str
    budgets: Budgets
    sampling: Sampling | None = None


def receipt(facts: RunFacts, result: Result) -> dict[str, Any]:
    """Return the content of `receipt.json`."""
    records = result.records
    policy = facts.budgets.policy
    return {
        "schema": "notarius.receipt.v1",
        "outcome": result.outcome,
        "applied_attempt": result.applied_attempt,
        "failure": _failure(result),
        "registry": facts.registry,
        "model": facts.model,
        "sampling": facts.sampling,
        "policy_fingerprint": facts.policy_fingerprint,
        "input": {"sha256": facts.input_sha256, "candidates": facts.candidates},
        "prompt_sha256": facts.prompt_sha256,
        "budgets": {
            "normalize_retries": {
                "allowed": policy.normalize_retries,
                "spent": sum(max(0, len(item.outcome.records) - 1) for item in result.settled),
            },
            "repair_retries": {
                "allowed_per_attempt": facts.budgets.repair_retries,
                "spent": sum(record.repairs for record in records),
            },
            "transport_retries": {
                "allowed_per_attempt": facts.budgets.transport_retries,
                "spent": sum(record.transport_retries for record in records),
            },
            "deadline_s": policy.deadline_s,
            "terminal": policy.terminal.value,
        },
        "attempts": [
            _attempt(item.part, record)
            for item in result.settled
            for record in item.outcome.records
        ],
        "parts": [_part(item) for item in result.settled],
        "usage": usage_of(total_usage(records)),
    }


def warnings(found: Sequence[ProcessWarning]) -> dict[str, Any]:
    """Return the content of `warnings.json`."""
    return {
        "schema": "notarius.warnings.v1",
        "warnings": [msgspec.to_builtins(warning) for warning in found],
    }


def _failure(result: Result) -> dict[str, str] | None:
    if result.failure is None:
        return None
    failed = result.failure
    return {"kind": failed.kind.value, "code": failed.code, "message": failed.message}


def _part(item: Settled) -> dict[str, Any]:
    """Say how one part ended; `remembered` ones cost nothing in this run."""
    return {
        "number": item.part.number,
        "candidates": len(item.part.exchange.candidates),
        "prompt_sha256": item.part.normalizer.request.prompt.sha256,
        "outcome": outcome_name(item.outcome),
        "applied_attempt": applied_attempt(item.outcome),
        "remembered": item.remembered,
    }


def _attempt(part: Part, record: AttemptRecord) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(record)
    plain["part"] = part.number
    plain["issue_counts"] = {item.category: item.count for item in record.issue_counts}
    plain["usage"] = usage_of(record.usage)
    del plain["issues"]
    plain["refused"] = _refused(part, record)
    return plain


def _refused(part: Part, record: AttemptRecord) -> list[dict[str, Any]]:
    """Say of the first refused groups which candidates they were about; `group` counts from 1."""
    source_ids = {
        request_id: candidate.source_id
        for request_id, candidate in zip(
            part.normalizer.request.ids, part.exchange.candidates, strict=True
        )
    }
    groups: dict[int, dict[str, Any]] = {}
    for issue in record.issues:
        group = groups.setdefault(
            issue.group_index + 1,
            {"group": issue.group_index + 1, "categories": [], "source_ids": {}},
        )
        group["categories"].append(issue.category)
        for request_id in issue.request_ids:
            group["source_ids"][source_ids[request_id]] = None
    return [{**group, "source_ids": list(group["source_ids"])} for group in groups.values()]


def usage_of(usage: Usage) -> dict[str, int] | None:
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
