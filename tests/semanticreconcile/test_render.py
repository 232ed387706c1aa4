import re
from collections.abc import Callable
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from notarius.semanticreconcile import (
    ALL_CATEGORIES,
    CATEGORY_PROSE,
    IssueCategory,
    Part,
    Proposal,
    ProposedGroup,
    RefusedGroup,
    SafeGroup,
    TypedRefusal,
    render_guidance,
    request_ids,
    split_proposal,
)
from notarius.semanticreconcile._render import CLOSING, CLOSING_EMPTY, IF_SAME, MORE

Check: TypeAlias = Callable[[tuple[str, ...]], TypedRefusal | None]
Render: TypeAlias = Callable[[Proposal], str]

PROTOCOL_KEYS = {"duplicate_groups", "candidate_ids", "canonical_id"}
RULE = "Rule for money: coins stay apart."


@pytest.fixture(scope="session")
def render(live: tuple[str, ...], thirds: Check) -> Render:
    """Return the guidance for a proposal, which must have a refused group."""

    def rendered(proposal: Proposal) -> str:
        return render_guidance(split_proposal(proposal, live, thirds).refused, domain_rule=RULE)

    return rendered


def group(ids: str, canonical: str = "") -> ProposedGroup:
    """Return a group of these ids, of which the first is the canonical one if none is named."""
    return ProposedGroup(
        candidate_ids=tuple(ids.split()), canonical_id=canonical or ids.split(maxsplit=1)[0]
    )


def groups(*written: str) -> Proposal:
    """Return the groups of these ids."""
    return Proposal(groups=tuple(map(group, written)))


def numbers(text: str) -> set[int]:
    """Return the numbers in a text that are no part of an id."""
    return {int(digits) for digits in re.findall(r"(?<!\w)\d+(?!\w)", text)}


def ids_in(text: str) -> set[str]:
    """Return what looks like an id of a request."""
    return set(re.findall(r"(?<!\w)c\d+(?!\w)", text))


@given(data=st.data())
def test_guidance_is_closed_whatever_the_model_wrote(
    data: st.DataObject,
    hostile_proposals: st.SearchStrategy[Proposal],
    live: tuple[str, ...],
    thirds: Check,
    canary: str,
) -> None:
    """No category, code, URL or invented id reaches the model; only offered ids and numbers."""
    drawn = data.draw(hostile_proposals)
    refused = split_proposal(drawn, live, thirds).refused
    if not refused:
        return
    text = render_guidance(refused, domain_rule=RULE)
    assert set(re.findall(r"[a-z]+_[a-z_]+", text.casefold())) <= PROTOCOL_KEYS
    assert "http" not in text
    assert "://" not in text
    assert canary.casefold() not in text.casefold()
    assert ids_in(text) <= set(live) & {i for g in drawn.groups for i in g.candidate_ids}
    named = [int(number) for number in re.findall(r"Groups? (\d+)", text)]
    assert named
    assert all(1 <= number <= len(drawn.groups) for number in named)


@given(data=st.data())
def test_other_inventions_get_the_same_guidance(
    data: st.DataObject,
    hostile_proposals: st.SearchStrategy[Proposal],
    live: tuple[str, ...],
    render: Render,
) -> None:
    """Guidance does not depend on what an invented id says, only on its being invented."""
    drawn = data.draw(hostile_proposals)

    def renamed(request_id: str) -> str:
        return request_id if request_id in live else f"another {request_id!a}"

    other = Proposal(
        groups=tuple(
            ProposedGroup(
                candidate_ids=tuple(map(renamed, g.candidate_ids)),
                canonical_id=renamed(g.canonical_id),
            )
            for g in drawn.groups
        )
    )
    try:
        expected = render(drawn)
    except ValueError:
        with pytest.raises(ValueError, match="without a refused group"):
            render(other)
    else:
        assert render(other) == expected


@pytest.mark.parametrize("category", ALL_CATEGORIES)
def test_every_category_tells_the_defect_and_the_right_shape(category: IssueCategory) -> None:
    """Each kind of defect is explained in its own words, which no other kind shares."""
    examples = {
        IssueCategory.UNKNOWN_CANDIDATE: groups("c1 x"),
        IssueCategory.REPEATED_CANDIDATE: groups("c1 c1 c2"),
        IssueCategory.TOO_FEW_CANDIDATES: groups("c1"),
        IssueCategory.CANONICAL_NOT_IN_GROUP: Proposal(groups=(group("c1 c2", "c4"),)),
        IssueCategory.OVERLAPPING_GROUPS: groups("c1 c2", "c2 c4"),
        IssueCategory.REPEATED_GROUP: groups("c1 c2", "c1 c2"),
        IssueCategory.TYPED_APPLICATION_REFUSED: groups("c5 c7"),
    }

    def check(ids: tuple[str, ...]) -> TypedRefusal | None:
        parts = (Part(label="", ids=ids[:1]), Part(label="", ids=ids[1:]))
        return TypedRefusal(reason="apart", parts=parts) if "c7" in ids else None

    split = split_proposal(examples[category], ("c1", "c2", "c4", "c5", "c7"), check)
    assert [item.category for item in split.issue_counts] == [category]
    text = render_guidance(split.refused)
    assert [c for c in ALL_CATEGORIES if CATEGORY_PROSE[c].shape in text] == [category]
    words = CATEGORY_PROSE[category]
    assert (words.one in text) == (len(split.refused) == 1)
    assert (words.many in text) == (len(split.refused) > 1)
    assert text.count('{"duplicate_groups"') == 1


def test_groups_are_counted_from_one(render: Render) -> None:
    """A model counts its groups as people do: the first one is group 1."""
    text = render(groups("c1 c4 x", "c2 c5", "c3 c6 y"))
    told = [numbers(line) for line in text.split("\n") if line.startswith("- ")]
    assert told == [{1, 3}]


def last_lines(text: str) -> list[str]:
    """Return what follows the request for an answer: the groups that may stay."""
    return text.partition(f"\n{CLOSING}\n")[2].split("\n")


def test_the_groups_that_were_right_are_listed_first(live: tuple[str, ...]) -> None:
    """What is to be kept is said as plainly as what is to be changed."""
    split = split_proposal(groups("c2 c7 x", "c1 c3", "c5 c6"), live, lambda _: None)
    assert last_lines(render_guidance(split.refused, kept=split.safe)) == [
        "1. c1 and c3",
        "2. c5 and c6",
        f"3. c2 and c7 ({IF_SAME})",
    ]


@given(data=st.data())
def test_an_answer_copied_from_the_list_is_refused_by_no_check(
    data: st.DataObject,
    hostile_proposals: st.SearchStrategy[Proposal],
    live: tuple[str, ...],
    thirds: Check,
) -> None:
    """The groups that may stay share no id and break no rule, all of them together or some."""
    split = split_proposal(data.draw(hostile_proposals), live, thirds)
    if not split.refused:
        return
    text = render_guidance(split.refused, kept=split.safe, domain_rule=RULE)
    if CLOSING not in text:
        return
    listed = [re.findall(r"c\d+", line) for line in last_lines(text)]
    assert all(len(ids) > 1 for ids in listed)
    copied = groups(*(" ".join(ids) for ids in listed))
    assert split_proposal(copied, live, thirds).refused == ()


@pytest.mark.parametrize(
    ("count", "told"),
    [
        (2, "c1 and c2"),
        (3, "c1, c2 and c3"),
        (12, "c1, c2, c3, c4, c5, c6, c7, c8, c9, c10, c11 and c12"),
        (15, "c1, c2, c3, c4, c5, c6, c7, c8, c9, c10, c11, c12 and 3 more"),
    ],
)
def test_of_a_long_group_the_first_ids_are_named(
    count: int, told: str, live: tuple[str, ...]
) -> None:
    """A list names a dozen ids and says how many more there are."""
    refused = split_proposal(groups("c1 x"), live, lambda _: None).refused
    kept = [SafeGroup(index=1, ids=request_ids(count), canonical_id="c1")]
    assert last_lines(render_guidance(refused, kept=kept)) == [f"1. {told}"]


@pytest.mark.parametrize(
    ("count", "told"), [(1, {1}), (10, set(range(1, 11))), (13, {*range(1, 11), 3})]
)
def test_of_many_wrong_groups_the_first_are_numbered(count: int, told: set[int]) -> None:
    """A sentence numbers ten groups and says how many more there are."""
    split = split_proposal(
        groups(*(f"c{number} x" for number in range(count))), request_ids(99), lambda _: None
    )
    (line,) = (line for line in render_guidance(split.refused).split("\n") if line.startswith("- "))
    assert line.startswith("- Groups ") == (count > 1)
    assert numbers(line) == told


@pytest.mark.parametrize(("count", "told"), [(1, []), (8, []), (11, ["and 3 more kinds"])])
def test_of_a_clash_of_many_kinds_the_first_are_told(count: int, told: list[str]) -> None:
    """Eight parts of a group are told apart, with their labels; how many more there are is said."""
    kinds = ["", *(f"kind {n}" for n in range(2, count + 1))]
    parts = tuple(Part(label=kind, ids=(f"c{n}",)) for n, kind in enumerate(kinds, start=1))
    split = split_proposal(
        groups("c1 c2"), ("c1", "c2"), lambda _: TypedRefusal(reason="kinds", parts=parts)
    )
    text = render_guidance(split.refused)
    (line,) = (line for line in text.split("\n") if line.startswith("- Group 1: "))
    assert line.partition(" (")[2].removesuffix(").").split("; ") == [
        "c1",
        *(f"kind {n}: c{n}" for n in range(2, min(count, 8) + 1)),
        *told,
    ]
    assert MORE not in text


def test_one_defect_of_many_groups_is_one_sentence(render: Render) -> None:
    """A defect is explained once, for all groups that have it."""
    text = render(groups("c1 x", "c2 y", "c4 z", "c5 c5 c7"))
    words = CATEGORY_PROSE[IssueCategory.UNKNOWN_CANDIDATE]
    (line,) = (line for line in text.split("\n") if words.shape in line)
    assert numbers(line) == {1, 2, 3}
    assert text.count(words.shape) == text.count(words.many) == 1


def test_the_valid_rest_is_named(render: Render) -> None:
    """For a group with a wrong id the model learns which of its ids are right."""
    text = render(groups("c1 x c2 y c4"))
    assert ids_in(text) == {"c1", "c2", "c4"}


def test_groups_of_which_nothing_can_stay_are_not_listed(render: Render) -> None:
    """A group without two valid ids can't be mended: its absence is what is asked for."""
    assert last_lines(render(groups("c1 x", "c2 c5 x", "x y", "c7 c7")))[1:] == []
    assert render(groups("c1 x", "x y")).endswith(CLOSING_EMPTY)


def test_a_clash_of_coins_says_which_is_which_and_what_may_stay(render: Render) -> None:
    """For a typed refusal the model learns what each id is, and which ids could be a group."""
    text = render(groups("c1 c2 c3 c6"))
    (clash,) = (line for line in text.split("\n") if line.startswith("- Group 1:"))
    assert re.search(r"gold coins: c3 and c6\b", clash)
    assert re.search(r"not money: c1 and c2\b", clash)
    # Coins of one kind are the same; other things only perhaps.
    right, perhaps = last_lines(text)
    assert ids_in(right) == {"c3", "c6"}
    assert IF_SAME not in right
    assert ids_in(perhaps) == {"c1", "c2"}
    assert IF_SAME in perhaps


def test_one_kind_of_coin_is_listed_once(render: Render) -> None:
    """Coins of one kind that stand in several wrong groups are one group that may stay."""
    right = last_lines(render(groups("c1 c3", "c2 c6")))
    assert [ids_in(line) for line in right] == [{"c3", "c6"}]


def test_a_clash_of_single_things_leaves_no_group(render: Render) -> None:
    """Where no two ids of a refused group may stay together, the group is to go."""
    assert render(groups("c1 c3")).endswith(CLOSING_EMPTY)


def test_a_shared_id_is_listed_once(render: Render) -> None:
    """Of overlapping groups each id is listed in one, so that a copy of the list is right."""
    assert last_lines(render(groups("c1 c2", "c2 c4 c5", "c5 c1"))) == [
        f"1. c1 and c2 ({IF_SAME})",
        f"2. c4 and c5 ({IF_SAME})",
    ]


def test_the_domain_rule_is_told_only_if_it_was_broken(
    live: tuple[str, ...], thirds: Check
) -> None:
    """The registry's own rule follows the shared prose, and only for a group that broke it."""
    broken = split_proposal(groups("c1 c3", "c2 x"), live, thirds).refused
    text = render_guidance(broken, domain_rule=RULE)
    shapes = [CATEGORY_PROSE[c].shape for c in ALL_CATEGORIES if CATEGORY_PROSE[c].shape in text]
    assert len(shapes) == 2
    assert max(map(text.index, shapes)) < text.index(RULE) < text.index(CLOSING_EMPTY)
    assert RULE not in render_guidance(broken)
    kept = split_proposal(groups("c1 x", "c3 c6 c6"), live, thirds).refused
    assert RULE not in render_guidance(kept, domain_rule=RULE)
    other = TypedRefusal(reason="another", parts=(Part(label="", ids=("c1", "c2")),))
    plain = RefusedGroup(index=0, ids=("c1", "c2"), issues=broken[0].issues, typed=other)
    assert RULE not in render_guidance([plain], domain_rule=RULE)


def test_there_is_no_guidance_about_nothing() -> None:
    """Without a refused group there is nothing to correct."""
    with pytest.raises(ValueError, match="refused"):
        render_guidance([])
