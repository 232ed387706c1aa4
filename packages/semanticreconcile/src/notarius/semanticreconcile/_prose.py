"""What each category means in plain words: for the model, and for the operator.

`_prose_of` is a total match: a new category without prose is a type error there, and the mapping
is built from it over the authoritative list.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, assert_never

import msgspec

from notarius.semanticreconcile._categories import ALL_CATEGORIES, IssueCategory


class Prose(msgspec.Struct, frozen=True, kw_only=True):
    """The words for one category.

    `one` and `many` say what is wrong, after "Group 2" and "Groups 2 and 3"; `shape` says what a
    right answer looks like. `operator_one` and `operator_many` follow a number of groups.
    """

    one: str
    many: str
    shape: str
    operator_one: str
    operator_many: str


def _prose_of(category: IssueCategory) -> Prose:
    match category:
        case IssueCategory.UNKNOWN_CANDIDATE:
            return Prose(
                one="names an id that is not in the candidate list.",
                many="name ids that are not in the candidate list.",
                shape="Use only ids from the list, written exactly as they stand there.",
                operator_one="names a candidate that was not offered",
                operator_many="name candidates that were not offered",
            )
        case IssueCategory.REPEATED_CANDIDATE:
            return Prose(
                one="lists the same id more than once.",
                many="each list the same id more than once.",
                shape="Inside a group, write each id one time.",
                operator_one="lists a candidate twice",
                operator_many="list a candidate twice",
            )
        case IssueCategory.TOO_FEW_CANDIDATES:
            return Prose(
                one="has fewer than two different ids.",
                many="have fewer than two different ids.",
                shape="A group needs at least two different ids; otherwise leave it out.",
                operator_one="has fewer than two candidates",
                operator_many="have fewer than two candidates",
            )
        case IssueCategory.CANONICAL_NOT_IN_GROUP:
            return Prose(
                one="has a canonical_id that is not one of its own candidate_ids.",
                many="have a canonical_id that is not one of their own candidate_ids.",
                shape="The canonical_id must be one of the ids of the same group.",
                operator_one="has a canonical candidate from outside",
                operator_many="have a canonical candidate from outside",
            )
        case IssueCategory.OVERLAPPING_GROUPS:
            return Prose(
                one="shares an id with another group.",
                many="share ids with other groups.",
                shape="An id may stand in at most one group: join such groups if all their "
                "entries are the same, or else take the id out of all but one.",
                operator_one="shares a candidate with another group",
                operator_many="share candidates with other groups",
            )
        case IssueCategory.REPEATED_GROUP:
            return Prose(
                one="is a copy of an earlier group.",
                many="are copies of earlier groups.",
                shape="Write each group one time.",
                operator_one="repeats an earlier group",
                operator_many="repeat earlier groups",
            )
        case IssueCategory.TYPED_APPLICATION_REFUSED:
            return Prose(
                one="puts entries together that can not be the same.",
                many="put entries together that can not be the same.",
                shape="Keep such entries in separate groups, or leave them out.",
                operator_one="combines candidates that can't be one entry",
                operator_many="combine candidates that can't be one entry",
            )
        case _:
            assert_never(category)


CATEGORY_PROSE: Final[Mapping[IssueCategory, Prose]] = MappingProxyType(
    {category: _prose_of(category) for category in ALL_CATEGORIES}
)
"""The words for every category."""
