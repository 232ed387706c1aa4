"""The split of a proposal into groups that are safe to apply and groups that are refused.

A group is safe or refused as a whole: nothing is trimmed, nothing is repaired. The verdict on a
group depends on the set of proposed groups, not on their order or the order of their ids; of
exact repeats one counts, and the others are refused as repeats.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import islice
from typing import TypeAlias

from notarius.contracts import (
    ISSUE_IDS_MAX,
    ISSUES_MAX,
    IssueCount,
    IssueDetails,
    Value,
)
from notarius.semanticreconcile._categories import ALL_CATEGORIES, IssueCategory
from notarius.semanticreconcile._decode import Proposal, ProposedGroup


class Part(Value, frozen=True, kw_only=True):
    """Ids of a refused group that do not clash with each other.

    `label` says in closed words what they are ("gold coins"), or is empty. `same` says that they
    are known to be the same thing, and not only that nothing speaks against it; then parts of
    several groups with one label are the same thing too.
    """

    label: str
    ids: tuple[str, ...]
    same: bool = True


class TypedRefusal(Value, frozen=True, kw_only=True):
    """Why typed application refuses a group, in closed words that a model may see.

    `reason` is a clause without a full stop. `parts` divide all ids of the group. `domain_rule`
    says that the registry's own rule was broken, so that its guidance is added.
    """

    reason: str
    parts: tuple[Part, ...]
    domain_rule: bool = False


GroupCheck: TypeAlias = Callable[[tuple[str, ...]], TypedRefusal | None]
"""Says whether the entries behind two or more different offered ids could be one entry."""


# Neither this nor a refused group is for the garbage collector, as a proposed one is not.
class SafeGroup(Value, frozen=True, kw_only=True, gc=False):
    """A group that may be applied: offered ids in list order. `index` counts from 0."""

    index: int
    ids: tuple[str, ...]
    canonical_id: str


class RefusedGroup(Value, frozen=True, kw_only=True, gc=False):
    """A group that changes nothing.

    `ids` are those of its ids that were offered, each once, in list order. `issues` has one
    entry for each of its defects. `shared` are those of its ids that stand in other groups too.
    `index` counts from 0.
    """

    index: int
    ids: tuple[str, ...]
    issues: tuple[IssueDetails, ...]
    typed: TypedRefusal | None = None
    shared: tuple[str, ...] = ()

    def has(self, category: IssueCategory) -> bool:
        """Whether the group has this defect."""
        return any(issue.category == category for issue in self.issues)


class Split(Value, frozen=True, kw_only=True):
    """Safe and refused groups of one proposal, each in the order of the reply."""

    safe: tuple[SafeGroup, ...]
    refused: tuple[RefusedGroup, ...]

    @property
    def issues(self) -> tuple[IssueDetails, ...]:
        """The first `ISSUES_MAX` issues, for operators."""
        issues = (issue for group in self.refused for issue in group.issues)
        return tuple(islice(issues, ISSUES_MAX))

    @property
    def issue_counts(self) -> tuple[IssueCount, ...]:
        """How many groups have each defect: complete, in the order of all categories."""
        counts = Counter(issue.category for group in self.refused for issue in group.issues)
        return tuple(
            IssueCount(category=category, count=counts[category])
            for category in ALL_CATEGORIES
            if counts[category]
        )


_Key: TypeAlias = tuple[tuple[str, ...], str]


def split_proposal(proposal: Proposal, ids: Sequence[str], check: GroupCheck) -> Split:
    """Divide a proposal about the offered `ids` (in list order).

    `check` is asked for every group with two or more offered ids, also for one with other
    defects, so that all of them can be told at once.
    """
    place = {request_id: number for number, request_id in enumerate(ids)}
    keys = [_key(group) for group in proposal.groups]
    shared = _shared_ids(keys)
    seen: set[_Key] = set()
    safe: list[SafeGroup] = []
    refused: list[RefusedGroup] = []
    for index, group in enumerate(proposal.groups):
        key = keys[index]
        offered = tuple(sorted(set(group.candidate_ids) & place.keys(), key=place.__getitem__))
        typed = check(offered) if len(offered) > 1 else None
        overlap = tuple(request_id for request_id in offered if request_id in shared)
        found = _defects(group, offered, place)
        found |= {IssueCategory.OVERLAPPING_GROUPS} if overlap else set()
        found |= {IssueCategory.REPEATED_GROUP} if key in seen else set()
        found |= {IssueCategory.TYPED_APPLICATION_REFUSED} if typed is not None else set()
        seen.add(key)
        if found:
            issues = _details(index, found, offered)
            refused.append(
                RefusedGroup(index=index, ids=offered, issues=issues, typed=typed, shared=overlap)
            )
        else:
            safe.append(SafeGroup(index=index, ids=offered, canonical_id=group.canonical_id))
    return Split(safe=tuple(safe), refused=tuple(refused))


def _key(group: ProposedGroup) -> _Key:
    """Return what two exact repeats have in common, whatever the order of their ids."""
    return (tuple(sorted(group.candidate_ids)), group.canonical_id)


def _shared_ids(keys: Sequence[_Key]) -> set[str]:
    """Return the ids that stand in two groups which are no exact repeats of each other."""
    owner: dict[str, _Key] = {}
    shared: set[str] = set()
    for key in dict.fromkeys(keys):  # in their order: any other is slow for a long reply
        for request_id in set(key[0]):
            if owner.setdefault(request_id, key) is not key:
                shared.add(request_id)
    return shared


def _defects(
    group: ProposedGroup, offered: tuple[str, ...], place: dict[str, int]
) -> set[IssueCategory]:
    """Return the defects that can be seen from the ids of one group."""
    written = set(group.candidate_ids)
    found: set[IssueCategory] = set()
    if len(offered) < len(written) or group.canonical_id not in place:
        found.add(IssueCategory.UNKNOWN_CANDIDATE)
    if len(group.candidate_ids) > len(written):
        found.add(IssueCategory.REPEATED_CANDIDATE)
    if len(written) < 2:  # noqa: PLR2004 - a group is two or more
        found.add(IssueCategory.TOO_FEW_CANDIDATES)
    if group.canonical_id not in written:
        found.add(IssueCategory.CANONICAL_NOT_IN_GROUP)
    return found


def _details(
    index: int, found: set[IssueCategory], offered: tuple[str, ...]
) -> tuple[IssueDetails, ...]:
    """Return the defects, each with the offered ids of its group: all of those stay apart."""
    return tuple(
        IssueDetails(category=category, group_index=index, request_ids=offered[:ISSUE_IDS_MAX])
        for category in ALL_CATEGORIES
        if category in found
    )
