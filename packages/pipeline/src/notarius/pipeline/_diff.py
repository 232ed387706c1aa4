"""Compares two folders of results by the candidates that their entries hold.

Rules:

1. Candidates go by `source_id`. Those of one side alone have appeared or vanished; entries are
   compared by the candidates that both sides know.
2. Entries that share candidates are looked at together. Several of A for one of B have merged,
   one for several has split. In any other tangle an entry is paired with one of the other side
   or none, those that share most first, and a candidate that is not where its pair is has moved.
3. Only entries of exactly the same candidates can be renamed or changed.
4. The order of entries, candidates and texts says nothing. Exchanging A and B exchanges merged
   and split, appeared and vanished, before and after, and nothing else.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import msgspec

from notarius.contracts import canonical_json
from notarius.pipeline._errors import InputError
from notarius.pipeline._outputs import (
    KINDS,
    OURS,
    REGISTRY,
    UnfitFileError,
    listing,
    read_registry,
)
from notarius.pipeline._shown import counted, json_text, quoted, some, visible
from notarius.registries import Entry, Registry, RegistryKind

LINES_MAX: Final = 10
"""Lines that a person is shown of one kind of difference; the others are counted."""

# The places of an entry of A and of one of B, and with them the candidates that they share.
_Pair: TypeAlias = tuple[int, int]
_Shared: TypeAlias = dict[_Pair, list[str]]


class EntryName(msgspec.Struct, frozen=True, kw_only=True):
    """What an entry goes by."""

    entry_id: str
    name: str


class EntryPart(EntryName, frozen=True, kw_only=True):
    """An entry, and those of its candidates that a difference is about, sorted."""

    source_ids: tuple[str, ...]


class Regrouped(msgspec.Struct, frozen=True, kw_only=True):
    """Entries of A and entries of B that hold the same candidates, as far as both know them."""

    before: tuple[EntryPart, ...]
    after: tuple[EntryPart, ...]


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    """Candidates that went from one entry to another."""

    source_ids: tuple[str, ...]
    before: EntryName
    after: EntryName


class Renamed(msgspec.Struct, frozen=True, kw_only=True):
    """Two names of an entry of the same candidates."""

    source_ids: tuple[str, ...]
    before: str
    after: str


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """Fields that differ between entries of the same candidates, with the names of both."""

    source_ids: tuple[str, ...]
    before: str
    after: str
    fields: tuple[str, ...]


class RegistryDifference(msgspec.Struct, frozen=True, kw_only=True):
    """All differences of one registry. Where `only_in` is set, the other side has none."""

    registry: RegistryKind
    only_in: Literal["a", "b"] | None
    entries_before: int
    entries_after: int
    merged: tuple[Regrouped, ...]
    split: tuple[Regrouped, ...]
    moved: tuple[Moved, ...]
    appeared: tuple[EntryPart, ...]
    vanished: tuple[EntryPart, ...]
    renamed: tuple[Renamed, ...]
    changed: tuple[Changed, ...]

    @property
    def empty(self) -> bool:
        """Whether there is no difference."""
        regrouped = self.merged or self.split or self.moved or self.appeared or self.vanished
        return not (regrouped or self.renamed or self.changed or self.only_in)


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """What differs between A and B, for every registry that either has."""

    a: str
    b: str
    registries: tuple[RegistryDifference, ...]

    @property
    def empty(self) -> bool:
        """Whether there is no difference."""
        return all(registry.empty for registry in self.registries)


def diff(a: Path, b: Path) -> Difference:
    """Compare two folders of one registry, or two campaigns' folders.

    Raises `InputError` if a folder can't be read as either, or if they are not alike.
    """
    before, after = _load(a), _load(b)
    _require_alike(a, before, b, after)
    return Difference(
        a=json_text(a),
        b=json_text(b),
        registries=tuple(
            _compare(kind, before.registries.get(kind), after.registries.get(kind))
            for kind in KINDS
            if kind in before.registries or kind in after.registries
        ),
    )


def difference_lines(found: Difference) -> tuple[str, ...]:
    """Return the difference as lines for a person: counts, then the first of each kind."""
    lines = [f"before: {found.a}", f"after:  {found.b}"]
    for registry in found.registries:
        lines += _registry_lines(registry)
    return tuple(visible(line) for line in lines)


class _Results(msgspec.Struct, frozen=True, kw_only=True):
    campaign: bool
    registries: Mapping[RegistryKind, Registry[Any]]


def _load(out: Path) -> _Results:
    names = listing(out)
    held = {kind: _held(out / kind) for kind in KINDS if kind in names}
    parts = [kind for kind in held if held[kind] & OURS]
    if REGISTRY in names:
        if parts:
            raise InputError(
                f"{out}: holds {REGISTRY} and also results in {', '.join(parts)}, so it is not "
                "clear what to compare; move one of them elsewhere"
            )
        kind, registry = _registry(out, REGISTRY)
        return _Results(campaign=False, registries={kind: registry})
    if not parts:
        raise InputError(f"{out}: holds no {REGISTRY}; name a folder that was an --out")
    found = {}
    for part in parts:
        if REGISTRY not in held[part]:
            raise InputError(
                f"{out / part}: its run left no {REGISTRY}; run it again, or compare the other "
                "registries one by one"
            )
        kind, found[part] = _registry(out, f"{part}/{REGISTRY}")
        if kind != part:
            raise InputError(
                f"{out / part / REGISTRY}: is the {kind} registry; move it to where it belongs"
            )
    return _Results(campaign=True, registries=found)


def _held(folder: Path) -> frozenset[str]:
    """Return the names in a folder that may be part of a campaign."""
    if folder.is_symlink():
        raise InputError(f"{folder}: is a link, which is not followed; put the folder itself there")
    return listing(folder) if folder.is_dir() else frozenset()


def _registry(out: Path, name: str) -> tuple[RegistryKind, Registry[Any]]:
    """Read a registry that can be compared: each candidate in one entry, none without any."""
    try:
        kind, registry = read_registry(out, name)
    except UnfitFileError as error:
        raise InputError(f"{out / name}: {error}") from None
    times = Counter(source_id for entry in registry.entries for source_id in entry.source_ids)
    repeated = [source_id for source_id, count in times.items() if count > 1]
    if repeated:
        raise InputError(f"{out / name}: has {some(repeated)} more than once; run notarius again")
    if not all(entry.source_ids for entry in registry.entries):
        raise InputError(f"{out / name}: has an entry without candidates; run notarius again")
    return kind, registry


def _require_alike(a: Path, before: _Results, b: Path, after: _Results) -> None:
    if before.campaign != after.campaign:
        many, one = (a, b) if before.campaign else (b, a)
        kind = next(iter((after if before.campaign else before).registries))
        raise InputError(
            f"{many}: is a campaign's folder, and {one} holds the {kind} registry alone; "
            f"compare that with {many / kind}"
        )
    if not before.campaign and before.registries.keys() != after.registries.keys():
        (first,), (second,) = before.registries, after.registries
        raise InputError(
            f"{b}: holds the {second} registry, and {a} the {first} registry; "
            "compare folders of one registry"
        )


class _Side:
    """One side's entries, in an order that the file does not decide."""

    def __init__(self, registry: Registry[Any] | None) -> None:
        found = () if registry is None else registry.entries
        self.entries: list[Entry] = sorted(found, key=lambda entry: min(entry.source_ids))
        self.place = {
            source_id: number
            for number, entry in enumerate(self.entries)
            for source_id in entry.source_ids
        }

    def name(self, number: int) -> EntryName:
        """Return what an entry goes by."""
        entry = self.entries[number]
        return EntryName(entry_id=entry.entry_id, name=entry.name)

    def parts(self, source_ids: Iterable[str]) -> tuple[EntryPart, ...]:
        """Return these candidates by entry."""
        found: dict[int, list[str]] = {}
        for source_id in source_ids:
            found.setdefault(self.place[source_id], []).append(source_id)
        return tuple(
            EntryPart(
                entry_id=self.entries[number].entry_id,
                name=self.entries[number].name,
                source_ids=tuple(sorted(found[number])),
            )
            for number in sorted(found)
        )


def _compare(
    kind: RegistryKind, before: Registry[Any] | None, after: Registry[Any] | None
) -> RegistryDifference:
    a, b = _Side(before), _Side(after)
    shared: _Shared = {}
    for source_id in sorted(a.place.keys() & b.place.keys()):
        shared.setdefault((a.place[source_id], b.place[source_id]), []).append(source_id)
    merged: list[Regrouped] = []
    split: list[Regrouped] = []
    moved: list[Moved] = []
    renamed: list[Renamed] = []
    changed: list[Changed] = []
    for tangle in _tangles(shared):
        ones, others = ({pair[side] for pair in tangle} for side in (0, 1))
        if len(tangle) == 1:
            one, other = a.entries[min(ones)], b.entries[min(others)]
            if set(one.source_ids) == set(other.source_ids):
                source_ids = tuple(sorted(one.source_ids))
                if one.name != other.name:
                    name = Renamed(source_ids=source_ids, before=one.name, after=other.name)
                    renamed.append(name)
                if fields := _changed_fields(one, other):
                    changed.append(
                        Changed(
                            source_ids=source_ids,
                            before=one.name,
                            after=other.name,
                            fields=fields,
                        )
                    )
        elif len(ones) == 1 or len(others) == 1:
            known = [source_id for ids in tangle.values() for source_id in ids]
            regrouped = Regrouped(before=a.parts(known), after=b.parts(known))
            (split if len(ones) == 1 else merged).append(regrouped)
        else:
            moved += [
                Moved(source_ids=tuple(tangle[pair]), before=a.name(pair[0]), after=b.name(pair[1]))
                for pair in tangle.keys() - _paired(tangle)
            ]
    return RegistryDifference(
        registry=kind,
        only_in="b" if before is None else "a" if after is None else None,
        entries_before=len(a.entries),
        entries_after=len(b.entries),
        merged=tuple(merged),
        split=tuple(split),
        moved=tuple(sorted(moved, key=lambda move: move.source_ids)),
        appeared=b.parts(b.place.keys() - a.place.keys()),
        vanished=a.parts(a.place.keys() - b.place.keys()),
        renamed=tuple(renamed),
        changed=tuple(changed),
    )


def _tangles(shared: _Shared) -> Iterator[_Shared]:
    """Divide the pairs into sets that have no entry in common, that of the smallest id first."""
    near: dict[tuple[int, int], list[_Pair]] = {}  # by side and entry
    for pair in shared:
        for side in (0, 1):
            near.setdefault((side, pair[side]), []).append(pair)
    done: set[_Pair] = set()
    for first in shared:
        tangle: _Shared = {}
        reached = [first]
        while reached:
            pair = reached.pop()
            if pair not in done:
                done.add(pair)
                tangle[pair] = shared[pair]
                for side in (0, 1):
                    reached += near.pop((side, pair[side]), ())
        if tangle:
            yield tangle


def _paired(tangle: _Shared) -> set[_Pair]:
    """Pair entries that share most; on a tie, those that share the smallest id."""
    taken: tuple[set[int], set[int]] = (set(), set())
    pairs: set[_Pair] = set()
    for pair in sorted(tangle, key=lambda pair: (-len(tangle[pair]), tangle[pair][0])):
        if pair[0] not in taken[0] and pair[1] not in taken[1]:
            pairs.add(pair)
            taken[0].add(pair[0])
            taken[1].add(pair[1])
    return pairs


def _changed_fields(one: Entry, other: Entry) -> tuple[str, ...]:
    fields = [field for field in one.__struct_fields__ if field not in {"name", "source_ids"}]
    return tuple(field for field in fields if _content(one, field) != _content(other, field))


def _content(entry: Entry, field: str) -> object:
    """Return what a field holds, in any order; as JSON, where 1, 1.0 and true are not the same."""
    value = getattr(entry, field)
    if field == "aliases":  # with the name, because a rename alone exchanges it for an alias
        value = (entry.name, *value)
    if isinstance(value, tuple):
        return Counter(canonical_json(part) for part in value)
    return canonical_json(value)


def _registry_lines(found: RegistryDifference) -> Iterator[str]:
    """Yield the counts, then lines by kind."""
    kinds: tuple[tuple[str, str, Sequence[Any], Callable[[Any], str]], ...] = (
        ("merged", counted(len(found.merged), "merge", "merges"), found.merged, _regrouped_line),
        ("split", counted(len(found.split), "split", "splits"), found.split, _regrouped_line),
        (
            "moved",
            f"{_candidates(found.moved)} moved",
            found.moved,
            lambda at: f"{some(at.source_ids)} from {_name(at.before)} to {_name(at.after)}",
        ),
        (
            "appeared",
            f"{_candidates(found.appeared)} appeared",
            found.appeared,
            lambda at: f"{some(at.source_ids)} in {_name(at)}",
        ),
        (
            "vanished",
            f"{_candidates(found.vanished)} vanished",
            found.vanished,
            lambda at: f"{some(at.source_ids)} from {_name(at)}",
        ),
        (
            "renamed",
            f"{counted(len(found.renamed), 'entry', 'entries')} renamed",
            found.renamed,
            lambda at: f"{quoted(at.before)} to {quoted(at.after)} ({some(at.source_ids)})",
        ),
        (
            "changed",
            f"{counted(len(found.changed), 'entry', 'entries')} changed",
            found.changed,
            lambda at: f"{quoted(at.after)} in {', '.join(at.fields)} ({some(at.source_ids)})",
        ),
    )
    counts = ", ".join(count for _, count, items, _ in kinds if items) or "no difference"
    if found.only_in is not None:
        counts = f"no such registry {'after' if found.only_in == 'a' else 'before'}, {counts}"
    entries = counted(found.entries_before, "entry", "entries")
    yield f"{found.registry}: {entries} before, {found.entries_after} after; {counts}"
    for label, _, items, line in kinds:
        for item in items[:LINES_MAX]:
            yield f"  {label}: {line(item)}"
        if len(items) > LINES_MAX:
            yield f"  {label}: and {len(items) - LINES_MAX} more"


def _candidates(parts: Sequence[Moved] | Sequence[EntryPart]) -> str:
    return counted(sum(len(part.source_ids) for part in parts), "candidate", "candidates")


def _name(entry: EntryName) -> str:
    return quoted(entry.name)


def _regrouped_line(at: Regrouped) -> str:
    known = sorted(source_id for part in at.before for source_id in part.source_ids)
    before, after = (some([part.name for part in parts]) for parts in (at.before, at.after))
    return f"{before} into {after} ({some(known)})"
