"""The default answer to 'which candidates are duplicates?': names compared by rule, no model.

1. Candidates of equal content are one node; all work is on nodes in content order, so the order
   of the candidates changes nothing but the indexes in the answer.
2. Nodes that share a key are one cluster, unless their facets contradict each other. A node that
   fits two clusters which contradict each other joins neither.
3. A short name joins the one cluster that has a fuller name with the same words; if there are
   several, one that stands out by title or by word order; else none.
4. A misspelt name joins the one cluster that is a single slip of the pen away.
5. No union is made against `compatible` or between clusters that contradict each other.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Final

from rapidfuzz.distance import OSA

from notarius.pipeline._clusters import (
    MAX_RIVALS,
    MIN_BESIDE,
    Cluster,
    Compatible,
    Named,
    contradict,
    is_within,
    nodes_of,
    rivals,
)
from notarius.pipeline._names import (
    Facets,
    Key,
    Reading,
    is_distinguishing,
    is_generic_extra,
    read,
    single_letters,
    stands_for,
    stems,
)
from notarius.pipeline._words import COMMON_STYLES
from notarius.registries import RegistryKind

MAX_MISSPELT: Final = 6
"""Words of a name in which one may be misspelt; bounds the index of variants."""
JUST_TWO: Final = 2
"""Clusters that an alias may connect; one that more of them share is ambiguous."""

MIN_ALONE: Final = 7
"""Letters of a one-word name that may be misspelt: short names differ by one letter too often."""
MIN_FIRST: Final = 6
"""The same for the first of several words, which is often a given name."""
MIN_CHANGED: Final = 8
"""The same where a letter is changed for another, not just missing, doubled or swapped."""
MAX_WORD: Final = 32
"""Letters of a word that may be misspelt; bounds the index of variants."""


def propose(
    kind: RegistryKind,
    candidates: Sequence[Named],
    *,
    compatible: Callable[[Sequence[int]], bool],
) -> list[tuple[int, ...]]:
    """Return disjoint groups of duplicates, each of two indexes or more, ascending.

    `compatible` is asked about ascending indexes and must judge by what it is given alone; no
    group is returned, and no part of one was ever built, for which it says no.
    """
    matcher = _Matcher(kind, nodes_of(kind, candidates, compatible), compatible)
    matcher.join_equal_names()
    matcher.join_short_names()
    matcher.join_misspelt_names()
    return sorted(tuple(cluster.indexes) for cluster in matcher.clusters() if cluster.is_group)


def canonical(kind: RegistryKind, candidates: Sequence[Named], group: Sequence[int]) -> int:
    """Return the index in `group` whose name is the best one to show for all."""
    uses = Counter(candidates[index].name for index in group)

    def worth(index: int) -> tuple[bool, int, bool, int, int, str, int]:
        name = candidates[index].name
        reading = read(kind, name)
        words = len(reading.core) + len(reading.titles)
        fullness = words if kind == "npc" else 0
        # An amount or a lot belongs to one session; a number after a name is part of it.
        tidy = not any(mark in name for mark in ",()[]") and not name.isupper()
        tidy = tidy and not name[:1].isdigit()
        proper = reading.proper or kind == "item"
        # What makes a person's name longer than its words and titles is mere decoration.
        length = len(name) if kind == "npc" else -len(name)
        return (not proper, -fullness, not tidy, -uses[name], length, name, index)

    return min(group, key=worth)


class _Matcher:
    """Joins clusters; every step goes through `_join`, which alone asks `compatible`."""

    def __init__(self, kind: RegistryKind, nodes: list[Cluster], compatible: Compatible) -> None:
        self._kind = kind
        self._compatible = compatible
        self._nodes = nodes
        self._parents = list(range(len(nodes)))

    def clusters(self) -> list[Cluster]:
        """Return the clusters in content order."""
        return [node for rank, node in enumerate(self._nodes) if self._parents[rank] == rank]

    def _root(self, rank: int) -> int:
        while self._parents[rank] != rank:
            self._parents[rank] = self._parents[self._parents[rank]]
            rank = self._parents[rank]
        return rank

    def _apart(self, left: Cluster, right: Cluster) -> bool:
        if contradict(left.facets, right.facets):
            return True
        return self._kind == "npc" and rivals(left.full, right.full)

    def _join(self, one: Cluster, other: Cluster) -> bool:
        first, last = sorted((self._root(one.rank), self._root(other.rank)))
        left, right = self._nodes[first], self._nodes[last]
        if first == last:
            return True
        if self._apart(left, right):
            return False
        union = tuple(sorted([*left.indexes, *right.indexes]))
        if not self._compatible(union):
            return False
        self._parents[right.rank] = left.rank
        self._nodes[left.rank] = Cluster(
            left.rank,
            list(union),
            left.named | right.named,
            left.readings | right.readings,
            left.facets | right.facets,
        )
        return True

    # -------------------------------------------------------------- equal names

    def join_equal_names(self) -> None:
        """Join what has one name, then what one other name connects to one name or alias.

        An alias that more than two of them share is ambiguous, and connects nothing.
        """
        for block in self._blocks(lambda cluster: cluster.named):
            for part in self._consistent(block):
                self._join_all(part)
        # Listed first: what an alias connects must not depend on what another one did.
        for block in list(self._blocks(lambda cluster: cluster.readings)):
            if len(block) == JUST_TWO:
                self._join_all(block)

    def _blocks(self, readings: Callable[[Cluster], frozenset[Reading]]) -> Iterator[list[Cluster]]:
        """Yield, key by key, the clusters that share it."""
        blocks: dict[Key, set[int]] = defaultdict(set)
        for cluster in self.clusters():
            keys = {key for reading in readings(cluster) for key in reading.keys}
            for key in keys | {single_letters(key) for key in keys}:
                blocks[key].add(cluster.rank)
        for key in sorted(blocks):
            roots = sorted({self._root(rank) for rank in blocks[key]})
            if len(roots) > 1:
                yield [self._nodes[root] for root in roots]

    def _consistent(self, clusters: list[Cluster]) -> list[list[Cluster]]:
        """Split clusters of one name into parts without contradictions.

        What fits two that contradict each other is a part of its own.
        """
        alike: dict[tuple[Facets, frozenset[Reading]], list[Cluster]] = defaultdict(list)
        for cluster in clusters:
            alike[cluster.facets, cluster.full].append(cluster)
        sorts = list(alike.values())
        if len(sorts) > MAX_RIVALS:
            return sorts
        fits = [
            [at for at, other in enumerate(sorts) if not self._apart(sort[0], other[0])]
            for sort in sorts
        ]
        clear = [
            all(not self._apart(sorts[one][0], sorts[two][0]) for one in near for two in near)
            for near in fits
        ]
        parts: list[list[Cluster]] = []
        taken: set[int] = set()
        for at in range(len(sorts)):
            if at not in taken:
                near = [other for other in fits[at] if clear[other]] if clear[at] else [at]
                taken.update(near)
                parts.append(sorted((c for o in near for c in sorts[o]), key=lambda c: c.rank))
        return parts

    def _join_all(self, clusters: list[Cluster]) -> list[Cluster]:
        """Join as many as may be, by halves: one long list costs no more than sorting it."""
        if len(clusters) <= 1:
            return clusters
        middle = len(clusters) // 2
        left = self._join_all(clusters[:middle])
        rest = []
        for cluster in self._join_all(clusters[middle:]):
            for at, other in enumerate(left[:MAX_RIVALS]):
                if self._join(other, cluster):
                    left[at] = self._nodes[self._root(other.rank)]
                    break
            else:
                rest.append(cluster)
        return left + rest

    # -------------------------------------------------------------- short names

    def join_short_names(self) -> None:
        """Join a short name to the one fuller name that it can stand for."""
        by_word: dict[str, list[tuple[Reading, int]]] = defaultdict(list)
        shorts: list[tuple[Reading, int]] = []
        holders: dict[Key, set[int]] = defaultdict(set)
        for cluster in self.clusters():
            for reading in cluster.readings:
                if reading.proper or reading.type_only:
                    shorts.append((reading, cluster.rank))
                    holders[reading.core].add(cluster.rank)
                if reading.proper:
                    types = {f"/{title}" for title in reading.titles}
                    for word in {*reading.core, *reading.nicknames, *types}:
                        by_word[word].append((reading, cluster.rank))
        shorts.sort(key=_longest_first)
        # Given names first: what they settle is what a surname's title or gender is held against.
        for by_given_name in (True, False):
            for reading, rank in shorts:
                own = self._nodes[self._root(rank)]
                held = {self._root(holder) for holder in holders[reading.core]}
                if reading not in own.named and len(held) > 1:
                    continue  # an alias of several connects none of them
                fuller = self._fuller(reading, own, by_word, by_given_name=by_given_name)
                if fuller is not None:
                    self._join(own, fuller)

    def _fuller(
        self,
        short: Reading,
        own: Cluster,
        by_word: Mapping[str, list[tuple[Reading, int]]],
        *,
        by_given_name: bool,
    ) -> Cluster | None:
        """Return the one cluster whose name `short` abbreviates, if it is clear which."""
        if any(short.core != full.core and is_within(short, full) for full in own.full):
            return None
        options: dict[int, set[Reading]] = defaultdict(set)
        for reading, rank in min((_found(by_word, words) for words in _lookup(short)), key=len):
            root = self._root(rank)
            if root != own.rank and self._abbreviates(short, own, reading):
                options[root].add(reading)
            if len(options) > MAX_RIVALS:
                return None
        fit = [root for root in sorted(options) if not self._apart(own, self._nodes[root])]
        if self._kind == "npc":
            fit = self._fit_person(short, own, fit, options, by_given_name=by_given_name)
        return self._nodes[fit[0]] if len(fit) == 1 else None

    def _fit_person(
        self,
        short: Reading,
        own: Cluster,
        fit: list[int],
        options: Mapping[int, set[Reading]],
        *,
        by_given_name: bool,
    ) -> list[int]:
        """Choose by title, then by given name; a surname of several people needs support."""
        titles = short.titles - COMMON_STYLES
        titled = [root for root in fit if titles & self._nodes[root].titles]
        first = short.core[0]
        given = [
            root
            for root in fit
            if any(first == full.core[0] or stands_for(first, full) for full in options[root])
        ]
        if by_given_name:
            return titled if len(given) > len(titled) == 1 and set(titled) <= set(given) else given
        for few in (titled, given):
            if len(few) == 1:
                return few
        if len(options) > 1 and not given:
            gender = {pair for pair in own.facets if pair[0] == "gender"}
            fit = [root for root in fit if not titles and gender & self._nodes[root].facets]
        others = {reading.core for reading in own.readings if reading.proper} - {short.core}
        return [
            root
            for root in fit
            if all(set(core) <= set(full.core) for core in others for full in options[root])
        ]

    def _abbreviates(self, short: Reading, own: Cluster, full: Reading) -> bool:
        if short.type_only:
            return full.proper
        extra = set(full.core) - set(short.core)
        if not extra or not is_within(short, full):
            return False
        if self._kind == "npc":
            marks = {pair for pair in short.facets if pair[0] == "mark"}
            # 'Sir Second Name' is not 'Mr First Second Name'.
            begins = short.core[0] not in full.core[1:] or len(short.core) == 1
            return marks <= full.facets and (
                begins or not (own.titles and full.titles - own.titles)
            )
        if self._kind == "location":
            return len(short.core) > 1 and not any(map(is_distinguishing, extra))
        return short.proper and is_generic_extra(short.core, tuple(sorted(extra)))

    # ----------------------------------------------------------- misspelt names

    def join_misspelt_names(self) -> None:
        """Join names that are one slip of the pen apart, if neither has another such neighbour."""
        near: dict[int, set[int]] = defaultdict(set)
        for one, other in sorted(self._slips() | self._namesakes_by_parent()):
            left, right = self._root(one), self._root(other)
            if left != right and not self._apart(self._nodes[left], self._nodes[right]):
                near[left].add(right)
                near[right].add(left)
        for left, neighbours in sorted(near.items()):
            right = min(neighbours)
            if len(neighbours) == 1 and len(near[right]) == 1 and left < right:
                self._join(self._nodes[left], self._nodes[right])

    def _slips(self) -> set[tuple[int, int]]:
        by_gap: dict[str, list[tuple[str, int]]] = defaultdict(list)
        uses: Counter[str] = Counter()
        for cluster in self.clusters():
            cores = {reading.core for reading in cluster.readings if reading.core}
            uses.update({word for core in cores for word in core})
            for core in cores:
                for gap, word in _gaps(core):
                    by_gap[gap].append((word, cluster.rank))
        pairs = set()
        for found in by_gap.values():
            if 1 < len(found) <= MAX_RIVALS:
                pairs |= {
                    (min(one, other), max(one, other))
                    for (word, one), (variant, other) in combinations(found, 2)
                    if one != other and _is_slip(word, variant, uses)
                }
        return pairs

    def _namesakes_by_parent(self) -> set[tuple[int, int]]:
        """Return pairs whose names are spelt alike and whose stated parent is the same."""
        by_parent: dict[str, list[tuple[str, int]]] = defaultdict(list)
        for cluster in self.clusters():
            parents = [value for facet, value in cluster.facets if facet == "parent"]
            single = {reading.core[0] for reading in cluster.readings if len(reading.core) == 1}
            for parent in parents:
                by_parent[parent] += [(word[:MAX_WORD], cluster.rank) for word in sorted(single)]
        return {
            (min(one, other), max(one, other))
            for found in by_parent.values()
            if len(found) <= MAX_RIVALS
            for (word, one), (variant, other) in combinations(found, 2)
            if one != other and _is_spelt_alike(word, variant)
        }


def _is_spelt_alike(word: str, variant: str) -> bool:
    shorter = min(len(word), len(variant))
    return shorter >= MIN_BESIDE and OSA.distance(word, variant) <= (
        2 if shorter > MIN_BESIDE else 1
    )


def _gaps(core: Key) -> Iterator[tuple[str, str]]:
    """Yield the name with each letter left out in turn, and the word that it was left out of.

    Names that are one slip apart have one of these in common. First letters are seldom wrong.
    """
    for at, word in enumerate(core if len(core) <= MAX_MISSPELT else ()):
        least = MIN_ALONE if len(core) == 1 else MIN_BESIDE if at else MIN_FIRST
        if least <= len(word) <= MAX_WORD and word.isalpha():
            before, after = " ".join(core[:at]), " ".join(core[at + 1 :])
            shorter = {word[:cut] + word[cut + 1 :] for cut in range(1, len(word))}
            for gap in shorter | {word}:
                yield f"{before}/{gap}/{after}", word


def _is_slip(word: str, variant: str, uses: Mapping[str, int]) -> bool:
    """Tell whether one of the two looks like the other, misspelt; not if both are common here."""
    if word == variant or min(uses[word], uses[variant]) > 1:
        return False
    if f"{word}s" == variant or f"{variant}s" == word:  # a family is not one of its members
        return False
    if len(word) == len(variant) < MIN_CHANGED and sorted(word) != sorted(variant):
        return False
    return OSA.distance(word, variant, score_cutoff=1) <= 1


def _longest_first(short: tuple[Reading, int]) -> tuple[int, int, Key, Key, int]:
    reading, rank = short
    letters = sum(map(len, reading.core))
    last = (*sorted(reading.titles), *(value for _, value in sorted(reading.facets)))
    return (-len(reading.core), -letters, reading.core, last, rank)


def _lookup(short: Reading) -> list[list[str]]:
    """Return what a fuller name must be indexed under: one of each list."""
    if short.type_only:
        return [[f"/{kind}" for facet, kind in sorted(short.facets) if facet == "type"]]
    return [stems(short.core[0]), *([word] for word in short.core[1:])]


def _found(
    by_word: Mapping[str, list[tuple[Reading, int]]], words: list[str]
) -> list[tuple[Reading, int]]:
    return [found for word in words for found in by_word.get(word, [])]
