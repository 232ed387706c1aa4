"""Divides a list that no single request has room for into blocks, one request each.

1. Every candidate is in exactly one block; nothing is cut or dropped.
2. A block fits: its prompt, a whole answer, that answer sent back with a correction of any length,
   a new answer that can't be read, the demand for JSON, and the last answer, counted so that no
   tokenizer needs more. What the budgets do not allow takes no room.
3. What the matcher takes for one is kept together first, then what has words and pieces of words
   in common, the strongest link first, as long as the union fits. What is left over fills the room
   that is left, so that there are few requests.
4. Work is on candidates in content order, and ties are broken by it: the order of the list decides
   nothing but the indexes in the answer.
5. A word that many share is no reason to compare them all: each is compared with its neighbours in
   content order, which bounds time and memory.
"""

import heapq
import math
import re
import unicodedata
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, islice, product
from typing import Final, NamedTuple, Self, assert_never

import msgspec

from notarius.contracts import GUIDANCE_MAX_BYTES, cut, one_line
from notarius.pipeline._clusters import MAX_ALIASES
from notarius.pipeline._errors import InputError
from notarius.pipeline._exchange import Budgets
from notarius.pipeline._models import REPLY_TOKENS, REPLY_TOKENS_PER_CANDIDATE
from notarius.pipeline._names import MAX_CHARS, MAX_PROSE_CHARS, plain_text, singular
from notarius.pipeline._similarity import propose
from notarius.pipeline._words import DETERMINERS, LINKS, PREPOSITIONS
from notarius.registries import (
    STANDARD_COINAGES,
    Candidate,
    Coinage,
    ItemRules,
    LocationRules,
    NpcRules,
    RegistryKind,
)
from notarius.semanticreconcile import Listed, Subject, build_request

MESSAGE_TOKENS: Final = 10
"""What a chat template puts around a message: markers, the role, line ends."""
TEMPLATE_TOKENS: Final = 80
"""What a chat template says by itself: dates, channels, how much to think."""
REPAIR_MAX_BYTES: Final = 256
"""What a repair says at most about an answer that could not be read."""

# What we wrote is English, at most 0.30 tokens a byte in each of six vocabularies of 32,000 to
# 200,000 tokens. Guidance has ids as well, which are nearly a token a byte. The most that it could
# be brought to, in either of two wordings, is 1,367 tokens for 2 candidates, 1,692 for 20 and 3,031
# for 10,000; allowed are 1,600, 2,176 and 3,584.
_PER_BYTES: Final = 128
_PROSE_TOKENS: Final = 48
"""Tokens for 128 bytes of our own; in guidance one more for each candidate, up to a limit."""
_GUIDANCE_TOKENS_MAX: Final = 112
"""That limit: the tokens of 128 bytes that are nothing but ids, `c12345, c12346`."""

MATCHED_MAX: Final = 500
"""Candidates that the matcher is asked about at once: its time may grow with their cube."""
MAX_HOLDERS: Final = 32
"""Names that are all compared because they share a word, or a piece of one."""
NEIGHBOURS: Final = 4
"""Names to each side that one of more than `MAX_HOLDERS` is compared with."""
MAX_LINKS: Final = 8
"""Links of a name that are kept, the strongest."""
MAX_FEATURES: Final = 128
"""Words and pieces by which a name is compared: first of its names, then of its descriptions."""
PIECE: Final = 3
"""Letters of a piece of a word, its beginning and end counted as letters."""
PIECE_WEIGHT: Final = 0.35
"""Weight of a piece of a word, where a word of a name has 1."""
PROSE_WEIGHT: Final = 0.3
"""Weight of a word that only the description has."""
ALIKE: Final = 0.5
"""Strength of a link, at most 1, beyond which two names are alike."""

_OWN_COINS: Final = frozenset(coin.label for coin in STANDARD_COINAGES)
_WORD: Final = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
_UNTELLING: Final = DETERMINERS | LINKS | PREPOSITIONS
_SHOWN_MAX_BYTES: Final = 60
_LEAST_ASKED: Final = 2
"""Candidates without which there is nothing to ask."""

_USUAL: Final = Budgets()

_Names = tuple[str, tuple[str, ...]]


class _Link(NamedTuple):
    strength: float
    one: Sequence[int]
    other: Sequence[int]


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens of a model's context, and those of what any request says (`frame_tokens`).

    An answer can be sent back with a correction (`corrected`) or with a shorter message
    (`repaired`), or one with the first and the next with the second. `own_words` says that guidance
    holds no words but ours: a setting may name its own coins.
    """

    context_tokens: int
    frame_tokens: int
    corrected: bool = True
    repaired: bool = True
    own_words: bool = True

    @classmethod
    def of(
        cls,
        kind: RegistryKind,
        context_tokens: int,
        *,
        budgets: Budgets = _USUAL,
        coinages: Sequence[Coinage] = STANDARD_COINAGES,
    ) -> Self:
        """Return the budget for requests about a registry."""
        frame = build_request(_subject(kind), ()).prompt
        own = sum(len(message.content.encode()) for message in frame.messages)
        return cls(
            context_tokens=context_tokens,
            frame_tokens=TEMPLATE_TOKENS + _own_tokens(own, _PROSE_TOKENS),
            corrected=budgets.policy.normalize_retries > 0,
            repaired=budgets.repair_retries > 0,
            own_words=kind != "item" or {coin.label for coin in coinages} <= _OWN_COINS,
        )

    def needed(self, line_tokens: int, candidates: int) -> int:
        """Return what a request with lines of so many tokens may come to, correction and all."""
        answer = REPLY_TOKENS + REPLY_TOKENS_PER_CANDIDATE * candidates
        # The system's, the question, the answers, and what is said of each but the last.
        messages = 2 * self.answers + 1
        around = self.frame_tokens + messages * MESSAGE_TOKENS
        said = self._guidance_tokens(candidates) + self._repair_tokens
        return around + line_tokens + self.answers * answer + said

    @property
    def answers(self) -> int:
        """How many answers a request may hold: one is written, and two may be sent back.

        The first to be corrected, and the corrected one because it can't be read.
        """
        return 1 + self.corrected + self.repaired

    def _guidance_tokens(self, candidates: int) -> int:
        if not self.corrected:
            return 0
        density = min(_PROSE_TOKENS + candidates, _GUIDANCE_TOKENS_MAX)
        return _own_tokens(GUIDANCE_MAX_BYTES, density if self.own_words else _PER_BYTES)

    @property
    def _repair_tokens(self) -> int:
        return _own_tokens(REPAIR_MAX_BYTES, _PROSE_TOKENS) if self.repaired else 0

    def fits(self, line_tokens: int, candidates: int) -> bool:
        """Whether that is in the context."""
        return self.needed(line_tokens, candidates) <= self.context_tokens


def _own_tokens(size: int, density: int) -> int:
    """Return the tokens, rounded up, of so many bytes that we wrote."""
    return -(-size * density // _PER_BYTES)


def tokens_at_most(text: str) -> int:
    """Return a number of tokens that no tokenizer exceeds, whoever wrote the text.

    One a byte: at worst a tokenizer falls back on bytes. Some compose or replace characters before,
    which can make more bytes of them.
    """
    if text.isascii():
        return len(text)
    forms = (text, *(unicodedata.normalize(form, text) for form in ("NFC", "NFKC")))
    return max(len(form.encode()) for form in forms)


def line_tokens(kind: RegistryKind, candidates: Sequence[Candidate]) -> list[int]:
    """Return, for each candidate, the tokens that its line in a request has at most.

    Its id is taken to be as long as the longest, so that the order of the list changes nothing.
    """

    def asked(*listed: Listed) -> int:
        return tokens_at_most(build_request(_subject(kind), listed).prompt.messages[-1].content)

    around = asked()
    # A line end each, and in the request about one candidate alone its id has a single digit.
    more = len("\n") + len(str(len(candidates))) - 1
    return [
        asked(Listed(name=item.name, aliases=item.aliases, description=item.description))
        - around
        + more
        for item in candidates
    ]


def _subject(kind: RegistryKind) -> Subject:
    match kind:
        case "npc":
            return NpcRules.subject
        case "item":
            return ItemRules.subject
        case "location":
            return LocationRules.subject
        case _:
            assert_never(kind)


def plan_blocks(
    kind: RegistryKind,
    candidates: Sequence[Candidate],
    *,
    context_tokens: int | None,
    budgets: Budgets = _USUAL,
    coinages: Sequence[Coinage] = STANDARD_COINAGES,
) -> tuple[tuple[int, ...], ...]:
    """Return disjoint blocks of indexes that cover the list, ascending, the first index first.

    A single block if everything fits, or if no limit is known (`context_tokens` is `None`); none
    for an empty list. Raises `InputError`, naming what is too long, if there are two candidates
    that can't be asked about together: else any two that are alike can. `budgets` say what may be
    sent back to the model, which takes room.
    """
    whole = tuple(range(len(candidates)))
    if context_tokens is None or len(whole) < _LEAST_ASKED:
        return (whole,) if whole else ()
    budget = Budget.of(kind, context_tokens, budgets=budgets, coinages=coinages)
    tokens = line_tokens(kind, candidates)
    if budget.fits(sum(tokens), len(whole)):
        return (whole,)
    _require_room_for_two(budget, candidates, tokens)
    nodes = _nodes(candidates)
    links = _links(candidates, nodes)
    sets = _sets(kind, candidates, nodes, links)
    clusters = _Clusters(budget.fits, tokens)
    clusters.fill(sets)
    clusters.follow(links)
    blocks = _packed(clusters.members(chain.from_iterable(nodes)), budget, tokens)
    _accompany(blocks, sets, [link for link in links if link.strength > ALIKE])
    return tuple(sorted(tuple(sorted(block)) for block in blocks))


def _require_room_for_two(
    budget: Budget, candidates: Sequence[Candidate], tokens: Sequence[int]
) -> None:
    """Raise `InputError` if the two longest candidates do not fit in one request."""
    if budget.fits(sum(heapq.nlargest(2, tokens)), 2):
        return
    raise InputError(
        *(
            f"candidate `{cut(one_line(candidate.source_id), _SHOWN_MAX_BYTES)}`: a request about "
            f"it and one as long may need {budget.needed(2 * size, 2)} tokens, but the model's "
            f"context has {budget.context_tokens}; use a larger context, or shorten the "
            "candidate's description and aliases"
            for candidate, size in zip(candidates, tokens, strict=True)
            if not budget.fits(2 * size, 2)
        )
    )


# ------------------------------------------------------------------ what is alike


def _nodes(candidates: Sequence[Candidate]) -> list[list[int]]:
    """Return the candidates of the same names together, all in content order."""
    nodes: dict[_Names, list[int]] = defaultdict(list)
    for index, candidate in enumerate(candidates):
        nodes[_names(candidate)].append(index)

    def content(index: int) -> tuple[str, tuple[str, ...], str, str]:
        found = candidates[index]
        return found.name, found.aliases, found.description, found.source_id

    return [sorted(nodes[names], key=content) for names in sorted(nodes)]


def _names(candidate: Candidate) -> _Names:
    aliases = sorted(set(candidate.aliases))[:MAX_ALIASES]
    return _folded(candidate.name), tuple(sorted(set(map(_folded, aliases))))


def _folded(name: str) -> str:
    return " ".join(_words(name[:MAX_CHARS])) or name[:MAX_CHARS].casefold()


def _words(text: str) -> list[str]:
    words = _WORD.findall(plain_text(text).casefold())
    return [singular(word.replace("'", "")) for word in words if word not in _UNTELLING]


def _links(candidates: Sequence[Candidate], nodes: Sequence[Sequence[int]]) -> list[_Link]:
    """Return each node's strongest links, the strongest first.

    The strength is the cosine of the two nodes' words and pieces of words, rare ones weighing most.
    """
    features = [_features(candidates, node) for node in nodes]
    holders: dict[str, list[int]] = defaultdict(list)
    for at, held in enumerate(features):
        for feature in held:
            holders[feature].append(at)
    vectors = [_vector(held, holders, len(nodes)) for held in features]
    passed: dict[str, int] = defaultdict(int)
    links: dict[tuple[int, int], float] = {}
    for at, vector in enumerate(vectors):
        strengths: dict[int, float] = defaultdict(float)
        for feature, weight in vector.items():
            near = holders[feature]
            if len(near) > MAX_HOLDERS:
                here = passed[feature]
                passed[feature] += 1
                near = near[max(0, here - NEIGHBOURS) : here + NEIGHBOURS + 1]
            for other in near:
                strengths[other] += weight * vectors[other][feature]
        strengths.pop(at, None)
        best = heapq.nsmallest(MAX_LINKS, ((-strengths[other], other) for other in strengths))
        links |= {(min(at, other), max(at, other)): -minus for minus, other in best}
    strongest = sorted((-strength, one, other) for (one, other), strength in links.items())
    return [_Link(-minus, nodes[one], nodes[other]) for minus, one, other in strongest]


def _features(candidates: Sequence[Candidate], node: Sequence[int]) -> dict[str, float]:
    """Return the words of a node's names, their pieces, and the words of its descriptions."""
    name, aliases = _names(candidates[node[0]])
    features = dict.fromkeys(" ".join((name, *aliases)).split(), 1.0)
    for word in list(features):
        edged = f"^{word}$"
        for start in range(len(edged) - PIECE + 1):
            features.setdefault(f"~{edged[start : start + PIECE]}", PIECE_WEIGHT)
    for text in sorted({candidates[index].description[:MAX_PROSE_CHARS] for index in node}):
        for word in _words(text):
            features.setdefault(word, PROSE_WEIGHT)
    return dict(islice(features.items(), MAX_FEATURES))


def _vector(
    features: Mapping[str, float], holders: Mapping[str, Sequence[int]], nodes: int
) -> dict[str, float]:
    """Weigh features by their rarity, to length 1; those that only one node has lead nowhere."""
    weights = {
        feature: weight * math.log((nodes + 1) / len(holders[feature]))
        for feature, weight in features.items()
    }
    length = math.sqrt(sum(weight * weight for weight in weights.values()))
    return {
        feature: weight / length for feature, weight in weights.items() if len(holders[feature]) > 1
    }


# ------------------------------------------------------------------ what comes together


class _Clusters:
    """Candidates that are kept together, as long as `fits` allows so many tokens and candidates."""

    def __init__(self, fits: Callable[[int, int], bool], tokens: Sequence[int]) -> None:
        self._fits = fits
        self._parents = list(range(len(tokens)))
        self._tokens = list(tokens)
        self._counts = [1] * len(tokens)

    def _root(self, index: int) -> int:
        parents = self._parents
        while parents[index] != index:
            parents[index] = parents[parents[index]]
            index = parents[index]
        return index

    def _unite(self, one: int, other: int) -> bool:
        one, other = self._root(one), self._root(other)
        if one == other:
            return True
        tokens = self._tokens[one] + self._tokens[other]
        count = self._counts[one] + self._counts[other]
        if not self._fits(tokens, count):
            return False
        self._parents[other] = one
        self._tokens[one], self._counts[one] = tokens, count
        return True

    def fill(self, sets: Iterable[Sequence[int]]) -> None:
        """Unite each set; one that is too large becomes clusters as full as they can be."""
        for members in sets:
            last = members[0]
            for member in members[1:]:
                if not self._unite(last, member):
                    last = member

    def follow(self, links: Iterable[_Link]) -> None:
        """Unite what is linked, where there is room; a node of several clusters by its ends."""
        for _, one, other in links:
            ends = product((one[-1], one[0]), (other[0], other[-1]))
            any(self._unite(left, right) for left, right in ends)

    def members(self, order: Iterable[int]) -> list[list[int]]:
        """Return the clusters and their members in the order given."""
        clusters: dict[int, list[int]] = defaultdict(list)
        for index in order:
            clusters[self._root(index)].append(index)
        return list(clusters.values())


def _sets(
    kind: RegistryKind,
    candidates: Sequence[Candidate],
    nodes: Sequence[Sequence[int]],
    links: Iterable[_Link],
) -> list[list[int]]:
    """Return what the matcher takes for one, with all that bears the same names.

    The matcher is asked about `MATCHED_MAX` candidates at a time, what is linked together. It goes
    by names alone here: two of one name may be two, but that is for the model to say.
    """
    order = list(chain.from_iterable(nodes))
    near = _Clusters(lambda _, count: count <= MATCHED_MAX, [0] * len(candidates))
    near.fill(nodes)
    near.follow(links)
    near.fill([order])
    sets = _Clusters(lambda *_: True, [0] * len(candidates))
    sets.fill(nodes)
    for members in near.members(order):
        found = [candidates[index] for index in members]
        groups = propose(kind, found, compatible=lambda _: True)
        sets.fill([members[at] for at in group] for group in groups)
    return sets.members(order)


def _packed(
    clusters: Sequence[Sequence[int]], budget: Budget, tokens: Sequence[int]
) -> list[list[int]]:
    """Return blocks of clusters: the largest first, each where it leaves the least room."""
    sizes = [(sum(tokens[index] for index in cluster), len(cluster)) for cluster in clusters]
    blocks: list[list[int]] = []
    filled: list[tuple[int, int]] = []
    rooms: list[tuple[int, int]] = []
    for at in sorted(range(len(clusters)), key=lambda at: -budget.needed(*sizes[at])):
        size, count = sizes[at]
        # What the cluster adds at least; the room for guidance grows a little as well.
        least = size + budget.answers * REPLY_TOKENS_PER_CANDIDATE * count
        best = bisect_left(rooms, (least, 0))
        while best < len(rooms):
            number = rooms[best][1]
            if budget.fits(filled[number][0] + size, filled[number][1] + count):
                del rooms[best]
                break
            best += 1
        else:
            number = len(blocks)
            blocks.append([])
            filled.append((0, 0))
        blocks[number] += clusters[at]
        filled[number] = (filled[number][0] + size, filled[number][1] + count)
        insort(rooms, (budget.context_tokens - budget.needed(*filled[number]), number))
    return blocks


def _accompany(
    blocks: Sequence[list[int]], sets: Sequence[Sequence[int]], links: Sequence[_Link]
) -> None:
    """Give a candidate that is left alone one that is like it, from a block that can spare it.

    There is one at most: any two fit in a block.
    """
    for alone in blocks:
        if len(alone) > 1:
            continue
        (index,) = alone
        mates = [mate for members in sets if index in members for mate in members]
        for _, one, other in links:
            mates += other if index in one else one if index in other else ()
        of = {member: block for block in blocks for member in block}
        spare = next((mate for mate in mates if len(of[mate]) > _LEAST_ASKED), None)
        if spare is not None:
            of[spare].remove(spare)
            alone.append(spare)
        return
