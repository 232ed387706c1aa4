import re
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from notarius.contracts import (
    GUIDANCE_MAX_BYTES,
    Normalized,
    NormalizeRetry,
    Role,
    StructuralDefect,
)
from notarius.registries import (
    CURRENCY_GUIDANCE,
    INVALID_OUTPUT,
    UNSAFE_GROUPS,
    Candidate,
    ItemCandidate,
    ItemKind,
    ItemNormalizer,
    LocationCandidate,
    NpcCandidate,
)
from notarius.semanticreconcile import (
    CATEGORY_PROSE,
    DOMAIN_RULE_MAX_BYTES,
    IssueCategory,
    Proposal,
    UnmappedCategoryError,
    _render,
    parse_proposal,
)

Groups: TypeAlias = list[tuple[list[str], str]]
Answer: TypeAlias = Callable[..., Any]
Items: TypeAlias = Callable[..., list[ItemCandidate]]
Reply: TypeAlias = Callable[[Groups], str]

KINDS = (NpcCandidate, ItemCandidate, LocationCandidate)
TYPED = CATEGORY_PROSE[IssueCategory.TYPED_APPLICATION_REFUSED]


def four(kind: type[Candidate], *names: str) -> list[Candidate]:
    """Return four candidates of a registry, of which the first have these names."""
    named = (*names, *("Ada", "Bo", "Cy", "Di")[len(names) :])
    return [kind(source_id=f"s{n}", name=name) for n, name in enumerate(named)]


@pytest.mark.parametrize("kind", KINDS)
def test_every_registry_corrects_an_unsafe_proposal(
    kind: type[Candidate], answer: Answer, reply: Reply
) -> None:
    """The directive carries the exact reply, guidance about it, and the safe part."""
    text = "\r\n  " + reply([(["c1", "c2"], "c1"), (["c3", "c9"], "c3")]).replace(" ", "\t") + "\n"
    found = answer(four(kind), text)
    assert isinstance(found, NormalizeRetry)
    assert found.reason_code == UNSAFE_GROUPS
    assert found.candidate is not None
    assert found.candidate.text == text
    assert found.guidance is not None
    assert CATEGORY_PROSE[IssueCategory.UNKNOWN_CANDIDATE].shape in found.guidance
    assert re.findall(r"Group (\d)", found.guidance) == ["2"]
    assert found.guidance.splitlines()[-1] == "1. c1 and c2"
    held = [entry.source_ids for entry in found.fallback.value.entries]
    assert held == [("s0", "s1"), ("s2",), ("s3",)]
    assert found.clone() == found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("groups", [[], [(["c1", "c2"], "c2"), (["c4", "c3"], "c3")]])
def test_a_safe_proposal_is_accepted(kind: type[Candidate], groups: Groups, answer: Answer) -> None:
    """An answer without defects, also one without groups, asks for nothing more."""
    found = answer(four(kind), groups)
    assert isinstance(found, Normalized)
    assert len(found.value.entries) == 4 - len(groups)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "produced",
    [
        *StructuralDefect,
        "no json",
        '[{"entity": 1}]',
        '{"duplicate_groups": [], "duplicate_groups": []}',
        '{"duplicate_groups": [{"name": "", "candidate_ids": [1, 2], "canonical_id": "1"}]}',
    ],
)
def test_without_a_candidate_there_is_no_guidance(
    kind: type[Candidate], produced: StructuralDefect | str, answer: Answer
) -> None:
    """A structural failure asks again blindly, and falls back on every candidate separate."""
    found = answer(four(kind), produced)
    assert isinstance(found, NormalizeRetry)
    assert found.reason_code == INVALID_OUTPUT
    assert found.candidate is None
    assert found.guidance is None
    assert found.issues == ()
    assert [entry.source_ids for entry in found.fallback.value.entries] == [
        ("s0",),
        ("s1",),
        ("s2",),
        ("s3",),
    ]


def test_the_currency_rule_follows_the_shared_prose(answer: Answer, items: Items) -> None:
    """A clash of coins adds the items' own rule, after the prose and before the last request."""
    found = answer(items("gold", "silver", "rope"), [(["c1", "c2"], "c1"), (["c3", "x"], "c3")])
    told = found.guidance
    unknown = CATEGORY_PROSE[IssueCategory.UNKNOWN_CANDIDATE]
    assert told.index(unknown.shape) < told.index(TYPED.shape) < told.index(CURRENCY_GUIDANCE)
    assert told.index(CURRENCY_GUIDANCE) < told.index('{"duplicate_groups"')
    assert told.count(CURRENCY_GUIDANCE) == 1
    assert len(told.encode()) <= GUIDANCE_MAX_BYTES
    assert len(CURRENCY_GUIDANCE.encode()) <= DOMAIN_RULE_MAX_BYTES


@pytest.mark.parametrize(
    "groups",
    [
        pytest.param([(["c3", "x"], "c3")], id="unknown id"),
        pytest.param([(["c1", "c2"], "c1"), (["c2", "c5"], "c2")], id="coins of one kind overlap"),
        pytest.param([(["c3", "c4"], "c3")], id="things told apart by a mark"),
    ],
)
def test_the_currency_rule_is_told_only_about_money(
    groups: Groups, answer: Answer, items: Items
) -> None:
    """Other defects of item groups get the shared prose alone."""
    found = answer(items("gold", "5 gp", "+1 Longsword", "+2 Longsword", "GP"), groups)
    assert found.guidance is not None
    assert CURRENCY_GUIDANCE not in found.guidance


@pytest.mark.parametrize("kind", [NpcCandidate, LocationCandidate])
def test_people_and_places_know_no_currency(kind: type[Candidate], answer: Answer) -> None:
    """People and places named after coins may be one, and are never told of money."""
    candidates = four(kind, "Gold", "Silver", "Cell 3", "Cell 4")
    assert isinstance(answer(candidates, [(["c1", "c2"], "c1")]), Normalized)
    told = answer(candidates, [(["c1", "c2"], "c1"), (["c3", "c4"], "c3")]).guidance
    assert TYPED.shape in told
    assert "money" not in told
    assert "coin" not in told


def test_guidance_says_which_ids_are_which_coin(answer: Answer, items: Items) -> None:
    """For a clash of coins the model learns what each id is, and what could still be a group."""
    names = ("gold", "5 sp", "gold ring", "20 gp", "silver", "ring of gold", "coins")
    found = answer(items(*names), [([f"c{n}" for n in range(1, 8)], "c1")])
    (clash,) = (line for line in found.guidance.split("\n") if line.startswith("- Group 1:"))
    assert "gold coins: c1 and c4" in clash
    assert "silver coins: c2 and c5" in clash
    assert "not money: c3 and c6" in clash
    assert sorted(re.findall(r"c\d", clash)) == [f"c{n}" for n in range(1, 8)]
    assert may_stay(found.guidance) == [["c2", "c5"], ["c1", "c4"], ["c3", "c6"]]


def may_stay(guidance: str) -> list[list[str]]:
    """Return the ids of each group in the list at the end."""
    lines = guidance.split("\n")
    return [re.findall(r"c\d+", line) for line in lines if re.match(r"\d+\. ", line)]


def test_what_is_no_coin_is_told_apart_by_marks_too(answer: Answer) -> None:
    """Of a group with coins in it, things that a mark tells apart are parts of their own."""
    candidates = [
        ItemCandidate(source_id="s1", name="north gold", item_kind=ItemKind.CURRENCY),
        ItemCandidate(source_id="s2", name="south gold", item_kind=ItemKind.CURRENCY),
        *(
            ItemCandidate(source_id=name, name=name)
            for name in ("+1 Longsword", "+2 Longsword", "Longsword (+1)")
        ),
    ]
    told = answer(candidates, [([f"c{n}" for n in range(1, 6)], "c1")]).guidance
    assert "gold coins: c1 and c2;" in told
    assert may_stay(told) == [["c1", "c2"], ["c3", "c5"]]


def test_like_names_are_not_called_one_thing(answer: Answer) -> None:
    """Guidance about marks leaves open whether members of one name, or of none, are the same."""
    names = ("Guard 1", "Guard 2", "James", "James", "!", "?")
    candidates = [NpcCandidate(source_id=f"s{n}", name=name) for n, name in enumerate(names)]
    told = answer(candidates, [([f"c{n}" for n in range(1, 7)], "c1")]).guidance
    assert re.search(r"\d\. c3 and c4 \(only if", told)


def test_a_list_that_is_copied_is_accepted(answer: Answer, items: Items) -> None:
    """What guidance lists as what may stay is what the checks accept, from all groups together."""
    candidates = items("gold", "5 sp", "gold ring", "20 gp", "silver", "rope", "a rope")
    wrong = [(["c1", "c2", "c3"], "c1"), (["c4", "c5"], "c4"), (["c6", "c7"], "c6")]
    found = answer(candidates, wrong)
    again = answer(candidates, [(ids, ids[0]) for ids in may_stay(found.guidance)])
    assert isinstance(again, Normalized)
    assert [entry.source_ids for entry in again.value.entries] == [
        ("s1", "s4"),
        ("s2", "s5"),
        ("s3",),
        ("s6", "s7"),
    ]


TELLING = (
    "gold", "20 gp", "silver", "10 gp and 5 sp", "coins", "North March scrip", "South March scrip",
    "+1 Longsword", "+2 Longsword", "Longsword", "gold ring", "silver ring", "Cell 3", "Cell 4",
    "Guard 2", "Guard 3", "Bob", "Lord Marrow", "Lady Marrow", "North Gate", "South Gate",
)  # fmt: skip


@given(
    kind=st.sampled_from([NpcCandidate, ItemCandidate, LocationCandidate]),
    named=st.lists(
        st.tuples(st.sampled_from(TELLING), st.sampled_from([(), ("Bob",), ("the other",)])),
        min_size=2,
        max_size=8,
    ),
    data=st.data(),
)
def test_any_list_that_is_copied_is_accepted(
    kind: type[Candidate],
    named: list[tuple[str, tuple[str, ...]]],
    data: st.DataObject,
    replies_about: Callable[[int], st.SearchStrategy[Groups]],
    answer: Answer,
) -> None:
    """Whatever was refused about names that tell apart, no check refuses the list at the end."""
    candidates = [
        kind(source_id=f"s{n}", name=name, aliases=aliases)
        for n, (name, aliases) in enumerate(named)
    ]
    whole = [f"c{n}" for n in range(1, len(candidates) + 1)]
    groups = data.draw(st.just([(whole, "c1")]) | replies_about(len(candidates)))
    found = answer(candidates, groups)
    if isinstance(found, NormalizeRetry):
        assert found.guidance
        again = [(ids, ids[0]) for ids in may_stay(found.guidance)]
        assert isinstance(answer(candidates, again), Normalized)


def test_an_alias_that_two_share_keeps_them_together(answer: Answer) -> None:
    """Guidance does not call two different that the checks would take for one."""
    candidates = [
        NpcCandidate(source_id="s1", name="Guard 2", aliases=("Bob",)),
        NpcCandidate(source_id="s2", name="Guard 3", aliases=("bob",)),
        NpcCandidate(source_id="s3", name="Guard 4"),
    ]
    told = answer(candidates, [(["c1", "c2", "c3"], "c1")]).guidance
    assert "(c1 and c2; c3)" in told
    assert may_stay(told) == [["c1", "c2"]]


@given(data=st.data())
def test_guidance_of_real_registries_is_closed(
    data: st.DataObject,
    candidate_lists: st.SearchStrategy[list[Candidate]],
    replies_about: Callable[[int], st.SearchStrategy[Groups]],
    answer: Answer,
) -> None:
    """Neither candidates nor replies bring a code, a name or an invented id into guidance."""
    candidates = data.draw(candidate_lists)
    marked = [type(c)(source_id=c.source_id, name=f"{c.name} Kanari") for c in candidates]
    groups = [
        ([i if i in live(candidates) else f"Kanari {i}" for i in ids], canonical)
        for ids, canonical in data.draw(replies_about(len(candidates)))
    ]
    found = answer(marked, groups)
    if isinstance(found, Normalized):
        return
    told = found.guidance
    assert len(told.encode()) <= GUIDANCE_MAX_BYTES
    assert told.count('{"duplicate_groups"') == 1
    codes = set(re.findall(r"[a-z]+_[a-z_]+", told.casefold()))
    assert codes <= {"duplicate_groups", "candidate_ids", "canonical_id"}
    assert "kanari" not in told.casefold()
    assert set(re.findall(r"\bc\d+", told)) <= set(live(candidates))


def live(candidates: Sequence[Candidate]) -> tuple[str, ...]:
    """Return the ids that a request about these candidates offers."""
    return tuple(f"c{n}" for n in range(1, len(candidates) + 1))


@pytest.mark.parametrize("kind", KINDS)
def test_each_registry_asks_in_its_own_words(
    kind: type[Candidate], normalizer: Callable[[Sequence[Candidate]], Any], answer: Answer
) -> None:
    """The example of every registry's prompt is an answer that its own checks accept."""
    asked = normalizer(four(kind))
    (user,) = (m.content for m in asked.request.prompt.messages if m.role is Role.USER)
    lines = user.split("\n")
    assert isinstance(parse_proposal(lines[-1]), Proposal)
    examples = re.findall(r"^c\d+: (.*)$", user, re.MULTILINE)[4:]
    example = [kind(source_id=f"e{n}", name=name) for n, name in enumerate(examples)]
    found = answer(example, lines[-1])
    assert isinstance(found, Normalized)
    assert len(found.value.entries) < len(example)


def test_a_category_without_prose_stops_the_normalizer(
    answer: Answer, items: Items, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fail closed: where a defect can't be explained nothing is sent and nothing is applied."""
    known = tuple(c for c in IssueCategory if c is not IssueCategory.UNKNOWN_CANDIDATE)
    monkeypatch.setattr(_render, "ALL_CATEGORIES", known)
    asked = ItemNormalizer(items("gold", "silver"))
    with pytest.raises(UnmappedCategoryError):
        answer(asked, [(["c1", "x"], "c1")])
