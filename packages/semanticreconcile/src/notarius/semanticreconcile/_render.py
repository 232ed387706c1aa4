"""Model-facing guidance about a refused proposal.

Closed text: it is made of our own sentences, numbers of groups counted from 1, and ids that were
in the request. Nothing that the model wrote, no category and no code can get into it. Its size
is bounded for every reply, and what to send is always said at its end.

It ends with a list of the groups that may stay: a small model repeats its own mistakes when it is
told what to change, and copies such a list. The groups in it do not share an id and break no rule,
so that an answer which holds some of them is refused by no check.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from notarius.contracts import GUIDANCE_MAX_BYTES, InvariantError, IssueCount
from notarius.semanticreconcile._categories import ALL_CATEGORIES, IssueCategory
from notarius.semanticreconcile._prose import CATEGORY_PROSE, Prose
from notarius.semanticreconcile._split import Part, RefusedGroup, SafeGroup

NUMBERS_MAX: Final = 10
"""Groups that one sentence names; the others are counted."""
IDS_MAX: Final = 12
"""Ids that one list names; the others are counted."""
PARTS_MAX: Final = 8
"""Parts of a refused group that are told apart."""
DOMAIN_RULE_MAX_BYTES: Final = 512
"""The longest rule of a registry that guidance carries, in bytes."""

OPENING: Final = (
    "An automated check of your answer found mistakes, so these groups were not used. "
    "Groups are counted from 1 in the order in which you wrote them."
)
MORE: Final = "- The other groups named above: the same kinds of mistake."
CLOSING: Final = (
    'Now send one JSON object {"duplicate_groups": [...]} with exactly these groups and no others:'
)
CLOSING_LONG: Final = (
    'Now send one JSON object {"duplicate_groups": [...]} with these groups, and with the other '
    "groups of your answer that were right:"
)
CLOSING_EMPTY: Final = (
    'Now send {"duplicate_groups": []}, or groups of two or more ids that you missed.'
)
IF_SAME: Final = "only if they are really the same"


class UnmappedCategoryError(InvariantError):
    """A defect has no words for the model: nothing may be sent.

    The message does not name the category, so that it can't reach a model by way of an error.
    """

    def __init__(self) -> None:
        """Say what is missing, not for which."""
        super().__init__("a category of defect has no model-facing prose; no guidance is sent")


def render_guidance(
    refused: Sequence[RefusedGroup],
    *,
    kept: Sequence[SafeGroup] = (),
    domain_rule: str | None = None,
    prose: Mapping[IssueCategory, Prose] = CATEGORY_PROSE,
) -> str:
    """Return the correction for one or more refused groups, at most `GUIDANCE_MAX_BYTES` long.

    `kept` are the groups of the same reply that were right. `domain_rule` (at most
    `DOMAIN_RULE_MAX_BYTES`) follows the shared prose if a group was refused because of it. Raises
    `UnmappedCategoryError` if a category has no prose, and `ValueError` if there is nothing to say
    or the domain rule is too long.
    """
    if not refused:
        message = "there is no guidance without a refused group"
        raise ValueError(message)
    before = [OPENING, *_sentences(refused, prose)]
    rule = []
    if domain_rule is not None and any(g.typed and g.typed.domain_rule for g in refused):
        if len(domain_rule.encode()) > DOMAIN_RULE_MAX_BYTES:
            message = f"a domain rule has at most {DOMAIN_RULE_MAX_BYTES} bytes"
            raise ValueError(message)
        rule.append(domain_rule)
    room = GUIDANCE_MAX_BYTES - _size((*before, *rule, CLOSING_LONG, MORE))
    clashes = _fitting(_clashes(refused), room // 2)
    if len(clashes) < sum(group.typed is not None for group in refused):
        clashes.append(MORE)
    right = list(_right(refused, kept))
    shown = _fitting(right, room - _size(clashes))
    closing = CLOSING_EMPTY if not right else CLOSING if shown == right else CLOSING_LONG
    return "\n".join((*before, *clashes, *rule, closing, *shown))


def _size(lines: Sequence[str]) -> int:
    return sum(len(line.encode()) + 1 for line in lines)


def _fitting(lines: Iterable[str], room: int) -> list[str]:
    """Return as many lines from the first on as there is room for, in bytes."""
    shown: list[str] = []
    for line in lines:
        room -= _size((line,))
        if room < 0:
            break
        shown.append(line)
    return shown


def _sentences(refused: Sequence[RefusedGroup], prose: Mapping[IssueCategory, Prose]) -> list[str]:
    """Say each kind of defect once, for all groups that have it."""
    numbers: dict[IssueCategory, list[int]] = {}
    for group in refused:
        for issue in group.issues:
            numbers.setdefault(_known(issue.category, prose), []).append(group.index + 1)
    lines = []
    for category in ALL_CATEGORIES:
        if category in numbers:
            words = prose[category]
            where = numbers[category]
            what = words.one if len(where) == 1 else words.many
            lines.append(f"- {_groups(where)} {what} {words.shape}")
    return lines


def _known(category: str, prose: Mapping[IssueCategory, Prose]) -> IssueCategory:
    # No `IssueCategory(category)`: its error quotes the raw category and would stay reachable.
    for known in ALL_CATEGORIES:
        if known == category and known in prose:
            return known
    raise UnmappedCategoryError


def _clashes(refused: Sequence[RefusedGroup]) -> Iterator[str]:
    """Say of each group that can't be one entry which of its ids are what."""
    for group in refused:
        if group.typed is not None:
            told = "; ".join(map(_part, group.typed.parts[:PARTS_MAX]))
            if len(group.typed.parts) > PARTS_MAX:
                told += f"; and {len(group.typed.parts) - PARTS_MAX} more kinds"
            yield f"- Group {group.index + 1}: {group.typed.reason} ({told})."


def _part(part: Part) -> str:
    return f"{part.label}: {_ids(part.ids)}" if part.label else _ids(part.ids)


def _right(refused: Sequence[RefusedGroup], kept: Sequence[SafeGroup]) -> Iterator[str]:
    """List the groups that may stay, none of which shares an id with another.

    Those are the groups that were right; what is known to be the same, from all groups together;
    and what is left of the other groups where nothing speaks against it.
    """
    used: set[str] = set()
    number = 0
    for ids, remark in _candidates(refused, kept):
        left = [request_id for request_id in ids if request_id not in used]
        if len(left) > 1:
            used.update(left)
            number += 1
            yield f"{number}. {_ids(left)} ({remark})" if remark else f"{number}. {_ids(left)}"


def _candidates(
    refused: Sequence[RefusedGroup], kept: Sequence[SafeGroup]
) -> Iterator[tuple[Iterable[str], str]]:
    known: dict[str, dict[str, None]] = {}
    perhaps: list[tuple[Iterable[str], str]] = []
    for group in refused:
        if group.typed is None:
            perhaps.append((group.ids, IF_SAME))
            continue
        for part in group.typed.parts:
            if part.same:
                known.setdefault(part.label, {}).update(dict.fromkeys(part.ids))
            else:
                perhaps.append((part.ids, IF_SAME))
    for safe in kept:
        yield safe.ids, ""
    for label, ids in known.items():
        yield ids, label
    yield from perhaps


def _groups(numbers: Sequence[int]) -> str:
    if len(numbers) == 1:
        return f"Group {numbers[0]}"
    return f"Groups {_joined([str(number) for number in numbers], NUMBERS_MAX)}"


def _ids(ids: Sequence[str]) -> str:
    return _joined(ids, IDS_MAX)


def _joined(words: Sequence[str], most: int) -> str:
    """Return `1, 2 and 3`, with the words beyond `most` only counted."""
    shown = list(words[:most])
    if len(words) > most:
        shown.append(f"{len(words) - most} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def summarize_issues(counts: Sequence[IssueCount]) -> str:
    """Return the defects in plain words for an operator: `2 groups name …; 1 group repeats …`.

    Raises `UnmappedCategoryError` for a category without words.
    """
    said = []
    for item in counts:
        words = CATEGORY_PROSE[_known(item.category, CATEGORY_PROSE)]
        if item.count == 1:
            said.append(f"1 group {words.operator_one}")
        else:
            said.append(f"{item.count} groups {words.operator_many}")
    return "; ".join(said)
