import gc
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from notarius.contracts import ISSUE_IDS_MAX, ISSUES_MAX
from notarius.semanticreconcile import (
    ALL_CATEGORIES,
    IssueCategory,
    Proposal,
    ProposedGroup,
    Split,
    TypedRefusal,
    _decode,
    request_ids,
    split_proposal,
)

Check: TypeAlias = Callable[[tuple[str, ...]], TypedRefusal | None]

UNKNOWN, REPEATED, TOO_FEW, CANONICAL, OVERLAP, AGAIN, TYPED = (
    {category} for category in ALL_CATEGORIES
)


def proposal(*written: str) -> Proposal:
    """Return the groups written as `c1: c1 c2`, the canonical id first."""
    groups = []
    for text in written:
        canonical, _, ids = text.partition(":")
        groups.append(ProposedGroup(canonical_id=canonical, candidate_ids=tuple(ids.split())))
    return Proposal(groups=tuple(groups))


def allow_all(ids: tuple[str, ...]) -> TypedRefusal | None:
    """Refuse nothing."""


def verdicts(split: Split) -> list[set[str]]:
    """Return the categories of each group, in the order of the reply."""
    found = {group.index: {str(i.category) for i in group.issues} for group in split.refused}
    found |= {group.index: set() for group in split.safe}
    return [found[index] for index in range(len(found))]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        pytest.param(["c1:c1 c2"], [set()], id="clean"),
        pytest.param([], [], id="no groups"),
        pytest.param(["c1:c1 c12"], [UNKNOWN], id="row 1: an invented id"),
        pytest.param(["c99:c1 c2"], [UNKNOWN | CANONICAL], id="row 2: an invented canonical id"),
        pytest.param(["c1:c1 c2 c2"], [REPEATED], id="row 3: a repeated id"),
        pytest.param(["c1:c1 c3_b2"], [UNKNOWN], id="row 9: a suffix on an id"),
        pytest.param(["c1:c1 c1"], [REPEATED | TOO_FEW], id="row 10: merged with itself"),
        pytest.param(["c1:c1 c2", "c4:c2 c4"], [OVERLAP, OVERLAP], id="row 12: two groups"),
        pytest.param(["c2:c1 c2", "c4:c2 c4"], [OVERLAP, OVERLAP], id="row 13: a chain"),
        pytest.param(
            ["c1:c1 c99", "c2:c2 c4", "c5:c5", "c7:c7 c8", "c9:c9 c6"],
            [UNKNOWN, set(), TOO_FEW, set(), set()],
            id="row P6: bad groups 1 and 3 of 5",
        ),
        pytest.param(["c1:c1"], [TOO_FEW], id="one id"),
        pytest.param(["c1:"], [TOO_FEW | CANONICAL], id="no id"),
        pytest.param(["c4:c1 c2"], [CANONICAL], id="a canonical id from outside"),
        pytest.param(["c4:c1 c2", "c4:c4 c5"], [CANONICAL, set()], id="its own group is clean"),
        pytest.param(["c1:c1 c2", "c1:c1 c2"], [set(), AGAIN], id="the same group again"),
        pytest.param(["c1:c1 c2", "c1:c2 c1"], [set(), AGAIN], id="again, turned around"),
        pytest.param(["c1:c1 c2"] * 3, [set(), AGAIN, AGAIN], id="three times"),
        pytest.param(["c1:c1 c2", "c2:c1 c2"], [OVERLAP, OVERLAP], id="another canonical id"),
        pytest.param(["c1:c1 c2", "c1:c1 c2 c4"], [OVERLAP, OVERLAP], id="one in the other"),
        pytest.param(
            ["c1:c1 c2", "c1:c1 c2 c2"], [OVERLAP, OVERLAP | REPEATED], id="no exact repeat"
        ),
        pytest.param(
            ["c1:c1 c2", "c1:c1 c2", "c4:c4 c2"],
            [OVERLAP, OVERLAP | AGAIN, OVERLAP],
            id="a repeat that overlaps",
        ),
        pytest.param(["c1:c1 c2", "c2:c2 c99"], [OVERLAP, OVERLAP | UNKNOWN], id="bad neighbour"),
        pytest.param(["c1:c1 x", "c2:c2 x"], [UNKNOWN, UNKNOWN], id="an invented id in two"),
        pytest.param(["c1:C1 c2"], [UNKNOWN | CANONICAL], id="another case"),
        pytest.param(["1:1 2"], [UNKNOWN], id="bare numbers"),
        pytest.param(["[c1]:[c1] c2"], [UNKNOWN], id="brackets"),
        pytest.param(["c2:c2 c3"], [TYPED], id="typed"),
        pytest.param(["c2:c2 c3 c99"], [TYPED | UNKNOWN], id="typed, beside another defect"),
        pytest.param(["c3:c3 c99"], [UNKNOWN], id="nothing to clash with"),
        pytest.param(["c3:c3 c6"], [set()], id="of one kind"),
        pytest.param(
            ["c99:c2 c3 c3 c98", "c4:c3 c4"],
            [UNKNOWN | REPEATED | CANONICAL | OVERLAP | TYPED, OVERLAP | TYPED],
            id="nearly everything",
        ),
    ],
)  # fmt: skip
def test_a_group_has_exactly_its_defects(
    written: list[str], expected: list[set[str]], live: tuple[str, ...], thirds: Check
) -> None:
    """Each defect is seen, alone and beside others, and none that is not there."""
    split = split_proposal(proposal(*written), live, thirds)
    assert verdicts(split) == expected
    for group in split.refused:
        assert set(filter(group.has, ALL_CATEGORIES)) == expected[group.index]


def test_one_group_of_all_ids_applies_only_if_the_types_allow(
    live: tuple[str, ...], thirds: Check
) -> None:
    """Row 15: everything in one group is no defect by itself, and is never inferred."""
    everything = proposal(f"c1:{' '.join(live)}")
    assert split_proposal(everything, live, allow_all).safe[0].ids == live
    assert verdicts(split_proposal(everything, live, thirds)) == [TYPED]
    two = split_proposal(proposal("c1:c1 c2", "c4:c4 c5"), live, allow_all)
    assert [group.ids for group in two.safe] == [("c1", "c2"), ("c4", "c5")]


def naive(groups: Sequence[ProposedGroup], offered: set[str], check: Check) -> list[set[str]]:
    """Say the category table again, with nothing but sets."""
    found = []
    for at, group in enumerate(groups):
        ids = set(group.candidate_ids)
        same = [
            Counter(other.candidate_ids) == Counter(group.candidate_ids)
            and other.canonical_id == group.canonical_id
            for other in groups
        ]
        others = [set(g.candidate_ids) for g, equal in zip(groups, same, strict=True) if not equal]
        known = ids & offered
        has = {
            IssueCategory.UNKNOWN_CANDIDATE: not (ids | {group.canonical_id}) <= offered,
            IssueCategory.REPEATED_CANDIDATE: len(ids) != len(group.candidate_ids),
            IssueCategory.TOO_FEW_CANDIDATES: len(ids) < 2,
            IssueCategory.CANONICAL_NOT_IN_GROUP: group.canonical_id not in ids,
            IssueCategory.OVERLAPPING_GROUPS: any(known & other for other in others),
            IssueCategory.REPEATED_GROUP: any(same[:at]),
            IssueCategory.TYPED_APPLICATION_REFUSED: len(known) > 1
            and check(tuple(known)) is not None,
        }
        found.append({str(category) for category, there in has.items() if there})
    return found


@given(data=st.data())
def test_a_second_reading_of_the_rules_agrees(
    data: st.DataObject,
    proposals: st.SearchStrategy[Proposal],
    live: tuple[str, ...],
    thirds: Check,
) -> None:
    """Only clean groups are safe, whole and as proposed; every other one is refused, whole."""
    drawn = data.draw(proposals)
    split = split_proposal(drawn, live, thirds)
    assert verdicts(split) == naive(drawn.groups, set(live), thirds)
    for safe in split.safe:
        group = drawn.groups[safe.index]
        assert sorted(safe.ids) == sorted(group.candidate_ids)
        assert safe.canonical_id == group.canonical_id
    for refused in split.refused:
        known = set(drawn.groups[refused.index].candidate_ids) & set(live)
        assert sorted(refused.ids) == sorted(known)
        assert refused.issues
    held = [request_id for safe in split.safe for request_id in safe.ids]
    assert len(held) == len(set(held))


@given(data=st.data())
def test_order_does_not_matter(
    data: st.DataObject,
    proposals: st.SearchStrategy[Proposal],
    live: tuple[str, ...],
    thirds: Check,
) -> None:
    """Shuffled groups with shuffled members get the same verdicts and the same safe groups."""
    drawn = data.draw(proposals)
    groups = [
        ProposedGroup(
            candidate_ids=tuple(data.draw(st.permutations(group.candidate_ids))),
            canonical_id=group.canonical_id,
        )
        for group in data.draw(st.permutations(drawn.groups))
    ]
    one, other = (split_proposal(p, live, thirds) for p in (drawn, Proposal(groups=tuple(groups))))

    def safe(split: Split) -> set[tuple[tuple[str, ...], str]]:
        return {(group.ids, group.canonical_id) for group in split.safe}

    assert safe(one) == safe(other)
    assert one.issue_counts == other.issue_counts
    assert Counter(map(frozenset, verdicts(one))) == Counter(map(frozenset, verdicts(other)))


@given(data=st.data())
def test_issues_name_offered_ids_alone(
    data: st.DataObject,
    hostile_proposals: st.SearchStrategy[Proposal],
    live: tuple[str, ...],
    canary: str,
) -> None:
    """What operators see of a proposal holds no text that the model invented."""
    split = split_proposal(data.draw(hostile_proposals), live, allow_all)
    for issue in split.issues:
        assert set(issue.request_ids) <= set(live)
    assert canary.casefold() not in f"{split!r} {split.debug_view()}".casefold()


def test_issue_details_are_bounded_and_counts_complete() -> None:
    """However many groups are refused, details stop at their bound and counts do not."""
    ids = request_ids(100)
    groups = [f"c1:{' '.join(ids)} c{n}" for n in range(200, 300)]
    split = split_proposal(proposal(*groups), ids, allow_all)
    assert len(split.issues) == ISSUES_MAX
    assert {len(issue.request_ids) for issue in split.issues} == {ISSUE_IDS_MAX}
    assert {item.category: item.count for item in split.issue_counts} == {
        IssueCategory.UNKNOWN_CANDIDATE: 100,
        IssueCategory.OVERLAPPING_GROUPS: 100,
    }


def test_every_defect_of_a_group_counts_once() -> None:
    """Counts say how many groups have a defect, not how often a group has it."""
    split = split_proposal(proposal("c1:c1 x y z", "c2:c2 c2 c2"), request_ids(2), allow_all)
    counts = {str(item.category): item.count for item in split.issue_counts}
    assert counts == dict.fromkeys(UNKNOWN | REPEATED | TOO_FEW, 1)


def test_an_operator_finds_the_group_again(live: tuple[str, ...], thirds: Check) -> None:
    """Issue details give a group's place from 0 and all its offered ids, which stay apart."""
    split = split_proposal(proposal("c1:c1 c2", "c4:c4 c5 c5", "c5:c5 c7 c99"), live, thirds)
    assert [(i.category, i.group_index, i.request_ids) for i in split.issues] == [
        ("repeated_candidate", 1, ("c4", "c5")),
        ("overlapping_groups", 1, ("c4", "c5")),
        ("unknown_candidate", 2, ("c5", "c7")),
        ("overlapping_groups", 2, ("c5", "c7")),
    ]  # fmt: skip


@given(data=st.data())
def test_the_check_sees_offered_ids_in_list_order(
    data: st.DataObject, hostile_proposals: st.SearchStrategy[Proposal], live: tuple[str, ...]
) -> None:
    """Typed application is asked about two or more offered ids, never about an invented one."""
    asked: list[tuple[str, ...]] = []

    def check(ids: tuple[str, ...]) -> None:
        asked.append(ids)

    split_proposal(data.draw(hostile_proposals), live, check)
    for ids in asked:
        assert len(ids) > 1
        assert [i for i in live if i in ids] == list(ids)


def test_groups_are_none_of_the_garbage_collector_s_business() -> None:
    """It goes through no group of a long reply: each would be looked at again and again."""
    # Made at run time: a tuple that stands in the code is not tracked anyway.
    groups = tuple(
        ProposedGroup(candidate_ids=tuple(ids.split()), canonical_id="c1")
        for ids in ("c1 c2", "c3 c9")
    )
    split = split_proposal(Proposal(groups=groups), ("c1", "c2", "c3"), lambda _: None)
    assert (len(split.safe), len(split.refused)) == (1, 1)
    read = '{"duplicate_groups": [{"candidate_ids": ["c1"], "canonical_id": "c1"}]}'
    decoded = _decode._CLOSED.decode(read).duplicate_groups
    every = (*decoded, *groups, *split.safe, *split.refused)
    assert not any(map(gc.is_tracked, every))
