import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from notarius.contracts import (
    GUIDANCE_MAX_BYTES,
    OPERATOR_MESSAGE_MAX_BYTES,
    IssueCount,
    IssueDetails,
)
from notarius.semanticreconcile import (
    ALL_CATEGORIES,
    CATEGORY_PROSE,
    DOMAIN_RULE_MAX_BYTES,
    IssueCategory,
    Part,
    Proposal,
    ProposedGroup,
    RefusedGroup,
    TypedRefusal,
    render_guidance,
    request_ids,
    split_proposal,
    summarize_issues,
)
from notarius.semanticreconcile._render import CLOSING, CLOSING_EMPTY, CLOSING_LONG, MORE

LONGEST_RULE = "é" * 256
LAST = 10**7
IDS = tuple(f"c{LAST - n}" for n in range(40))


def refused_at(
    index: int, categories: list[IssueCategory], *, parts: int = 3, label: str = "gold coins"
) -> RefusedGroup:
    """Return a refused group with these defects, each about many ids."""
    typed = TypedRefusal(
        reason="different kinds of money",
        parts=tuple(Part(label=label, ids=IDS[: 20 - n]) for n in range(parts)),
        domain_rule=True,
    )
    return RefusedGroup(
        index=index,
        ids=IDS,
        issues=tuple(
            IssueDetails(category=category, group_index=index, request_ids=IDS[:16])
            for category in categories
        ),
        typed=typed if IssueCategory.TYPED_APPLICATION_REFUSED in categories else None,
    )


def require_bounded(text: str) -> None:
    """Require that guidance fits, and that it says at its end what to send."""
    assert len(text.encode()) <= GUIDANCE_MAX_BYTES
    closings = [line for line in text.split("\n") if line in (CLOSING, CLOSING_LONG, CLOSING_EMPTY)]
    assert len(closings) == 1
    assert '{"duplicate_groups"' in closings[0]
    numbered = listed(text)
    assert [line.partition(". ")[0] for line in numbered] == [
        str(number) for number in range(1, len(numbered) + 1)
    ]
    assert numbered or closings != [CLOSING]


def listed(text: str) -> list[str]:
    """Return the lines after the closing instruction: the groups that may stay."""
    lines = text.split("\n")
    place = max(lines.index(c) for c in (CLOSING, CLOSING_LONG, CLOSING_EMPTY) if c in lines)
    return lines[place + 1 :]


CATEGORIES = st.lists(st.sampled_from(ALL_CATEGORIES), min_size=1, unique=True)
GROUPS = st.builds(
    refused_at,
    st.integers(0, LAST) | st.integers(LAST - 9, LAST),
    CATEGORIES,
    parts=st.integers(2, 20),
    label=st.sampled_from(["", "gold coins", "Ж" * 64, "\U0001f409" * 2_000]),
)


@given(st.lists(GROUPS, min_size=1, max_size=40), st.sampled_from([None, "Rule.", LONGEST_RULE]))
def test_guidance_is_bounded_for_any_refused_groups(
    refused: list[RefusedGroup], rule: str | None
) -> None:
    """Guidance fits its bound and ends with the request for a complete answer."""
    text = render_guidance(refused, domain_rule=rule)
    require_bounded(text)
    for category in {IssueCategory(issue.category) for g in refused for issue in g.issues}:
        assert CATEGORY_PROSE[category].shape in text
    if rule and any(group.typed for group in refused):
        assert rule in text


@pytest.mark.parametrize("count", [1, 12, 5_000])
def test_all_defects_at_once_fit_with_the_longest_rule(count: int) -> None:
    """Row P2: with every defect in every group, each is told once and nothing is lost."""
    refused = [refused_at(LAST - n, list(ALL_CATEGORIES)) for n in range(count)]
    text = render_guidance(refused, domain_rule=LONGEST_RULE)
    require_bounded(text)
    assert text.count(LONGEST_RULE) == 1
    for category in ALL_CATEGORIES:
        assert text.count(CATEGORY_PROSE[category].shape) == 1


def test_five_thousand_bad_groups_are_told_in_the_bound() -> None:
    """Row P2: guidance does not grow with the reply, and groups left out are still spoken of."""
    ids = request_ids(10_000)
    groups = tuple(
        ProposedGroup(candidate_ids=(*pair, "x"), canonical_id=pair[0])
        for pair in zip(ids[::2], ids[1::2], strict=True)
    )
    split = split_proposal(Proposal(groups=groups), ids, lambda _: None)
    text = render_guidance(split.refused)
    require_bounded(text)
    assert len(listed(text)) > 50
    assert CLOSING_LONG in text


def test_guidance_is_as_long_as_it_may_be() -> None:
    """Nothing is left out for which there is room, to the byte; clashes take half of the room."""
    lengths = []
    for size in range(150, 180):
        refused = [
            RefusedGroup(
                index=n,
                ids=IDS[:2],
                issues=(IssueDetails(category=ALL_CATEGORIES[-1], group_index=n),),
                typed=TypedRefusal(
                    reason="x" * size, parts=(Part(label=f"{n:03}", ids=(f"c{n}", f"d{n}")),)
                ),
            )
            for n in range(200)
        ]
        text = render_guidance(refused)
        before, more, after = text.partition(MORE)
        assert more
        told = re.findall(r"^- Group [1-9]\d*: .*\n", before, re.MULTILINE)
        assert 0.8 < len("".join(told)) / sum(map(len, listed(after))) < 1.2
        lengths.append(len(text))
    # Room is kept for one line more, and each is counted with a line break, which the last lacks.
    assert max(lengths) == GUIDANCE_MAX_BYTES - len(f"{MORE}\n") - 1


def test_what_is_told_does_not_depend_on_what_is_left_out() -> None:
    """The same groups are told in the same bytes, however many more there are."""
    refused = [refused_at(n, [IssueCategory.TYPED_APPLICATION_REFUSED]) for n in range(199)]

    def told(count: int) -> list[str]:
        lines = render_guidance(refused[:count]).split("\n")
        return [line for line in lines if line.startswith("- Group ")]

    assert told(199) == told(110) != told(2)


def test_a_domain_rule_beyond_its_bound_is_a_mistake_of_the_caller() -> None:
    """A rule that could push out other guidance is refused, counted in bytes."""
    refused = [refused_at(0, [IssueCategory.TYPED_APPLICATION_REFUSED])]
    assert len(LONGEST_RULE.encode()) == DOMAIN_RULE_MAX_BYTES
    assert LONGEST_RULE in render_guidance(refused, domain_rule=LONGEST_RULE)
    with pytest.raises(ValueError, match="domain rule"):
        render_guidance(refused, domain_rule=LONGEST_RULE + "é")


def test_a_summary_of_everything_fits_an_operator_message() -> None:
    """The plain words for all defects together leave room in the bound of a message."""
    counts = [IssueCount(category=category, count=LAST) for category in ALL_CATEGORIES]
    said = summarize_issues(counts)
    assert len(said.encode()) < OPERATOR_MESSAGE_MAX_BYTES - 200
    for category in ALL_CATEGORIES:
        assert CATEGORY_PROSE[category].operator_many in said
