"""Strict decoding of a reply into a proposal.

Whatever is not exactly one JSON value of the declared shape is a structural defect. Keys that
the shape does not name are allowed (the schema that providers get does not forbid them) and
dropped; so is each group's free-text name.
"""

import re
from typing import ClassVar, Final

import msgspec

from notarius.contracts import (
    RepeatedKeyError,
    StructuralDefect,
    Value,
    require_unique_keys,
)


# Neither this nor `_Group` is for the garbage collector: they hold no cycle, and a long reply has
# so many that going through them again and again would take most of the time.
class ProposedGroup(Value, frozen=True, kw_only=True, gc=False):
    """One group as the model wrote it; its ids may be anything, so they are never shown."""

    candidate_ids: tuple[str, ...]
    canonical_id: str

    PRIVATE: ClassVar[frozenset[str]] = frozenset({"candidate_ids", "canonical_id"})


class Proposal(Value, frozen=True, kw_only=True):
    """All groups of one reply, in its order."""

    groups: tuple[ProposedGroup, ...]


class _Group(msgspec.Struct, gc=False):
    candidate_ids: tuple[str, ...]
    canonical_id: str
    name: str | msgspec.UnsetType = msgspec.UNSET


class _Reply(msgspec.Struct):
    duplicate_groups: list[_Group]


class _ClosedGroup(_Group, forbid_unknown_fields=True):
    pass


class _ClosedReply(msgspec.Struct, forbid_unknown_fields=True):
    duplicate_groups: list[_ClosedGroup]


_OPEN: Final = msgspec.json.Decoder(_Reply)
_CLOSED: Final = msgspec.json.Decoder(_ClosedReply)
# To the end of the text where it is not closed, and never tried in another way: a search that began
# anew at each escaped quote would take quadratic time.
_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*+"?')
_BRACKET: Final = re.compile(r"[\[\]{}]")
_STEP: Final = {"[": 1, "{": 1, "]": -1, "}": -1}

DEPTH_MAX: Final = 64
"""Brackets that may be open at once: a limit of ours, since that of a decoder depends on how deep
in a program it is called."""


class _TooDeepError(Exception):
    """More brackets are open than `DEPTH_MAX`."""


def parse_proposal(text: str) -> Proposal | StructuralDefect:
    """Return the proposal in a reply, or what is structurally wrong with it."""
    try:
        groups = _decode(text)
    except _TooDeepError:
        return StructuralDefect.TOO_DEEP
    except RepeatedKeyError:
        return StructuralDefect.REPEATED_KEY
    except msgspec.ValidationError:
        return StructuralDefect.WRONG_SHAPE
    except msgspec.DecodeError:
        return StructuralDefect.NOT_JSON
    except UnicodeEncodeError:
        return StructuralDefect.NOT_TEXT
    return Proposal(
        groups=tuple(
            ProposedGroup(candidate_ids=group.candidate_ids, canonical_id=group.canonical_id)
            for group in groups
        )
    )


def reply_defect(text: str) -> StructuralDefect | None:
    """Say what is structurally wrong with a reply, or `None`."""
    parsed = parse_proposal(text)
    return parsed if isinstance(parsed, StructuralDefect) else None


def _decode(text: str) -> list[_ClosedGroup] | list[_Group]:
    """Decode, and make sure that no key stands twice: msgspec would keep the last silently.

    Without foreign keys, which is the common case, counting is enough: outside strings a JSON
    text has one colon for each key. With them, a slower pass looks at every object.
    """
    try:
        closed = _CLOSED.decode(text)
    except msgspec.ValidationError:
        _require_shallow(text)
        groups = _OPEN.decode(text).duplicate_groups
        require_unique_keys(text)
        return groups
    keys = 1 + sum(2 + (group.name is not msgspec.UNSET) for group in closed.duplicate_groups)
    # Few replies have a colon in a string; for all others the strings need not be cut out.
    if text.count(":") != keys and _STRING.sub("", text).count(":") != keys:
        # Which key it is does not matter, and it must not be told: the model wrote it.
        raise RepeatedKeyError("")
    return closed.duplicate_groups


def _require_shallow(text: str) -> None:
    """Raise `_TooDeepError` on deep nesting; only a foreign key can hold any."""
    depth = 0
    for bracket in _BRACKET.finditer(_STRING.sub("", text)):
        depth += _STEP[bracket[0]]
        if depth > DEPTH_MAX:
            raise _TooDeepError
