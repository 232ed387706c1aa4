"""Strategies and helpers that the tests of this package share."""

import json
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import pytest
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from notarius.contracts import (
    ModelCandidate,
    Normalized,
    NormalizeRetry,
    Produced,
    StructuralDefect,
    StructuralFailure,
)
from notarius.registries import (
    Candidate,
    Entry,
    ItemCandidate,
    ItemKind,
    ItemNormalizer,
    LocationCandidate,
    LocationNormalizer,
    NpcCandidate,
    NpcNormalizer,
    Registry,
)
from notarius.semanticreconcile import request_ids
from notarius.semanticreconcile.testing import strategies

# Groups as (candidate_ids, canonical_id).
Groups: TypeAlias = list[tuple[list[str], str]]
AnyNormalizer: TypeAlias = NpcNormalizer | ItemNormalizer | LocationNormalizer
Answer: TypeAlias = Normalized[Registry[Any]] | NormalizeRetry[Registry[Any]]

NORMALIZERS: dict[type[Candidate], Callable[[Any], AnyNormalizer]] = {
    NpcCandidate: NpcNormalizer,
    ItemCandidate: ItemNormalizer,
    LocationCandidate: LocationNormalizer,
}
NAMES = ["Zoë", "Zoe\u0308", "ZOË", " zoë ", "Percy", "percy", "Lord Vex", "Lady Vex", "Vex II",
         "Cell 3", "Cell 4", "+1 Longsword", "Longsword", "gold", "5 GP", "10 silver pieces",
         "gold ring", "coins", "\u212bngström", "Straße", "STRASSE", "\ufb01n", "a\u2028b", "\0",
         "c1", "x" * 300]  # fmt: skip
TEXTS = ["", " ", "a dwarf", "a dwarf ", "A DWARF", "\u202e", "nfc é", "nfd e\u0301"]


@pytest.fixture(scope="session")
def reply() -> Callable[[Groups], str]:
    """Write an answer as a model would."""

    def written(groups: Groups) -> str:
        found = [
            {"name": "it", "candidate_ids": list(ids), "canonical_id": canonical}
            for ids, canonical in groups
        ]
        return json.dumps({"duplicate_groups": found})

    return written


@pytest.fixture(scope="session")
def normalizer() -> Callable[[Sequence[Candidate]], AnyNormalizer]:
    """The normalizer for candidates, told by the first of them."""
    return lambda candidates: NORMALIZERS[type(candidates[0])](candidates)


@pytest.fixture(scope="session")
def answer(
    reply: Callable[[Groups], str], normalizer: Callable[[Sequence[Candidate]], AnyNormalizer]
) -> Callable[..., Answer]:
    """What the normalizer makes of groups, of a text, or of a structural failure."""

    def answered(
        candidates: Sequence[Candidate] | AnyNormalizer, produced: Groups | str | StructuralDefect
    ) -> Answer:
        asked = normalizer(candidates) if isinstance(candidates, Sequence) else candidates
        result: ModelCandidate | StructuralFailure
        if isinstance(produced, StructuralDefect):
            result = StructuralFailure(defect=produced, response_sha256="0" * 64, response_bytes=7)
        else:
            text = produced if isinstance(produced, str) else reply(produced)
            result = ModelCandidate.of(text)
        return asked.normalize(Produced(result=result))

    return answered


@pytest.fixture(scope="session")
def applied(answer: Callable[..., Answer]) -> Callable[..., Registry[Any]]:
    """The registry that stands at the end if this answer is the last one."""

    def ended(candidates: Sequence[Candidate] | AnyNormalizer, groups: Groups) -> Registry[Any]:
        found = answer(candidates, groups)
        return found.value if isinstance(found, Normalized) else found.fallback.value

    return ended


@pytest.fixture(scope="session")
def people() -> Callable[..., list[NpcCandidate]]:
    """Make people of these names, with source ids s1, s2 and so on."""

    def made(*names: str) -> list[NpcCandidate]:
        return [NpcCandidate(source_id=f"s{n}", name=name) for n, name in enumerate(names, 1)]

    return made


@pytest.fixture(scope="session")
def items() -> Callable[..., list[ItemCandidate]]:
    """Make items of these names, with source ids s1, s2 and so on."""

    def made(*names: str) -> list[ItemCandidate]:
        return [ItemCandidate(source_id=f"s{n}", name=name) for n, name in enumerate(names, 1)]

    return made


@pytest.fixture(scope="session")
def lost() -> Callable[[Sequence[Candidate], Registry[Any]], list[str]]:
    """Say what a registry lost of its candidates; the same rules as the public data's checker."""
    return what_is_lost


def fold(text: str) -> str:
    """Return what two spellings of one name have in common."""
    return unicodedata.normalize("NFC", text).casefold().strip()


def what_is_lost(candidates: Sequence[Candidate], registry: Registry[Entry]) -> list[str]:
    """Return each text, object or candidate that can't be found in its one entry."""
    held = Counter(source_id for entry in registry.entries for source_id in entry.source_ids)
    offered = {candidate.source_id for candidate in candidates}
    wrong = [f"{source_id}: from nowhere" for source_id in held if source_id not in offered]
    where = {source_id: entry for entry in registry.entries for source_id in entry.source_ids}
    for candidate in candidates:
        if held[candidate.source_id] != 1:
            wrong.append(f"{candidate.source_id}: in {held[candidate.source_id]} entries")
            continue
        entry = where[candidate.source_id]
        names = {fold(name) for name in (entry.name, *entry.aliases)}
        wrong += [
            f"{candidate.source_id}: name {name!r}"
            for name in (candidate.name, *candidate.aliases)
            if fold(name) and fold(name) not in names
        ]
        if candidate.description.strip() and candidate.description not in entry.descriptions:
            wrong.append(f"{candidate.source_id}: description")
        if not set(candidate.evidence) <= set(entry.evidence):
            wrong.append(f"{candidate.source_id}: evidence")
        if isinstance(candidate.extra, dict) and candidate.extra not in entry.extra:
            wrong.append(f"{candidate.source_id}: extra")
    return wrong


def _candidates(kind: type[Candidate], more: dict[str, Any]) -> SearchStrategy[list[Candidate]]:
    name = st.sampled_from(NAMES) | st.text(min_size=1, max_size=5).filter(str.strip)
    text = st.sampled_from(TEXTS) | st.text(max_size=5)
    numbers = st.integers(-(10**30), 10**30) | st.floats(allow_nan=False, allow_infinity=False)
    json_value = st.recursive(
        st.none() | st.booleans() | numbers | text,
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(text, inner, max_size=2),
        max_leaves=3,
    )
    fields: dict[str, SearchStrategy[Any]] = {
        "name": name,
        "aliases": st.lists(name | text, max_size=3).map(tuple),
        "description": text,
        "evidence": st.lists(text, max_size=2).map(tuple),
    }
    optional = {"extra": st.dictionaries(text, json_value, max_size=2), **more}
    made = st.fixed_dictionaries(fields, optional=optional)
    return st.lists(made, min_size=1, max_size=7).map(
        lambda found: [kind(source_id=f"é{n}", **some) for n, some in enumerate(found)]
    )


@pytest.fixture(scope="session")
def candidate_lists() -> SearchStrategy[list[Candidate]]:
    """Lists of candidates of one registry, with odd and with clashing texts."""
    explicit = {
        "item_kind": st.just(ItemKind.CURRENCY),
        "denomination": st.sampled_from(["sp", "gp"]),
    }
    return st.one_of(
        _candidates(NpcCandidate, {}),
        _candidates(LocationCandidate, {}),
        _candidates(ItemCandidate, {}),
        _candidates(ItemCandidate, explicit),
    )


@pytest.fixture(scope="session")
def replies_about() -> Callable[[int], SearchStrategy[Groups]]:
    """Return hostile answers about a number of candidates: clean groups beside every defect."""

    def about(count: int) -> SearchStrategy[Groups]:
        ids = request_ids(count)
        unknown = strategies.near_miss_ids(ids) | strategies.imitating_ids("unknown_candidate")
        return strategies.proposals(ids, unknown=unknown).map(
            lambda found: [
                (list(group.candidate_ids), group.canonical_id) for group in found.groups
            ]
        )

    return about
