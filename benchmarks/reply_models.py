"""A reply as models of pydantic, as users of the other libraries would declare it."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import pydantic
from benchmarks import workload


class Group(pydantic.BaseModel):
    """One group."""

    name: str
    candidate_ids: list[str]
    canonical_id: str


class DuplicateGroups(pydantic.BaseModel):
    """All groups of a reply."""

    duplicate_groups: list[Group]


Complain: TypeAlias = Callable[[DuplicateGroups], str]
"""Says what is wrong with a reply, or nothing."""


def complaints(reply: DuplicateGroups, offered: Sequence[str] = workload.OFFERED) -> str:
    """Return what the checks say about a reply, or nothing."""
    groups = ((group.candidate_ids, group.canonical_id) for group in reply.duplicate_groups)
    return workload.complaints(groups, offered)
