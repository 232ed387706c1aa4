"""Typed candidates (what extraction found) and entries (what a registry holds)."""

import enum
from typing import Any, Generic, Literal, TypeAlias, TypeVar

import msgspec

from notarius.contracts import ContractError, Value, has_lone_surrogate

RegistryKind: TypeAlias = Literal["npc", "item", "location"]
"""The registries that are built in; rules of your own may have any other kind."""


class ItemKind(enum.StrEnum):
    """Whether an item is money."""

    CURRENCY = "currency"
    OBJECT = "object"


class Candidate(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every candidate has. `source_id` and `name` must not be blank.

    `extra` is any JSON object and is carried through untouched. Raises `ContractError` on a
    blank or badly encoded text.
    """

    source_id: str
    name: str
    aliases: tuple[str, ...] = ()
    description: str = ""
    evidence: tuple[str, ...] = ()
    extra: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        """Check the texts."""
        for what, text in (("source_id", self.source_id), ("name", self.name)):
            if not isinstance(text, str) or not text.strip():
                message = f"`{what}` must not be blank"
                raise ContractError(message)
        texts = (self.source_id, self.name, *self.aliases, self.description, *self.evidence)
        if not all(type(text) is str for text in texts):
            message = "names, aliases, description and evidence must be texts"
            raise ContractError(message)
        if any(map(has_lone_surrogate, texts)):
            message = "a text holds a lone surrogate, which is not valid Unicode"
            raise ContractError(message)


class NpcCandidate(Candidate, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A person, creature or other character."""

    kind: Literal["npc"] = "npc"


class LocationCandidate(Candidate, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A place."""

    kind: Literal["location"] = "location"


class ItemCandidate(Candidate, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A thing, or money; kind and denomination are inferred from the name where missing."""

    kind: Literal["item"] = "item"
    item_kind: ItemKind | None = None
    denomination: str | None = None

    def __post_init__(self) -> None:
        """Check that an object has no denomination."""
        super().__post_init__()
        if not isinstance(self.item_kind, ItemKind | None):
            message = f"`item_kind` must be {' or '.join(ItemKind)}"
            raise ContractError(message)
        if self.denomination is not None and self.item_kind is ItemKind.OBJECT:
            message = "`denomination` is for currency; remove it or set `item_kind` to `currency`"
            raise ContractError(message)


class Entry(Value, frozen=True, kw_only=True):
    """One registry entry: everything that its candidates brought, each text once.

    `source_ids` are its candidates, in input order; `extra` has one object for each of them that
    brought one, in the same order.
    """

    entry_id: str
    name: str
    aliases: tuple[str, ...]
    descriptions: tuple[str, ...]
    evidence: tuple[str, ...]
    source_ids: tuple[str, ...]
    extra: tuple[dict[str, Any], ...]


class NpcEntry(Entry, frozen=True, kw_only=True):
    """A person, creature or other character."""


class LocationEntry(Entry, frozen=True, kw_only=True):
    """A place."""


class ItemEntry(Entry, frozen=True, kw_only=True):
    """A thing, or money of one denomination (`None`: of no known coin)."""

    item_kind: ItemKind
    denomination: str | None


E = TypeVar("E", bound=Entry)


class Registry(Value, Generic[E], frozen=True, kw_only=True):
    """All entries, in the order of their first candidate."""

    schema: str
    entries: tuple[E, ...]
