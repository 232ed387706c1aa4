import re
from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from notarius.contracts import (
    SAMPLE_MAX_BYTES,
    SAMPLES_MAX,
    NormalizeRetry,
    ProcessWarning,
    StructuralDefect,
    fallback_warning,
)
from notarius.registries import Candidate, ItemCandidate, NpcCandidate, NpcNormalizer, Registry
from notarius.semanticreconcile import CATEGORY_PROSE, IssueCategory

Groups: TypeAlias = list[tuple[list[str], str]]
Answer: TypeAlias = Callable[..., Any]
People: TypeAlias = Callable[..., list[NpcCandidate]]

DEFECTIVE: dict[IssueCategory, Groups] = {
    IssueCategory.UNKNOWN_CANDIDATE: [(["c1", "x"], "c1")],
    IssueCategory.REPEATED_CANDIDATE: [(["c1", "c2", "c2"], "c1")],
    IssueCategory.TOO_FEW_CANDIDATES: [(["c1"], "c1")],
    IssueCategory.CANONICAL_NOT_IN_GROUP: [(["c1", "c2"], "c3")],
    IssueCategory.OVERLAPPING_GROUPS: [(["c1", "c2"], "c1"), (["c2", "c3"], "c3")],
    IssueCategory.REPEATED_GROUP: [(["c1", "c2"], "c1"), (["c2", "c1"], "c1")],
    IssueCategory.TYPED_APPLICATION_REFUSED: [(["c4", "c5"], "c4")],
}


def warning(found: NormalizeRetry[Registry[Any]]) -> ProcessWarning:
    """Return the warning if this directive is the last one."""
    return fallback_warning(
        final_code=found.reason_code,
        final_message=found.operator_message,
        applied=found.fallback,
    )


def counted(message: str) -> list[int]:
    """Return the numbers of a message, in order."""
    return [int(digits) for digits in re.findall(r"(?<!\w)\d+(?!\w)", message)]


@pytest.mark.parametrize("category", IssueCategory)
def test_a_warning_says_what_was_wrong_in_plain_words(
    category: IssueCategory, answer: Answer, people: People
) -> None:
    """Each kind of defect is told in words for people, without its code, and what it means."""
    found = answer(people("Ada", "Bo", "Cy", "Cell 3", "Cell 4"), DEFECTIVE[category])
    assert [item.category for item in found.issue_counts] == [category]
    told = warning(found)
    words = CATEGORY_PROSE[category]
    assert words.operator_one in told.message or words.operator_many in told.message
    assert category.value not in told.message
    assert "preserved separately" in told.message
    assert told.refused_groups == len(found.issues) == len(told.samples)


@pytest.mark.parametrize("defect", StructuralDefect)
def test_a_warning_says_why_an_answer_was_none(
    defect: StructuralDefect, answer: Answer, people: People
) -> None:
    """Each structural defect has plain words of its own, and says that nothing was applied."""
    others = [answer(people("Ada", "Bo"), other) for other in StructuralDefect if other != defect]
    found = answer(people("Ada", "Bo"), defect)
    told = warning(found)
    assert found.operator_message not in [other.operator_message for other in others]
    assert not re.search(r"[a-z]+_[a-z_]+", told.message)
    assert "preserved separately" in told.message
    assert counted(told.message) == [2]
    assert told.samples == ()
    assert told.refused_groups == 0


@pytest.mark.parametrize(
    ("groups", "counts"),
    [
        # Proposed groups, groups a defect; applied, refused, candidates apart.
        ([(["c1", "c9"], "c1")], [1, 1, 0, 1, 1]),
        ([(["c1", "c2"], "c1"), (["c3", "c4", "c9"], "c3")], [2, 1, 1, 1, 2]),
        ([(["c1", "c2"], "c1"), (["c2", "c3"], "c2"), (["c4", "c5"], "c4")], [3, 2, 1, 2, 3]),
        ([(["c1", "c2"], "c1")] * 3, [3, 2, 1, 2, 0]),
        ([(["x", "y"], "x")] * 2, [2, 2, 1, 0, 2, 0]),
        ([(["c1", "c1"], "c1"), (["c2"], "c2")], [2, 1, 2, 0, 2, 2]),
    ],
)
def test_a_warning_counts_right(
    groups: Groups, counts: list[int], answer: Answer, people: People
) -> None:
    """It says how many groups were proposed, applied and refused, and how many stay apart."""
    found = answer(people("Ada", "Bo", "Cy", "Di", "Ed"), groups)
    told = warning(found)
    assert counted(told.message) == counts
    assert not re.search(r"\b1 [a-z ]*groups\b", told.message)
    assert told.refused_groups == len({issue.group_index for issue in found.issues})


def test_candidates_of_an_applied_group_are_not_called_apart(
    answer: Answer, people: People
) -> None:
    """A refused copy of an applied group leaves no candidate separate, and none is counted."""
    found = answer(people("Ada", "Bo"), [(["c1", "c2"], "c1")] * 2)
    assert len(found.fallback.value.entries) == 1
    assert counted(found.fallback.preserved) == [1, 1, 0]


def test_samples_name_candidates_and_are_few(answer: Answer, people: People) -> None:
    """The first refused groups are shown by their candidates' names; there are never many."""
    names = [f"Person {chr(65 + n)}" for n in range(12)]
    groups: Groups = [([f"c{n}", f"c{n + 1}", "x"], f"c{n}") for n in range(1, 12)]
    found = answer(people(*names), groups)
    samples = warning(found).samples
    assert len(samples) == SAMPLES_MAX
    for number, sample in enumerate(samples, 1):
        assert counted(sample) == [number]
        assert names[number - 1] in sample
        assert names[number] in sample


def test_a_sample_says_how_many_it_leaves_out(answer: Answer, people: People) -> None:
    """Four candidates are named, each by at most 48 bytes, and by a mark where nothing shows."""
    candidates = people("\x00", "x" * 49, "y" * 48, "Di", "Ed", "Flo")
    groups: Groups = [([f"c{n}" for n in range(1, last)], "x") for last in (5, 7)]
    few, many = answer(candidates, groups).fallback.samples
    assert counted(few) == [1]
    assert counted(many) == [2, 2]
    blank, cut, whole, _ = few.removeprefix("group 1: ").split("; ")
    assert (blank, whole) == ("?", "y" * 48)
    assert len(cut.encode()) == 48


@pytest.mark.parametrize(
    "name", ["x" * 1_000_000, "\x00\x1b[31m\u202e\n\u2028Ada", "\x00", "é" * 99]
)
def test_samples_are_bounded_lines_whatever_a_name_is(
    name: str, answer: Answer, people: People
) -> None:
    """A name of a megabyte or of control characters can't flood or trick a terminal."""
    found = answer(people(*[name] * 9), [([f"c{n}" for n in range(1, 10)], "x")])
    (sample,) = warning(found).samples
    assert len(sample.encode()) <= SAMPLE_MAX_BYTES
    assert sample.isprintable()


def test_a_sample_never_names_what_was_not_offered(answer: Answer, people: People) -> None:
    """A group of invented ids alone has a sample too, which names nobody."""
    found = answer(people("Ada", "Bo"), [(["KANARI", "c7"], "KANARI")])
    (sample,) = found.fallback.samples
    assert "KANARI" not in sample
    assert "Ada" not in sample
    assert "Bo" not in sample


@given(data=st.data())
def test_no_text_of_the_model_is_left_behind(
    data: st.DataObject,
    candidate_lists: st.SearchStrategy[list[Candidate]],
    replies_about: Callable[[int], st.SearchStrategy[Groups]],
    answer: Answer,
) -> None:
    """Neither invented ids nor invented names stand in a warning, a `repr` or a debug view."""
    candidates = data.draw(candidate_lists)
    groups = data.draw(replies_about(len(candidates)))
    invented = [
        {"name": "Kanari", "candidate_ids": [*ids, "Kanari"], "canonical_id": canonical}
        for ids, canonical in groups
    ]
    text = msgspec.json.encode({"duplicate_groups": invented, "Kanari": "Kanari"}).decode()
    found = answer(candidates, text)
    if isinstance(found, NormalizeRetry):
        told = msgspec.json.encode(warning(found)).decode()
        issues = msgspec.json.encode(found.issues).decode()
        for shown in (told, issues, repr(found), str(found.debug_view())):
            assert "kanari" not in shown.casefold()
        # The guidance itself is private too.
        assert found.guidance is not None
        assert found.guidance[:40] not in repr(found) + str(found.debug_view())


def test_items_say_preserved_as_the_others_do(answer: Answer) -> None:
    """A clash of coins ends with the coins apart, and the warning says so."""
    items = [ItemCandidate(source_id=f"s{n}", name=name) for n, name in enumerate(["gp", "sp"])]
    found = answer(items, [(["c1", "c2"], "c1")])
    told = warning(found)
    assert "preserved separately" in told.message
    assert counted(told.message) == [1, 1, 0, 1, 2]
    assert [entry.denomination for entry in found.fallback.value.entries] == ["gp", "sp"]


def test_the_message_is_bounded_for_a_huge_reply(answer: Answer, people: People) -> None:
    """Five thousand groups with every defect make one message of ordinary size."""
    every = [group for groups in DEFECTIVE.values() for group in groups]
    found = answer(people("Ada", "Bo", "Cy", "Cell 3", "Cell 4"), every * 500)
    told = warning(found)
    assert told.refused_groups == len(every) * 500
    assert isinstance(told, ProcessWarning)


def test_a_sequence_of_candidates_is_not_kept_open(answer: Answer, people: People) -> None:
    """A list that the caller changes later changes nothing in the normalizer."""
    candidates = people("Ada", "Bo")
    asked = NpcNormalizer(candidates)
    candidates.clear()
    assert len(answer(asked, StructuralDefect.EMPTY).fallback.value.entries) == 2
