"""Wordings of the guidance that were tried, to measure ours against.

Each takes the split of a refused reply and the registry's own rule, if one was broken, and returns
what the model is told. None is used by the product.
"""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from notarius.semanticreconcile import (
    CATEGORY_PROSE,
    IssueCategory,
    RefusedGroup,
    Split,
    _render,
)

Wording: TypeAlias = Callable[[Split, str | None], str]

CHANGE: Final = (
    "Make these changes and keep every group that was right. Leave a group out if fewer than two "
    "ids remain in it. Now send the complete corrected answer, not only the changed groups: one "
    'JSON object {"duplicate_groups": [...]} of the same form, and nothing else.'
)


def by_defect(split: Split, rule: str | None) -> str:
    """Tell each kind of defect once, for all groups that have it."""
    return _joined(_render.OPENING, *_sentences(split), rule, CHANGE)


def by_group(split: Split, rule: str | None) -> str:
    """Tell that, and for each refused group what a right version of it could be."""
    lines = [f"- Group {group.index + 1}: {_advice(group)}" for group in split.refused]
    return _joined(_render.OPENING, *_sentences(split), "What to change:", *lines, rule, CHANGE)


def kept(split: Split, rule: str | None) -> str:
    """Name the groups that were right, and those that must go in one line."""
    return _joined(_render.OPENING, _kept(split), "What to change:", *_changes(split), rule, CHANGE)


def question_last(split: Split, rule: str | None) -> str:
    """End with the question."""
    question = "Which of the candidates in the list above are the same? Answer without mistakes."
    lines = (*_sentences(split), "What to change:", *_changes(split), rule, CHANGE, question)
    return _joined(_render.OPENING, *lines)


def without(split: Split, rule: str | None) -> str:
    """End with the groups that must go."""
    changed = [f"- Group {g.index + 1}: {_advice(g)}" for g in split.refused if not _hopeless(g)]
    gone = _numbers([g.index for g in split.refused if _hopeless(g)])
    end = 'Send the whole answer again as one JSON object {"duplicate_groups": [...]}'
    end += f", without {gone}: an id alone is no duplicate." if gone else ", with these changes."
    return _joined(_render.OPENING, _kept(split), *changed, rule, end)


def verdicts(split: Split, rule: str | None) -> str:
    """Tell of every group in turn, right or wrong, what is to become of it."""
    told = {group.index: "right, keep it." for group in split.safe}
    told |= {group.index: _advice(group) for group in split.refused}
    left = len(split.safe) + sum(not _hopeless(group) for group in split.refused)
    return _joined(
        "An automated check looked at each group of your answer:",
        *(f"- Group {index + 1}: {told[index]}" for index in sorted(told)),
        rule,
        'Send the corrected answer as one JSON object {"duplicate_groups": [...]}. '
        f"It has {left} groups at most.",
    )


def extend(split: Split, rule: str | None) -> str:
    """Ask for the missing ids of a group that has one."""
    lines = [
        f"- Group {group.index + 1} has only {group.ids[0]}: add the other ids that are the same, "
        "or leave this group out."
        if len(group.ids) == 1
        else f"- Group {group.index + 1}: {_advice(group)}"
        for group in split.refused
    ]
    return _joined(_render.OPENING, _kept(split), *lines, rule, CHANGE)


def united(split: Split, rule: str | None) -> str:
    """Say which coins of all wrong groups together are of one kind."""
    coins = [line.partition(". ")[2] for line in _render._right(split.refused, ())]  # noqa: SLF001 - its alternative
    right = f"Right as separate groups: {'; '.join(coins)}." if coins else None
    lines = ("What to change:", *_changes(split), right, rule, CHANGE)
    return _joined(_render.OPENING, _kept(split), *lines)


def positive(split: Split, rule: str | None) -> str:
    """Say only what may stay, and that all else was wrong."""
    lines = [f"- {line.partition('. ')[2]}" for line in _right(split)]
    return _joined(
        "An automated check found mistakes in your answer. These can be groups:",
        *lines,
        "Every other group of your answer was wrong: leave it out.",
        rule,
        'Send the complete corrected answer as one JSON object {"duplicate_groups": [...]}.',
    )


def skeleton(split: Split, rule: str | None) -> str:
    """Write the right answer as JSON with the names left out."""
    groups = ", ".join(
        f'{{"name": ..., "candidate_ids": [{line.partition(". ")[2].partition(" (")[0]}]}}'
        for line in _right(split)
    )
    return _joined(
        "An automated check found mistakes in your answer. The corrected answer looks like this, "
        "with names filled in:",
        f'{{"duplicate_groups": [{groups}]}}',
        rule,
        "Send the complete corrected answer: one JSON object and nothing else.",
    )


def listed(split: Split, rule: str | None) -> str:
    """End with a list of what may stay, as ours, but do not say which ids of a group clash."""
    right = list(_right(split))
    end = _render.CLOSING if right else _render.CLOSING_EMPTY
    return _joined(_render.OPENING, *_sentences(split), rule, end, *right)


def _joined(*lines: str | None) -> str:
    return "\n".join(line for line in lines if line)


def _sentences(split: Split) -> list[str]:
    return _render._sentences(split.refused, CATEGORY_PROSE)  # noqa: SLF001 - the same prose


def _right(split: Split) -> Iterator[str]:
    return _render._right(split.refused, split.safe)  # noqa: SLF001 - the same list


def _numbers(indexes: list[int]) -> str:
    groups = _render._groups([index + 1 for index in indexes]) if indexes else ""  # noqa: SLF001 - as above
    return groups[:1].lower() + groups[1:]


def _kept(split: Split) -> str | None:
    numbers = _numbers([group.index for group in split.safe])
    return f"Right, to be kept: {numbers}." if numbers else None


def _changes(split: Split) -> Iterator[str]:
    for group in split.refused:
        if not _hopeless(group):
            yield f"- Group {group.index + 1}: {_advice(group)}"
    gone = _numbers([group.index for group in split.refused if _hopeless(group)])
    if gone:
        yield f"- Delete {gone}."


def _hopeless(group: RefusedGroup) -> bool:
    """Whether no two ids of a group may stay together."""
    if group.has(IssueCategory.REPEATED_GROUP) or len(group.ids) < 2:  # noqa: PLR2004 - a group is two
        return True
    return group.typed is not None and all(len(part.ids) < 2 for part in group.typed.parts)  # noqa: PLR2004 - as above


def _advice(group: RefusedGroup) -> str:
    if group.has(IssueCategory.REPEATED_GROUP):
        return "delete it; it is there already."
    if len(group.ids) < 2:  # noqa: PLR2004 - a group is two
        return f"only {group.ids[0]} is left, delete it." if group.ids else "delete it."
    shared = f" {', '.join(group.shared)}: in one group only." if group.shared else ""
    if group.typed is None:
        return f"its valid ids are {', '.join(group.ids)}.{shared}"
    told = "; ".join(f"{part.label}: {', '.join(part.ids)}" for part in group.typed.parts)
    right = [", ".join(part.ids) for part in group.typed.parts if len(part.ids) > 1]
    stay = f"Right as separate groups: {'; '.join(right)}." if right else "Delete this group."
    return f"{group.typed.reason} ({told}). {stay}{shared}"


WORDINGS: Final[Mapping[str, Wording]] = MappingProxyType(
    {
        wording.__name__: wording
        for wording in (
            by_defect,
            by_group,
            kept,
            question_last,
            without,
            verdicts,
            extend,
            united,
            positive,
            skeleton,
            listed,
        )
    }
)
