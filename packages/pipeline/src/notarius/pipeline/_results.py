"""What stands in an output folder, read for a person to look at, as far as it can be read.

Fields that other versions may lack have a value that says nothing.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeAlias, TypeVar

import msgspec

from notarius.pipeline._outputs import (
    FAILED_RECEIPT,
    KINDS,
    OURS,
    RECEIPT,
    REGISTRY,
    WARNINGS,
    UnfitFileError,
    listing,
    names_in,
    read_json,
    read_registry,
)
from notarius.pipeline._page import Notice
from notarius.registries import Entry, RegistryKind

T = TypeVar("T")

_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens, as far as they are known."""

    input_tokens: _Count | None = None
    output_tokens: _Count | None = None


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """A refused group of an attempt."""

    group: _Count
    categories: tuple[str, ...] = ()
    source_ids: tuple[str, ...] = ()


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt, in digests and sizes."""

    number: _Count
    part: _Count = 1
    cause: str = ""
    result: str = ""
    duration_ms: _Count = 0
    structural_defect: str | None = None
    issue_counts: dict[str, _Count] = {}
    refused: tuple[Refused, ...] = ()
    repairs: _Count = 0
    transport_retries: _Count = 0
    usage: Usage | None = None
    request_sha256: str = ""
    response_sha256: str | None = None
    response_bytes: _Count | None = None
    guidance_sha256: str | None = None
    guidance_bytes: _Count | None = None


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the list."""

    number: _Count
    candidates: _Count = 0
    outcome: str = ""
    applied_attempt: _Count | None = None
    remembered: bool = False


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """What was spent, of what was allowed."""

    spent: _Count = 0
    allowed: _Count | None = None
    allowed_per_attempt: _Count | None = None


class Budgets(msgspec.Struct, frozen=True, kw_only=True):
    """The three budgets."""

    normalize_retries: Budget = Budget()
    repair_retries: Budget = Budget()
    transport_retries: Budget = Budget()


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Why there is no result."""

    message: str


class Input(msgspec.Struct, frozen=True, kw_only=True):
    """The candidates of a run."""

    sha256: str
    candidates: _Count


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """A receipt of one registry."""

    outcome: str
    registry: RegistryKind
    model: str
    input: Input
    attempts: tuple[Attempt, ...]
    parts: tuple[Part, ...] = ()
    budgets: Budgets = Budgets()
    failure: Failure | None = None
    usage: Usage | None = None
    policy_fingerprint: str = ""
    prompt_sha256: str = ""


class _Warnings(msgspec.Struct, frozen=True, kw_only=True):
    warnings: tuple[Notice, ...]


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What could be read of one registry's folder, and what could not."""

    folder: str
    kind: RegistryKind | None
    entries: tuple[Entry, ...] | None
    receipt: Receipt | None
    failed: Receipt | None
    warnings: tuple[Notice, ...]
    unread: tuple[str, ...]


def read_results(out: Path) -> tuple[Result, ...]:
    """Read every registry: those of a campaign's folder, or the one in the folder itself."""
    held = {kind: names_in(out / kind) for kind in KINDS}
    parts = [kind for kind in KINDS if held[kind] & {*OURS, FAILED_RECEIPT}]
    names = listing(out)
    if REGISTRY in names or not parts:
        return (_result(out, "", names),)
    return tuple(_result(out, kind, held[kind]) for kind in parts)


def _result(out: Path, folder: str, names: frozenset[str]) -> Result:
    unread: list[str] = []

    def read(name: str, reader: Callable[[Path, str], T]) -> T | None:
        below = f"{folder}/{name}" if folder else name
        try:
            return reader(out, below)
        except UnfitFileError as error:
            unread.append(f"{below}: {error}")
            return None

    receipt = read(RECEIPT, _read_receipt)
    failed = read(FAILED_RECEIPT, _read_receipt) if FAILED_RECEIPT in names else None
    wanted = receipt is None or receipt.outcome not in {"failed", "cancelled"}
    registry = read(REGISTRY, read_registry) if wanted or REGISTRY in names else None
    warnings = read(WARNINGS, _read_warnings) if wanted or WARNINGS in names else None
    known = next((one.registry for one in (receipt, failed) if one is not None), None)
    return Result(
        folder=folder,
        kind=known if registry is None else registry[0],
        entries=None if registry is None else registry[1].entries,
        receipt=receipt,
        failed=failed,
        warnings=() if warnings is None else warnings.warnings,
        unread=tuple(unread),
    )


def _read_receipt(folder: Path, name: str) -> Receipt:
    return read_json(folder, name, {"notarius.receipt.v1": Receipt})


def _read_warnings(folder: Path, name: str) -> _Warnings:
    return read_json(folder, name, {"notarius.warnings.v1": _Warnings})
