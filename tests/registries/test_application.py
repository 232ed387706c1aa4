import unicodedata
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from notarius.contracts import ContractError, InvariantError, Normalized, canonical_json
from notarius.registries import (
    Candidate,
    Entry,
    ItemCandidate,
    LocationCandidate,
    NpcCandidate,
    NpcNormalizer,
    Registry,
)
from notarius.registries._apply import members_of
from notarius.semanticreconcile import SafeGroup

Groups: TypeAlias = list[tuple[list[str], str]]
Lists: TypeAlias = st.SearchStrategy[list[Candidate]]
Replies: TypeAlias = Callable[[int], st.SearchStrategy[Groups]]
Applied: TypeAlias = Callable[..., Registry[Any]]
Lost: TypeAlias = Callable[[Sequence[Candidate], Registry[Any]], list[str]]
People: TypeAlias = Callable[..., list[NpcCandidate]]


def person(source_id: str, name: str, **fields: Any) -> NpcCandidate:  # noqa: ANN401 - any field
    """Return a person."""
    return NpcCandidate(source_id=source_id, name=name, **fields)


def by_members(registry: Registry[Any]) -> dict[tuple[str, ...], Entry]:
    """Return the entries by the candidates that they hold."""
    return {entry.source_ids: entry for entry in registry.entries}


@given(data=st.data())
def test_nothing_is_ever_lost(
    data: st.DataObject,
    candidate_lists: Lists,
    replies_about: Replies,
    applied: Applied,
    lost: Lost,
) -> None:
    """Whatever is proposed, each candidate and each of its texts is in exactly one entry."""
    candidates = data.draw(candidate_lists)
    registry = applied(candidates, data.draw(replies_about(len(candidates))))
    assert lost(candidates, registry) == []
    place = {candidate.source_id: n for n, candidate in enumerate(candidates)}
    members = [[place[source_id] for source_id in e.source_ids] for e in registry.entries]
    # In input order inside an entry, and entries in the order of their first candidate.
    assert members == sorted(sorted(some) for some in members)


@given(data=st.data())
def test_only_whole_clean_groups_apply(
    data: st.DataObject, candidate_lists: Lists, replies_about: Replies, applied: Applied
) -> None:
    """An entry of several candidates is a proposed group, whole, under its canonical name."""
    candidates = data.draw(candidate_lists)
    groups = data.draw(replies_about(len(candidates)))
    proposed = {
        tuple(sorted(c.source_id for n, c in enumerate(candidates, 1) if f"c{n}" in ids)): (
            ids,
            canonical,
        )
        for ids, canonical in groups
    }
    for entry in applied(candidates, groups).entries:
        if len(entry.source_ids) > 1:
            ids, canonical = proposed[tuple(sorted(entry.source_ids))]
            assert len(ids) == len(set(ids)) == len(entry.source_ids)
            assert entry.name == candidates[int(canonical.removeprefix("c")) - 1].name


@given(data=st.data())
def test_a_refused_group_leaves_no_trace(
    data: st.DataObject,
    candidate_lists: Lists,
    replies_about: Replies,
    answer: Callable[..., Any],
    applied: Applied,
) -> None:
    """Row 35: the registry is, byte for byte, that of the safe groups alone."""
    candidates = data.draw(candidate_lists)
    groups = data.draw(replies_about(len(candidates)))
    found = answer(candidates, groups)
    if isinstance(found, Normalized):
        return
    refused = {issue.group_index for issue in found.issues}
    rest = [group for index, group in enumerate(groups) if index not in refused]
    alone = answer(candidates, rest)
    assert isinstance(alone, Normalized)
    assert canonical_json(found.fallback.value) == canonical_json(alone.value)
    assert found.fallback.refused_groups == len(refused)
    # Entries of candidates that no safe group names are those of a run without any group.
    named = {request_id for ids, _ in rest for request_id in ids}
    separate = by_members(applied(candidates, []))
    merged = by_members(found.fallback.value)
    for number, candidate in enumerate(candidates, 1):
        if f"c{number}" not in named:
            assert merged[candidate.source_id,] == separate[candidate.source_id,]


@pytest.mark.parametrize(
    ("groups", "left"),
    [
        pytest.param([(["c1", "c2", "c9"], "c1")], 5, id="an invented id"),
        pytest.param([(["c1", "c2", "c2"], "c1")], 5, id="a repeated id"),
        pytest.param([(["c1", "c2"], "c3")], 5, id="a canonical id from outside"),
        pytest.param([(["c1", "c2"], "c1"), (["c2", "c3"], "c3")], 5, id="overlapping groups"),
        pytest.param([(["c1", "c2"], "c1"), (["c1", "c2"], "c2")], 5, id="two canonical ids"),
        pytest.param([(["c4", "c5"], "c4")], 5, id="what can't be one entry"),
        pytest.param([(["c1", "c2", "c4", "c5"], "c1")], 5, id="a right part of a wrong group"),
        pytest.param([(["c1", "c2"], "c1"), (["c2", "c1"], "c1")], 4, id="the same group again"),
    ],
)
def test_a_group_is_applied_whole_or_not_at_all(
    groups: Groups, left: int, applied: Applied, people: People
) -> None:
    """No defective group is trimmed to what would be right about it: its candidates stay apart."""
    candidates = people("Ada", "Adah", "Bo", "Cell 3", "Cell 4")
    registry = applied(candidates, groups)
    assert len(registry.entries) == left
    if left == len(candidates):
        assert registry == NpcNormalizer(candidates).separate()


@given(data=st.data())
def test_order_and_repetition_do_not_matter(
    data: st.DataObject, candidate_lists: Lists, replies_about: Replies, applied: Applied
) -> None:
    """Rows 17 and 37: shuffled groups and members, or a second run, give the same bytes."""
    candidates = data.draw(candidate_lists)
    groups = data.draw(replies_about(len(candidates)))
    shuffled = [
        (data.draw(st.permutations(ids)), canonical)
        for ids, canonical in data.draw(st.permutations(groups))
    ]
    before = canonical_json(candidates)
    once = canonical_json(applied(candidates, groups))
    assert once == canonical_json(applied(candidates, groups))
    assert once == canonical_json(applied(candidates, shuffled))
    assert canonical_json(candidates) == before


@given(data=st.data())
def test_an_entry_id_depends_on_the_members_alone(
    data: st.DataObject, candidate_lists: Lists, replies_about: Replies, applied: Applied
) -> None:
    """Neither texts, nor the canonical candidate, nor the order of the list change an id."""
    candidates = data.draw(candidate_lists)
    groups = data.draw(replies_about(len(candidates)))
    kind = type(candidates[0])
    bare = [kind(source_id=c.source_id, name="Bo") for c in candidates]
    shuffled = data.draw(st.permutations(bare))
    ids: dict[frozenset[str], str] = {}
    for some, proposal in ((candidates, groups), (bare, []), (bare, groups), (shuffled, groups)):
        for entry in applied(some, proposal).entries:
            assert ids.setdefault(frozenset(entry.source_ids), entry.entry_id) == entry.entry_id
    assert len(set(ids.values())) == len(ids)


def test_an_entry_keeps_its_id_when_the_list_is_turned(applied: Applied, people: People) -> None:
    """The order in which candidates were extracted is no part of an entry's identity."""
    candidates = people("Ada", "Adah", "Bo")
    group = [(["c1", "c2"], "c1")], [(["c3", "c2"], "c2")]
    (one, _), (_, other) = (
        applied(some, groups).entries
        for some, groups in zip((candidates, candidates[::-1]), group, strict=True)
    )
    assert (one.source_ids, other.source_ids) == (("s1", "s2"), ("s2", "s1"))
    assert one.entry_id == other.entry_id


def test_other_registries_have_other_entry_ids(applied: Applied) -> None:
    """Row 57: nothing of one registry has the identity of something in another."""
    kinds = (NpcCandidate, ItemCandidate, LocationCandidate)
    entries = [applied([kind(source_id="s1", name="Bo")], []).entries[0] for kind in kinds]
    assert len({entry.entry_id for entry in entries}) == 3


def test_what_each_member_brought_is_kept(applied: Applied) -> None:
    """Rows 31 and 32: descriptions and evidence add up, once each, in input order."""
    first = person("s1", "Percy", description="a lord", evidence=("x", "y"))
    second = person("s2", "Percival", description="a gunslinger", evidence=("y", "z"))
    third = person("s3", "Lord Percival", description="a lord", aliases=("PERCY",))
    (entry,) = applied([first, second, third], [(["c3", "c2", "c1"], "c2")]).entries
    assert entry.name == "Percival"
    assert entry.aliases == ("Percy", "Lord Percival")
    assert entry.descriptions == ("a lord", "a gunslinger")
    assert entry.evidence == ("x", "y", "z")
    assert entry.source_ids == ("s1", "s2", "s3")


def test_the_first_spelling_is_kept(applied: Applied) -> None:
    """Row 40: composed, decomposed and differently cased forms are one alias, the first."""
    first = person("s1", "the smith", aliases=("Zoe\u0308", " ZOË ", "", " \t"))
    second = person("s2", "Zoë", aliases=("zoë", "THE SMITH"))
    (entry,) = applied([first, second], [(["c1", "c2"], "c1")]).entries
    assert entry.aliases == ("Zoe\u0308",)
    (entry,) = applied([first, second], [(["c1", "c2"], "c2")]).entries
    assert (entry.name, entry.aliases) == ("Zoë", ("the smith",))


def test_a_long_name_is_not_composed(applied: Applied) -> None:
    """Up to the limit two spellings are one name; beyond it only case and outer space are."""
    name = "Zoe\u0308".ljust(4096, "x")
    for longer, kept in (("", 0), ("x", 1)):
        spelled = person("s1", name + longer, aliases=(f"{name.upper()}{longer}",))
        composed = person("s2", unicodedata.normalize("NFC", name) + longer)
        (entry,) = applied([spelled, composed], [(["c1", "c2"], "c1")]).entries
        assert len(entry.aliases) == kept


def test_aliases_are_not_unique_across_entries(applied: Applied) -> None:
    """Row 33: two people may both be called the Captain."""
    candidates = [person("s1", "Ada", aliases=("the Captain",)), person("s2", "the Captain")]
    entries = applied(candidates, []).entries
    assert [(entry.name, entry.aliases) for entry in entries] == [
        ("Ada", ("the Captain",)),
        ("the Captain", ()),
    ]


def test_a_single_entry_says_what_it_is_made_of(applied: Applied, people: People) -> None:
    """Row 36: a merge can be undone by hand, because an entry names its candidates."""
    registry = applied(people("Ada", "Bo", "Adah"), [(["c1", "c3"], "c3")])
    assert [entry.source_ids for entry in registry.entries] == [("s1", "s3"), ("s2",)]
    assert [entry.name for entry in registry.entries] == ["Adah", "Bo"]


def test_extra_is_carried_through_untouched(applied: Applied) -> None:
    """Large numbers, nesting, order and odd keys of `extra` come out as they went in."""
    text = b'{"n":12345678901234567890123456,"f":1.5,"":{"b":[{"a":null}],"a":[]},"u":"\\u2028"}'
    extra = msgspec.json.decode(text)
    candidates = [
        person("s1", "Ada", extra=extra),
        person("s2", "Bo"),
        person("s3", "Cy", extra={}),
    ]
    (entry,) = applied(candidates, [(["c1", "c2", "c3"], "c2")]).entries
    assert entry.extra == (extra, {})
    assert list(entry.extra[0]) == ["n", "f", "", "u"]
    assert msgspec.json.encode(entry.extra[0]) == msgspec.json.encode(extra)


@pytest.mark.parametrize("count", [0, 1])
def test_a_short_list_needs_no_group(count: int, people: People) -> None:
    """An empty list and a single candidate make a request, a registry and no fuss."""
    normalizer = NpcNormalizer(people(*["Ada"] * count))
    assert len(normalizer.request.ids) == count
    registry = normalizer.separate()
    assert [entry.name for entry in registry.entries] == ["Ada"] * count
    assert registry.schema == "notarius.registry.npc.v1"


def test_a_repeated_source_id_is_an_error(people: People) -> None:
    """Two candidates can't have one identity: an entry could not say which it holds."""
    with pytest.raises(ContractError, match="source_id"):
        NpcNormalizer([*people("Ada", "Bo"), person("s2", "Cy")])


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"name": " "}, "`name`"),
        ({"source_id": ""}, "`source_id`"),
        ({"name": 1}, "`name`"),
        ({"aliases": ("\ud800",)}, "surrogate"),
        ({"aliases": (1,)}, "must be texts"),
    ],
)
def test_a_blank_or_broken_text_is_an_error(fields: dict[str, Any], said: str) -> None:
    """A candidate has a name and an identity, and all its texts can be written as UTF-8."""
    with pytest.raises(ContractError, match=said):
        NpcCandidate(**{"source_id": "s1", "name": "Ada", **fields})


def test_a_candidate_of_another_registry_is_no_candidate() -> None:
    """A line of another kind, or with a key that nobody knows, is not read as a candidate."""
    for line in (b'"kind":"npc"', b'"denomination":"gp"', b'"nmae":"x"', b'"aliases":[1]'):
        text = b'{"source_id":"s1","name":"Ada",' + line + b"}"
        with pytest.raises(msgspec.ValidationError):
            msgspec.json.decode(text, type=LocationCandidate)
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"source_id":"s1","name":"Ada","nmae":"x"}', type=Candidate)


def test_groups_that_share_a_candidate_are_never_applied() -> None:
    """The last line of defence: application itself refuses to put a candidate into two entries."""
    groups = [SafeGroup(index=n, ids=("c1", f"c{n}"), canonical_id="c1") for n in (2, 3)]
    with pytest.raises(InvariantError, match="share a candidate"):
        members_of(3, ("c1", "c2", "c3"), groups)
