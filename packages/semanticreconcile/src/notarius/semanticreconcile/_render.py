"""Model-facing guidance about a refused proposal.

Closed text: it is made of our own sentences, numbers of groups counted from 1, and ids that were
in the request. Nothing that the model wrote, no category and no code can get into it. Its size
is bounded for every reply, and its last part is always there.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from notarius.contracts import GUIDANCE_MAX_BYTES, InvariantError, IssueCount
from notarius.semanticreconcile._categories import ALL_CATEGORIES, IssueCategory
from notarius.semanticreconcile._prose import CATEGORY_PROSE, Prose
from notarius.semanticreconcile._split import Part, RefusedGroup, TypedRefusal

NUMBERS_MAX: Final = 10
"""Groups that one sentence names; the others are counted."""
IDS_MAX: Final = 12
"""Ids that one list names; the others are counted."""
PARTS_MAX: Final = 8
"""Parts of a refused group that are told apart."""
DOMAIN_RULE_MAX_BYTES: Final = 512

OPENING: Final = (
    "An automated check of your answer found mistakes, so these groups were not used. "
    "Groups are counted from 1 in the order in which you wrote them."
)
BY_GROUP: Final = "What to change:"
MORE: Final = "- The other groups named above: the same kinds of change."
CLOSING: Final = (
    "Make these changes and keep every group that was right. Leave a group out if fewer than two "
    "ids remain in it. Now send the complete corrected answer, not only the changed groups: one "
    'JSON object {"duplicate_groups": [...]} of the same form, and nothing else.'
)


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
    domain_rule: str | None = None,
    prose: Mapping[IssueCategory, Prose] = CATEGORY_PROSE,
) -> str:
    """Return the correction for one or more refused groups, at most `GUIDANCE_MAX_BYTES` long.

    `domain_rule` (at most `DOMAIN_RULE_MAX_BYTES`) follows the shared prose if a group was
    refused because of it. Raises `UnmappedCategoryError` if a category has no prose, and
    `ValueError` if there is nothing to say or the domain rule is too long.
    """
    if not refused:
        message = "there is no guidance without a refused group"
        raise ValueError(message)
    before = [OPENING, *_sentences(refused, prose)]
    after = [CLOSING]
    if domain_rule is not None and any(g.typed and g.typed.domain_rule for g in refused):
        if len(domain_rule.encode()) > DOMAIN_RULE_MAX_BYTES:
            message = f"a domain rule has at most {DOMAIN_RULE_MAX_BYTES} bytes"
            raise ValueError(message)
        after.insert(0, domain_rule)
    room = GUIDANCE_MAX_BYTES - sum(len(line.encode()) + 1 for line in (*before, *after))
    return "\n".join((*before, *_by_group(refused, room), *after))


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


def _by_group(refused: Sequence[RefusedGroup], room: int) -> list[str]:
    """Say for each group what may stay, for as many groups as there is room."""
    lines: list[str] = []
    left = room - len(BY_GROUP.encode()) - len(MORE.encode()) - 2
    for group in refused:
        line = f"- Group {group.index + 1}: {_advice(group)}"
        left -= len(line.encode()) + 1
        if left < 0:
            lines.append(MORE)
            break
        lines.append(line)
    return [BY_GROUP, *lines]


def _advice(group: RefusedGroup) -> str:
    """Say in the request's own ids what a right version of the group could be."""
    if group.has(IssueCategory.REPEATED_GROUP):
        return "delete it; it is there already."
    if len(group.ids) < 2:  # noqa: PLR2004 - a group is two or more
        only = f" only {group.ids[0]} is in the candidate list," if group.ids else ""
        return f"{only.strip()} delete it.".strip()
    if group.typed is not None:
        return _parts_advice(group.typed) + _overlap_advice(group)
    overlap = _overlap_advice(group)
    kept = f"its valid ids are {_ids(group.ids)}; write each of them once"
    canonical = ", with one of them as canonical_id"
    return f"{kept}{canonical}.{overlap}"


def _parts_advice(typed: TypedRefusal) -> str:
    """Say which ids clash, and which of them could still be a group."""
    told = "; ".join(_part(part) for part in typed.parts[:PARTS_MAX])
    if len(typed.parts) > PARTS_MAX:
        told += f"; and {len(typed.parts) - PARTS_MAX} more kinds"
    several = [part for part in typed.parts if len(part.ids) > 1][:PARTS_MAX]
    same = [_ids(part.ids) for part in several if part.same]
    perhaps = [_ids(part.ids) for part in several if not part.same]
    advice = [f"{typed.reason} ({told})."]
    if same:
        advice.append(f"Right as {'one group' if len(same) == 1 else 'separate groups'}: ")
        advice[-1] += f"{'; '.join(same)}."
    advice += [f"{ids} only if they are really the same." for ids in perhaps]
    advice.append("Leave its other ids out." if several else "Delete this group.")
    return " ".join(advice)


def _part(part: Part) -> str:
    return f"{part.label}: {_ids(part.ids)}" if part.label else _ids(part.ids)


def _overlap_advice(group: RefusedGroup) -> str:
    if not group.shared:
        return ""
    verb = "stands" if len(group.shared) == 1 else "stand"
    return f" {_ids(group.shared)} {verb} in another group too: keep one place only."


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
