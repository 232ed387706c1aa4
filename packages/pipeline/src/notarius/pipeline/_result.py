"""What the parts of one registry come to together: entries in order, and at most one warning."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from notarius.contracts import (
    OPERATOR_MESSAGE_MAX_BYTES,
    SAMPLES_MAX,
    WARNING_MESSAGE_MAX_BYTES,
    Accepted,
    AttemptRecord,
    Cancelled,
    Failed,
    FellBack,
    InvariantError,
    Outcome,
    ProcessWarning,
    cut,
)
from notarius.pipeline._settle import Settled
from notarius.registries import Candidate, Registry

SEVERAL_FALLBACKS = "several_fallbacks"
"""Code of the warning where parts of one list fell back for different reasons."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """How a registry ended. There is a `registry` if it was accepted or fell back.

    `settled` are its parts in order. `applied_attempt` is known where there is one part.
    """

    outcome: str
    settled: tuple[Settled, ...]
    registry: Registry[Any] | None = None
    warning: ProcessWarning | None = None
    failure: Failed | None = None
    applied_attempt: int | None = None

    @property
    def records(self) -> tuple[AttemptRecord, ...]:
        """The attempts of all parts, in their order."""
        return tuple(record for settled in self.settled for record in settled.outcome.records)

    @property
    def error(self) -> BaseException | None:
        """What broke the first part that was broken."""
        return next((s.error for s in self.settled if s.error is not None), None)


def result_of(candidates: Sequence[Candidate], settled: Sequence[Settled]) -> Result:
    """Put the parts of a registry together. Raises `InvariantError` if a candidate got lost."""
    parts = tuple(sorted(settled, key=lambda item: item.part.number))
    for item in parts:
        if isinstance(item.outcome, Failed):
            return Result(outcome="failed", settled=parts, failure=_placed(item, len(parts)))
    if any(isinstance(item.outcome, Cancelled) for item in parts):
        return Result(outcome="cancelled", settled=parts)
    warning = _warning(parts)
    return Result(
        outcome="accepted" if warning is None else "fell_back",
        settled=parts,
        registry=_registry(candidates, parts),
        warning=warning,
        applied_attempt=applied_attempt(parts[0].outcome) if len(parts) == 1 else None,
    )


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


def applied_attempt(outcome: Outcome[Any]) -> int | None:
    """Return the number of the attempt whose groups were applied."""
    match outcome:
        case Accepted(records=records):
            return len(records) or None
        case FellBack(applied_attempt=number):
            return number
        case Failed() | Cancelled():
            return None


def _placed(item: Settled, parts: int) -> Failed:
    """Say in which part it failed, where there are several."""
    assert isinstance(item.outcome, Failed)  # noqa: S101 - the caller has looked
    if parts == 1:
        return item.outcome
    where = f"Part {item.part.number} of {parts}: "
    message = cut(where + item.outcome.message, OPERATOR_MESSAGE_MAX_BYTES)
    return msgspec.structs.replace(item.outcome, message=message)


def _registry(candidates: Sequence[Candidate], parts: Sequence[Settled]) -> Registry[Any]:
    """Return all entries in the order of their first candidate."""
    place = {candidate.source_id: number for number, candidate in enumerate(candidates)}
    found = [item.outcome.value for item in parts if isinstance(item.outcome, Accepted | FellBack)]
    entries = [entry for registry in found for entry in registry.entries]
    held = [source_id for entry in entries for source_id in entry.source_ids]
    if len(held) != len(place) or set(held) != place.keys():
        message = "a candidate was lost or doubled"
        raise InvariantError(message)
    entries.sort(key=lambda entry: place[entry.source_ids[0]])
    return Registry(schema=found[0].schema, entries=tuple(entries))


def _warning(parts: Sequence[Settled]) -> ProcessWarning | None:
    """Return the one warning of a registry, whatever number of its parts fell back."""
    fell = [(item, item.outcome) for item in parts if isinstance(item.outcome, FellBack)]
    if not fell:
        return None
    first, outcome = fell[0]
    if len(parts) == 1:
        return outcome.warning
    codes = Counter(fallback.warning.code for _, fallback in fell)
    said = (
        f"{len(fell)} of the {len(parts)} parts of the list fell back; the affected candidates "
        "of each were preserved separately, nothing was lost. "
        f"Part {first.part.number}: {outcome.warning.message}"
    )
    samples = [sample for _, fallback in fell for sample in fallback.warning.samples]
    return ProcessWarning(
        code=next(iter(codes)) if len(codes) == 1 else SEVERAL_FALLBACKS,
        message=cut(said, WARNING_MESSAGE_MAX_BYTES),
        refused_groups=sum(fallback.warning.refused_groups for _, fallback in fell),
        samples=tuple(samples[:SAMPLES_MAX]),
    )
