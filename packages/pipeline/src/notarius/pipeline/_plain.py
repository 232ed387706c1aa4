"""Plain words for what receipts record, for a person: no code or category is among them.

What another version of notarius may have written, and this one has no words for, gets general
ones.
"""

from collections.abc import Callable, Mapping
from typing import Final, TypeVar, assert_never

from notarius.contracts import AttemptCause, AttemptResult, StructuralDefect
from notarius.pipeline._page import Outcome
from notarius.pipeline._shown import counted
from notarius.semanticreconcile import CATEGORY_PROSE, IssueCategory

E = TypeVar("E", AttemptCause, AttemptResult, StructuralDefect)
T = TypeVar("T")

_UNKNOWN_DEFECT: Final = ("has a defect", "have defects")


def cause_words(cause: str) -> str:
    """Say why an attempt was made."""
    return _said(cause, AttemptCause, _cause_words, "asked for another reason")


def result_words(result: str) -> tuple[str, str]:
    """Say how an attempt ended, and in which tone that is told."""
    return _said(result, AttemptResult, _result_words, ("ended in another way", "off"))


def defect_words(defect: str) -> str:
    """Say what made a reply useless."""
    return _said(defect, StructuralDefect, _defect_words, "for another reason")


def _said(value: str, kind: type[E], words: Callable[[E], T], unknown: T) -> T:
    """Return the words for a value; another version may have written one without."""
    try:
        return words(kind(value))
    except ValueError:
        return unknown


def category_words(category: str) -> tuple[str, str]:
    """Return what is wrong with one group, and with several."""
    try:
        prose = CATEGORY_PROSE[IssueCategory(category)]
    except ValueError:
        return _UNKNOWN_DEFECT
    return prose.operator_one, prose.operator_many


def issue_words(counts: Mapping[str, int]) -> str:
    """Say how many groups were refused for what."""
    said: dict[tuple[str, str], int] = {}
    for category, count in counts.items():
        words = category_words(category)
        said[words] = said.get(words, 0) + count
    return "; ".join(
        f"{counted(count, 'group', 'groups')} {one if count == 1 else many}"
        for (one, many), count in said.items()
    )


def _cause_words(cause: AttemptCause) -> str:
    match cause:
        case AttemptCause.INITIAL:
            return "first question"
        case AttemptCause.STRUCTURAL_RETRY:
            return "asked again, since the reply before could not be used"
        case AttemptCause.MODULE_RETRY:
            return "asked again, without a correction"
        case AttemptCause.CORRECTIVE_RETRY:
            return "asked again, with a correction of the reply before"
        case _:
            assert_never(cause)


def _result_words(result: AttemptResult) -> tuple[str, str]:
    match result:
        case AttemptResult.ACCEPTED:
            return "accepted", "good"
        case AttemptResult.REFUSED:
            return "not safe as a whole", "warn"
        case AttemptResult.STRUCTURAL:
            return "reply could not be used", "warn"
        case AttemptResult.PROVIDER_ERROR:
            return "no answer from the model", "bad"
        case AttemptResult.DEADLINE:
            return "the time was over", "bad"
        case AttemptResult.CANCELLED:
            return "interrupted", "off"
        case AttemptResult.BROKEN:
            return "the program failed", "bad"
        case _:
            assert_never(result)


def _defect_words(defect: StructuralDefect) -> str:
    match defect:
        case StructuralDefect.EMPTY:
            return "no visible text"
        case StructuralDefect.CUT_OFF:
            return "cut off before its end"
        case StructuralDefect.REFUSED:
            return "the model refused to answer"
        case StructuralDefect.OVERSIZED:
            return "too long"
        case StructuralDefect.NOT_TEXT:
            return "no valid Unicode text"
        case StructuralDefect.NOT_JSON:
            return "not exactly one JSON object"
        case StructuralDefect.REPEATED_KEY:
            return "a key stood twice in one object"
        case StructuralDefect.TOO_DEEP:
            return "nested too deeply"
        case StructuralDefect.WRONG_SHAPE:
            return "JSON of another shape than asked for"
        case _:
            assert_never(defect)


def outcome_words(outcome: str) -> Outcome:
    """Say how a part or a registry ended."""
    match outcome:
        case "accepted":
            return Outcome(
                label="accepted",
                words="The model's last answer was safe as a whole, and was applied.",
                tone="good",
            )
        case "fell_back":
            return Outcome(
                label="safe part applied",
                words="All retries were spent. What was safe is applied; everything else is kept "
                "separate, and nothing is lost.",
                tone="warn",
            )
        case "failed":
            return Outcome(
                label="failed", words="There is no result of this run. See why below.", tone="bad"
            )
        case "cancelled":
            return Outcome(
                label="interrupted",
                words="The run was stopped before its end, and there is no result of it.",
                tone="off",
            )
        case _:
            return Outcome(
                label="unknown",
                words="Another version of notarius wrote these files; how it ended is not known "
                "to this one.",
                tone="off",
            )


def token_words(read: int | None, written: int | None) -> str:
    """Say how many tokens were spent, as far as that is known."""
    if read is None and written is None:
        return "not reported by the model"
    into, outof = (
        "not reported" if tokens is None else f"{tokens:,}" for tokens in (read, written)
    )
    return f"{into} in, {outof} out"
