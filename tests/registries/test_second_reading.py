"""A second, naive reading of docs/dnd.md and the decisions, beside the real registries.

It knows what each name of a small vocabulary means instead of reading it, compares every pair, and
has nothing but sets and loops. Both must hold the same registry, whatever is proposed.
"""

import dataclasses
import unicodedata
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from notarius.contracts import ModelCandidate, Normalized, Produced, canonical_json
from notarius.registries import (
    STANDARD_COINAGES,
    Candidate,
    Coinage,
    ItemCandidate,
    ItemKind,
    ItemNormalizer,
    LocationCandidate,
    LocationNormalizer,
    NpcCandidate,
    NpcNormalizer,
    RegistryNormalizer,
)
from notarius.semanticreconcile import ProposedGroup
from notarius.semanticreconcile.testing import reply_text, strategies


@dataclasses.dataclass(frozen=True)
class Means:
    """What a name says: what it is without its one mark, the mark, and the coins that it names.

    Marks of different kinds never answer one another, so `mark` names the pair of opposites too.
    """

    base: str
    mark: str = ""
    value: str = ""
    coins: frozenset[str] = frozenset()
    is_money: bool = False


def _marked(base: str, mark: str, **names: str) -> dict[str, Means]:
    return {
        name: Means(base, mark, value) for value, some in names.items() for name in some.split("|")
    }


# The table of docs/dnd.md by example; names of one base and mark differ in that mark alone.
MARKED = {
    **_marked("cell", "number", three="Cell 3|cell #3", four="Cell 4"),
    **_marked("longsword", "bonus", one="+1 Longsword|Longsword +1", two="+2 Longsword"),
    **_marked("", "material", gold="gold", silver="silver", electrum="electrum"),
    **_marked("ring", "material", gold="gold ring", silver="silver ring"),
    **_marked("healing", "degree", greater="Greater Healing", superior="Superior Healing"),
    **_marked("gate", "north or south", north="North Gate", south="South Gate"),
    **_marked("gate", "upper or lower", upper="Upper Gate", lower="Lower Gate"),
    **_marked("gate", "left or right", left="Left Gate", right="Right Gate"),
    **_marked("floor", "ordinal", two="second floor", three="third floor"),
    **_marked("baron vex", "regnal", two="Baron Vex II", three="Baron Vex III", jr="Baron Vex Jr."),
    **_marked("louis", "regnal", fourteen="Louis XIV", fifteen="Louis XV"),
    **_marked("marrow", "title", man="Lord Marrow|Mr. Marrow", woman="Lady Marrow|Mrs. Marrow"),
}
PLAIN = ["Cell", "Longsword", "ring", "Healing", "Gate", "Baron Vex", "Louis", "Marrow", "the mill"]
# What is money by its name, by the coins that the name speaks of.
MONEY = {
    "gp": "gold|20 gp|Gold Pieces|5 gold",
    "sp": "silver|a few silver coins|100 sp",
    "ep": "electrum",
    "crown": "3 crowns|a crown",
    "gp sp": "10 gp and 5 sp|5 sp and 2 gp",
    "cp pp": "3 cp and 2 pp",
    "": "coins|money",
}
# What is none, but speaks of coins: that counts for an item which is said to be money.
THINGS = {
    "gp": "sack of gold|diamond worth 1,200 gold|gold ring",
    "sp": "silver ring",
    "crown": "crown jewels",
}


def vocabulary() -> dict[str, Means]:
    """Return each name with all that it says."""
    found = MARKED | {name: Means(name.casefold()) for name in PLAIN}
    for table, is_money in ((MONEY, True), (THINGS, False)):
        for codes, names in table.items():
            for name in names.split("|"):
                means = found.get(name, Means(name))
                coins = frozenset(codes.split())
                found[name] = dataclasses.replace(means, coins=coins, is_money=is_money)
    return found


VOCABULARY = vocabulary()
OPPOSITES = {"north or south", "upper or lower", "left or right"}
TELLING = {
    "npc": {"number", "left or right", "ordinal", "regnal", "title"},
    "item": {"number", "bonus", "material", "degree", "ordinal", *OPPOSITES},
    "location": {"number", "degree", "ordinal", *OPPOSITES},
}
# Marks whose absence tells too; a numeral's only after a name of two words.
ABSENCE = {"npc": {"regnal"}, "item": {"bonus", "degree"}, "location": set[str]()}
# What the table leaves open: for what is no person, "II" may be a number.
OPEN = {"npc": set[str](), "item": {"regnal"}, "location": {"regnal"}}
KINDS: dict[str, type[Candidate]] = {
    "npc": NpcCandidate,
    "item": ItemCandidate,
    "location": LocationCandidate,
}
CROWN = Coinage(code="crown", label="crowns", names=("crown",))
NORMALIZERS: dict[str, Callable[[Any], RegistryNormalizer[Any, Any]]] = {
    "npc": NpcNormalizer,
    "item": lambda found: ItemNormalizer(found, coinages=(*STANDARD_COINAGES, CROWN)),
    "location": LocationNormalizer,
}


def one_spelling(text: str) -> str:
    """Return a name without what makes no difference: case, width, white space, a number sign."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(folded.replace("#", " ").split())


MEANINGS = {one_spelling(name): means for name, means in VOCABULARY.items()}


def meaning(name: str) -> Means:
    """Return what a name of the vocabulary says."""
    return MEANINGS[one_spelling(name)]


def apart(one: Candidate, other: Candidate, registry: str) -> bool:
    """Whether a telling mark keeps two candidates apart."""
    names = [{one_spelling(n) for n in (c.name, *c.aliases)} - {""} for c in (one, other)]
    if names[0] & names[1]:
        return False
    a, b = meaning(one.name), meaning(other.name)
    if a.base != b.base or a.value == b.value:
        return False
    if a.mark == b.mark:
        return a.mark in TELLING[registry]
    if a.mark and b.mark:
        return False  # two differences
    mark = a.mark or b.mark
    return mark in ABSENCE[registry] and (mark != "regnal" or len(a.base.split()) > 1)


def money(item: ItemCandidate) -> frozenset[str] | None:
    """Return the coins that an item is made of, none for unnamed money, `None` for a thing."""
    if item.item_kind is ItemKind.OBJECT:
        return None
    if item.denomination is not None:
        return frozenset({item.denomination})
    read = meaning(item.name)
    return read.coins if read.is_money or item.item_kind is ItemKind.CURRENCY else None


def may_be_one(members: Sequence[Candidate], registry: str) -> bool:
    """Whether the typed rules let these candidates be one entry."""
    kinds = {money(member) for member in members if isinstance(member, ItemCandidate)}
    if len(kinds) > 1:
        return False
    if kinds and kinds.isdisjoint({None, frozenset()}):
        return True  # a coin is that coin, whatever else its name says
    return not any(apart(a, b, registry) for a, b in combinations(members, 2))


def safe_groups(
    groups: Sequence[ProposedGroup], offered: dict[str, Candidate], registry: str
) -> dict[int, ProposedGroup]:
    """Return the groups that nothing is wrong with, by their place in the reply."""

    def same(one: ProposedGroup, other: ProposedGroup) -> bool:
        return (one.canonical_id, sorted(one.candidate_ids)) == (
            other.canonical_id,
            sorted(other.candidate_ids),
        )

    safe = {}
    for place, group in enumerate(groups):
        ids = set(group.candidate_ids)
        elsewhere = {i for other in groups if not same(group, other) for i in other.candidate_ids}
        if (
            ids <= set(offered)
            and group.canonical_id in ids
            and len(ids) == len(group.candidate_ids) > 1
            and not ids & elsewhere
            and not any(same(group, earlier) for earlier in groups[:place])
            and may_be_one([offered[i] for i in ids], registry)
        ):
            safe[place] = group
    return safe


def once(texts: Sequence[str], key: Callable[[str], str] = str) -> list[str]:
    """Return each text at its first place."""
    return [t for n, t in enumerate(texts) if key(t) not in {key(other) for other in texts[:n]}]


def entries(
    candidates: Sequence[Candidate], safe: Sequence[ProposedGroup], registry: str
) -> list[dict[str, Any]]:
    """Return what a registry must hold if these groups are applied, without entry ids."""
    offered = {f"c{n}": candidate for n, candidate in enumerate(candidates, 1)}
    merged = {i for group in safe for i in group.candidate_ids}
    groups = [(set(group.candidate_ids), group.canonical_id) for group in safe]
    groups += [({i}, i) for i in offered if i not in merged]
    found = []
    for ids, canonical in groups:
        members = [candidate for i, candidate in offered.items() if i in ids]
        name = offered[canonical].name
        names = [name, *(text for m in members for text in (m.name, *m.aliases) if text.strip())]
        entry: dict[str, Any] = {
            "name": name,
            "aliases": once(
                names, lambda text: unicodedata.normalize("NFC", text).strip().casefold()
            )[1:],
            "descriptions": once([m.description for m in members if m.description.strip()]),
            "evidence": once([text for m in members for text in m.evidence]),
            "source_ids": [m.source_id for m in members],
            "extra": [m.extra for m in members if isinstance(m.extra, dict)],
        }
        if registry == "item":
            (coins,) = {money(m) for m in members if isinstance(m, ItemCandidate)}
            entry["item_kind"] = "object" if coins is None else "currency"
            entry["denomination"] = min(coins) if coins is not None and len(coins) == 1 else None
        found.append(entry)
    place = {candidate.source_id: n for n, candidate in enumerate(candidates)}
    return sorted(found, key=lambda entry: min(place[i] for i in entry["source_ids"]))


def spelled(name: str) -> st.SearchStrategy[str]:
    """Return the name in writings that make no difference to the rules."""
    wide = str.maketrans({chr(n): chr(n + 0xFEE0) for n in range(ord("A"), ord("z") + 1)})
    return st.sampled_from(
        [name, name.upper(), name.casefold(), name.translate(wide), f" {name}  "]
    )


@st.composite
def candidate_lists(draw: st.DrawFn, registry: str) -> list[Candidate]:
    """Draw candidates whose names mean something: of few things, so that likes meet."""
    bases = draw(
        st.lists(
            st.sampled_from(sorted({m.base for m in VOCABULARY.values()})), min_size=1, max_size=3
        )
    )
    names = [
        name
        for name, means in VOCABULARY.items()
        if means.mark not in OPEN[registry]
        and (means.base in bases or (registry == "item" and means.is_money))
    ] or ["the mill"]
    fields: dict[str, st.SearchStrategy[Any]] = {
        "name": st.sampled_from(names).flatmap(spelled),
        "aliases": st.lists(st.sampled_from([*names, "", "the Captain"]), max_size=1).map(tuple),
        "description": st.sampled_from(["", " ", "one", "two"]),
        "evidence": st.lists(st.sampled_from(["", "one", "two"]), max_size=3).map(tuple),
    }
    optional: dict[str, st.SearchStrategy[Any]] = {"extra": st.sampled_from([{}, {"n": 1}])}
    if registry == "item":
        fields["said"] = st.sampled_from(
            [
                *[{}] * 6,
                {"item_kind": ItemKind.OBJECT},
                {"item_kind": ItemKind.CURRENCY},
                {"denomination": "gp"},
                {"item_kind": ItemKind.CURRENCY, "denomination": "crown"},
            ]
        )
    made = draw(st.lists(st.fixed_dictionaries(fields, optional=optional), max_size=7))
    return [
        KINDS[registry](source_id=f"s{n}", **one.pop("said", {}), **one)
        for n, one in enumerate(made)
    ]


@settings(max_examples=4 * settings().max_examples)
@pytest.mark.parametrize("registry", KINDS)
@given(data=st.data())
def test_a_naive_reading_holds_the_same_registry(registry: str, data: st.DataObject) -> None:
    """Whatever is proposed: the same groups are refused, and every entry holds the same."""
    candidates = data.draw(candidate_lists(registry))
    normalizer = NORMALIZERS[registry](candidates)
    ids = normalizer.request.ids
    offered = dict(zip(ids, candidates, strict=True))
    groups = data.draw(strategies.proposals(ids)).groups
    found = normalizer.normalize(Produced(result=ModelCandidate.of(reply_text(groups))))
    safe = safe_groups(groups, offered, registry)
    if isinstance(found, Normalized):
        assert len(safe) == len(groups)
        held = found.value
    else:
        assert {issue.group_index for issue in found.issues} == set(range(len(groups))) - set(safe)
        held = found.fallback.value
    kept = msgspec.json.decode(canonical_json(held.entries))
    expected = entries(candidates, list(safe.values()), registry)
    assert [{key: entry[key] for key in entry if key != "entry_id"} for entry in kept] == expected


@pytest.mark.parametrize("registry", KINDS)
def test_a_naive_reading_tells_the_same_pairs_apart(registry: str) -> None:
    """Any two things of the vocabulary, under shared names too, may be one or not in both."""
    said: list[dict[str, Any]] = [{}]
    if registry == "item":
        said += [{"item_kind": kind} for kind in ItemKind]
        said += [{"denomination": code} for code in ("gp", "crown")]
    kind, normalizer = KINDS[registry], NORMALIZERS[registry]
    names = [name for name, means in VOCABULARY.items() if means.mark not in OPEN[registry]]
    shared = [kind(source_id=f"a{n}", name=name, aliases=("it",)) for n, name in enumerate(names)]
    found = [
        kind(source_id=f"s{n}-{place}", name=name, **more)
        for n, name in enumerate(names)
        for place, more in enumerate(said)
    ]
    for some in (found, shared):
        asked = normalizer(some)
        pairs = combinations(zip(asked.request.ids, some, strict=True), 2)
        wrong = [
            (one, other)
            for (i, one), (j, other) in pairs
            if asked.compatible((i, j)) is not may_be_one([one, other], registry)
        ]
        assert wrong == []


@pytest.mark.parametrize("registry", KINDS)
def test_a_naive_reading_tells_the_same_threes_apart(registry: str) -> None:
    """A name that only two of three share vouches for these two alone."""
    shared = [(), ("it",), ("that",), ("it", "that")]
    found = [
        KINDS[registry](source_id=f"{name} {aliases}", name=name, aliases=aliases)
        for name in ("Cell 3", "Cell 4", "Cell")
        for aliases in shared
    ]
    asked = NORMALIZERS[registry](found)
    for places in combinations(range(len(found)), 3):
        ids = [asked.request.ids[place] for place in places]
        members = [found[place] for place in places]
        assert asked.compatible(ids) is may_be_one(members, registry)
