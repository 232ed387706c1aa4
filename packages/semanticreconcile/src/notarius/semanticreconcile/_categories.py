"""The closed list of defects that a proposed group can have."""

import enum
from typing import Final


class IssueCategory(enum.StrEnum):
    """One kind of defect. The value is for operators; a model never sees it."""

    UNKNOWN_CANDIDATE = "unknown_candidate"
    """The group names an id that was not offered."""
    REPEATED_CANDIDATE = "repeated_candidate"
    """An id stands twice in the group."""
    TOO_FEW_CANDIDATES = "too_few_candidates"
    """The group has fewer than two different ids."""
    CANONICAL_NOT_IN_GROUP = "canonical_not_in_group"
    """The canonical id is not one of the group's ids."""
    OVERLAPPING_GROUPS = "overlapping_groups"
    """An id of the group stands in another group too."""
    REPEATED_GROUP = "repeated_group"
    """The same group was proposed before."""
    TYPED_APPLICATION_REFUSED = "typed_application_refused"
    """The entries can't be one registry entry."""


ALL_CATEGORIES: Final[tuple[IssueCategory, ...]] = (
    IssueCategory.UNKNOWN_CANDIDATE,
    IssueCategory.REPEATED_CANDIDATE,
    IssueCategory.TOO_FEW_CANDIDATES,
    IssueCategory.CANONICAL_NOT_IN_GROUP,
    IssueCategory.OVERLAPPING_GROUPS,
    IssueCategory.REPEATED_GROUP,
    IssueCategory.TYPED_APPLICATION_REFUSED,
)
"""Every category, in the order in which guidance and summaries mention them."""
