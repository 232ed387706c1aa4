"""Candidates taken for one: nodes of equal content, and what keeps two of them apart."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from rapidfuzz.distance import OSA

from notarius.pipeline._names import (
    Facets,
    Key,
    Reading,
    person_facets,
    read,
    stands_for,
)
from notarius.registries import RegistryKind

MAX_RIVALS: Final = 48
"""Fuller names that a short name is compared with; one that has more is ambiguous anyway."""
MIN_BESIDE: Final = 4
"""Letters of a word that may be misspelt where it is not the only one of its name."""
MAX_ALIASES: Final = 64
"""Aliases of a candidate that are compared, in sorted order."""
MAX_BYNAME: Final = 40
"""Characters of a description that may be no more than the name of 'the old lady'."""


class Named(Protocol):
    """A candidate, as far as names are concerned."""

    @property
    def name(self) -> str:
        """The name that the source used."""

    @property
    def aliases(self) -> Sequence[str]:
        """Other names of the same candidate."""

    @property
    def description(self) -> str:
        """What the source says about it; may be empty."""

    @property
    def evidence(self) -> Sequence[str]:
        """Sentences in which it is mentioned."""


_Content = tuple[str, tuple[str, ...], str, tuple[str, ...]]
Compatible = Callable[[Sequence[int]], bool]


@dataclass(slots=True)
class Cluster:
    """Candidates taken for one; `rank` is the place of its first node in content order."""

    rank: int
    indexes: list[int]
    named: frozenset[Reading]
    """Readings of the candidates' names."""
    readings: frozenset[Reading]
    """The same, and those of their aliases."""
    facets: Facets
    full: frozenset[Reading] = field(init=False)
    """Its proper names of two words or more."""

    def __post_init__(self) -> None:
        self.full = frozenset(
            reading for reading in self.readings if reading.proper and len(reading.core) > 1
        )

    @property
    def titles(self) -> set[str]:
        """The titles that go with any of its names."""
        return {title for reading in self.readings for title in reading.titles}

    @property
    def is_group(self) -> bool:
        """Whether it holds more than one candidate."""
        return len(self.indexes) > 1


def nodes_of(
    kind: RegistryKind, candidates: Sequence[Named], compatible: Compatible
) -> list[Cluster]:
    """Return a node for each content, in content order, without any that can't be one entry."""
    by_content: dict[_Content, list[int]] = defaultdict(list)
    for index, candidate in enumerate(candidates):
        aliases = tuple(sorted(set(candidate.aliases)))
        content = (candidate.name, aliases, candidate.description, tuple(candidate.evidence))
        by_content[content].append(index)
    nodes: list[Cluster] = []
    for content in sorted(by_content):
        indexes = by_content[content]
        if len(indexes) == 1 or compatible(tuple(indexes)):
            nodes.append(_node(kind, content, rank=len(nodes), indexes=indexes))
    return nodes


def _node(kind: RegistryKind, content: _Content, *, rank: int, indexes: list[int]) -> Cluster:
    name, aliases, description, evidence = content
    facets = person_facets(description) if kind == "npc" else frozenset()
    about = (description, *evidence)
    names = (name, *aliases[:MAX_ALIASES])
    readings = {read(kind, text, about=about) for text in names}
    if kind == "npc" and len(description) <= MAX_BYNAME and not read(kind, name).proper:
        byname = read(kind, description)
        readings |= {byname} if byname.titles or len(byname.core) > 1 else set()
    named = read(kind, name, about=about)
    # What an alias says of the numbering or type is no more than a variant of what the name says.
    stated = named.facets | facets
    known = {facet for facet, _ in stated}
    extra = {pair for reading in readings for pair in reading.facets if pair[0] not in known}
    return Cluster(rank, indexes, frozenset({named}), frozenset(readings), stated | extra)


def contradict(left: Facets, right: Facets) -> bool:
    """Tell whether both state a facet and agree in no value of it."""
    shared = {facet for facet, _ in left} & {facet for facet, _ in right}
    agreed = {facet for facet, _ in left & right}
    return not shared <= agreed


def rivals(left: frozenset[Reading], right: frozenset[Reading]) -> bool:
    """Tell whether two sets of full names share words, but in no way are the same name."""
    if len(left) * len(right) > MAX_RIVALS**2:
        return True
    pairs = [(one, other) for one in left for other in right]
    return any(set(one.core) & set(other.core) for one, other in pairs) and not any(
        is_within(one, other) or is_within(other, one) or is_variant(one.core, other.core)
        for one, other in pairs
    )


def is_within(short: Reading, full: Reading) -> bool:
    """Tell whether every word of `short` is in `full`, the first perhaps in a longer form."""
    words = set(full.core)
    first_fits = short.core[0] in words or stands_for(short.core[0], full)
    return first_fits and words.issuperset(short.core[1:])


def is_variant(one: Key, other: Key) -> bool:
    """Tell whether two names are the same word for word, but for a slip in some words."""
    return len(one) == len(other) and all(
        word == variant or (len(word) >= MIN_BESIDE and OSA.distance(word, variant) <= 1)
        for word, variant in zip(one, other, strict=True)
    )
