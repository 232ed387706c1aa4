import traceback
from collections.abc import Callable, Mapping
from types import MappingProxyType

import pytest

from notarius.contracts import InvariantError, IssueCount, IssueDetails, NotariusError
from notarius.semanticreconcile import (
    ALL_CATEGORIES,
    CATEGORY_PROSE,
    IssueCategory,
    Prose,
    RefusedGroup,
    UnmappedCategoryError,
    render_guidance,
    summarize_issues,
)

FUTURE = "future_defect"


def refused_for(category: str) -> list[RefusedGroup]:
    """Return one group that is refused for this category alone."""
    issue = IssueDetails(category=category, group_index=0, request_ids=("c1", "c2"))
    return [RefusedGroup(index=0, ids=("c1", "c2"), issues=(issue,))]


def without(category: IssueCategory) -> Mapping[IssueCategory, Prose]:
    """Return the words for all other categories."""
    return {key: words for key, words in CATEGORY_PROSE.items() if key is not category}


def require_silent(error: BaseException, raw: str) -> None:
    """Require that an error says something, and nowhere, however printed, the raw category."""
    assert len(str(error).split()) > 3
    chain: list[BaseException | None] = [error, error.__cause__, error.__context__]
    for link in filter(None, chain):
        shown = [str(link), repr(link), repr(link.args), *getattr(link, "__notes__", ())]
        shown += traceback.format_exception_only(link)
        assert raw not in " ".join(shown)


def test_every_category_has_words() -> None:
    """The list of all categories, the enumeration and the prose have the same members."""
    assert list(ALL_CATEGORIES) == list(IssueCategory)
    assert set(CATEGORY_PROSE) == set(IssueCategory)


@pytest.mark.parametrize("category", IssueCategory)
def test_no_words_are_empty_or_code(category: IssueCategory) -> None:
    """Each text for a category is prose: words with spaces, and no category's raw name."""
    words = CATEGORY_PROSE[category]
    for field in Prose.__struct_fields__:
        text: str = getattr(words, field)
        assert len(text.split()) >= 3, field
        assert text == text.strip()
        assert not any(raw.value in text for raw in IssueCategory)


@pytest.mark.parametrize("category", IssueCategory)
def test_a_category_without_prose_fails_closed(category: IssueCategory) -> None:
    """Where one category has no words nothing is rendered, and the error does not name it."""
    with pytest.raises(UnmappedCategoryError) as caught:
        render_guidance(refused_for(category), prose=without(category))
    require_silent(caught.value, category.value)


def test_one_unmapped_defect_among_others_stops_everything() -> None:
    """Guidance is never sent in part: one group that can't be explained stops the whole."""
    groups = [*refused_for("unknown_candidate"), *refused_for(FUTURE)]
    with pytest.raises(UnmappedCategoryError):
        render_guidance(groups)


@pytest.mark.parametrize(
    "speak",
    [
        pytest.param(lambda: render_guidance(refused_for(FUTURE)), id="guidance"),
        pytest.param(
            lambda: summarize_issues([IssueCount(category=FUTURE, count=2)]), id="summary"
        ),
    ],
)
def test_a_category_that_nobody_knows_fails_closed(speak: Callable[[], str]) -> None:
    """A category from the future raises, and its raw value is nowhere in the error."""
    with pytest.raises(UnmappedCategoryError) as caught:
        speak()
    require_silent(caught.value, FUTURE)


def test_a_missing_category_is_a_fault_of_the_program() -> None:
    """The error is told apart from a caller's mistake and from a model's bad reply."""
    assert issubclass(UnmappedCategoryError, InvariantError)
    assert issubclass(UnmappedCategoryError, NotariusError)
    assert not issubclass(UnmappedCategoryError, ValueError)


def test_the_words_can_not_be_changed() -> None:
    """The prose is read-only, so that it can't differ from what the fingerprint saw."""
    assert isinstance(CATEGORY_PROSE, MappingProxyType)
    with pytest.raises(AttributeError):
        CATEGORY_PROSE[IssueCategory.REPEATED_GROUP].one = "x"


@pytest.mark.parametrize("category", IssueCategory)
def test_operators_read_one_and_many(category: IssueCategory) -> None:
    """A summary says for how many groups, in the words for one or for many."""
    words = CATEGORY_PROSE[category]
    one = summarize_issues([IssueCount(category=category, count=1)])
    many = summarize_issues([IssueCount(category=category, count=23)])
    assert one.startswith("1 ")
    assert one.endswith(words.operator_one)
    assert many.startswith("23 ")
    assert many.endswith(words.operator_many)
    assert category.value not in one + many
    both = [IssueCount(category=category, count=1), IssueCount(category=category, count=23)]
    assert summarize_issues(both) == f"{one}; {many}"
