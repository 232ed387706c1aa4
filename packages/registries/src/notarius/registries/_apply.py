"""Typed application: from candidates and safe groups to entries, without losing anything."""

import hashlib
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from notarius.contracts import InvariantError, canonical_json
from notarius.registries._entities import Candidate
from notarius.semanticreconcile import SafeGroup

FOLD_LIMIT: Final = 4096


def fold(text: str) -> str:
    """Return what two spellings of one name have in common: NFC, no outer space, no case.

    Beyond `FOLD_LIMIT` characters it is the name without case alone: composing takes quadratic
    time on a long run of accents.
    """
    if len(text) > FOLD_LIMIT:
        return text.casefold().strip()
    return unicodedata.normalize("NFC", text).casefold().strip()


def members_of(
    count: int, ids: Sequence[str], groups: Iterable[SafeGroup]
) -> list[tuple[int, tuple[int, ...]]]:
    """Return (canonical, members) for every entry, as places in the candidate list.

    Entries come in the order of their first candidate, members in list order; a candidate in no
    group is an entry alone. Raises `InvariantError` if a candidate would be in two entries.
    """
    place = {request_id: number for number, request_id in enumerate(ids)}
    entry_of: dict[int, tuple[int, tuple[int, ...]]] = {}
    taken: set[int] = set()
    for group in groups:
        members = tuple(sorted(place[request_id] for request_id in group.ids))
        if not taken.isdisjoint(members):
            message = "two safe groups share a candidate"
            raise InvariantError(message)
        taken.update(members)
        entry_of[members[0]] = (place[group.canonical_id], members)
    for number in range(count):
        if number not in taken:
            entry_of[number] = (number, (number,))
    return [entry_of[first] for first in sorted(entry_of)]


def merged_fields(kind: str, canonical: Candidate, members: Sequence[Candidate]) -> dict[str, Any]:
    """Return the fields that every entry has, for members in input order."""
    source_ids = tuple(member.source_id for member in members)
    names = [canonical.name]
    for member in members:
        names += [member.name, *member.aliases]
    return {
        "entry_id": entry_id(kind, source_ids),
        "name": canonical.name,
        "aliases": _distinct_names(names)[1:],
        "descriptions": _once(m.description for m in members if m.description.strip()),
        "evidence": _once(text for m in members for text in m.evidence),
        "source_ids": source_ids,
        "extra": tuple(m.extra for m in members if m.extra is not msgspec.UNSET),
    }


def entry_id(kind: str, source_ids: Iterable[str]) -> str:
    """Return an id that depends on the registry and the set of members alone."""
    digest = hashlib.sha256(canonical_json(sorted(source_ids))).hexdigest()
    return f"{kind}-{digest[:20]}"


def _distinct_names(names: Iterable[str]) -> tuple[str, ...]:
    """Keep the first spelling of each name; blank ones say nothing."""
    first: dict[str, str] = {}
    for name in names:
        folded = fold(name)
        if folded:
            first.setdefault(folded, name)
    return tuple(first.values())


def _once(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))
