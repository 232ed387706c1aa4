"""Names that differ only in a mark which tells two things apart: `Cell 3` and `Cell 4`.

A safety rule that refuses a merge. It reads names alone and, in doubt, says nothing:

1. A name is folded (case, width, punctuation, possessives, articles, a plural's `s`) and split
   into its marks and its base: the other words, in their order.
2. Two names with the same base are distinct if both carry a mark on one axis with different
   values (`North`, `South`), or if only one carries a mark whose absence tells as well (`+1`).
3. A name with two values on one axis (`North-South Road`) has no mark there, only words.
4. Lots and amounts are never marks: `20 arrows`, `Arrows (20)`, `gems worth 850 gold`.
5. Two candidates that share any folded name or alias are never called distinct.
"""

import enum
import functools
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from types import MappingProxyType
from typing import Final, TypeAlias

import msgspec

from notarius.contracts import ContractError
from notarius.registries._fold import fold_text

NAME_LIMIT: Final = 1024
"""Characters of a name beyond which it has no marks. Folding a long run of accents is quadratic."""

REGNAL_WORDS: Final = 2
"""Words of a name, its title counted, for which a missing numeral tells.

`Baron Vex` is not `Baron Vex II`. A longer, full name is enough by itself, and a single word is how
everybody calls a king: both are used with and without the numeral.
"""

REGNAL_UNTELLING: Final = frozenset({"1", "5", "10", "sr"})
"""Numerals whose absence tells nothing: the first bearer needs none, V and X are initials too."""


class MarkKind(enum.StrEnum):
    """What sort of mark tells two names apart."""

    BONUS = "bonus"  # +1 Longsword
    DEGREE = "degree"  # Potion of Greater Healing
    GENDERED_TITLE = "gendered_title"  # Mr. Bennet
    MATERIAL = "material"  # gold ring
    NUMBER = "number"  # Cell 3, Block C
    OPPOSITE = "opposite"  # North Gate
    ORDINAL = "ordinal"  # the second floor
    REGNAL = "regnal"  # Baron Vex II, Baron Vex Jr., Pitt the Younger


class MarkAxis(msgspec.Struct, frozen=True, kw_only=True):
    """A set of values of which a thing has one; each is given by its words, space-separated.

    `absence_tells`: a name without any of them is told apart from a name with one. Raises
    `ContractError` on a word that no name could have once it is folded, or that stands twice.
    """

    name: str
    kind: MarkKind
    values: tuple[str, ...]
    absence_tells: bool = False

    def __post_init__(self) -> None:
        """Check the words."""
        words = [word for value in self.values for word in value.split()]
        for word in words:
            if not word.isalpha() or word != fold_text(word):
                message = f"axis {self.name}: `{word}` must be letters alone, in lower case"
                raise ContractError(message)
        _require_once(words, f"axis {self.name}")


class MarkRules(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    """Which marks count in one registry, beside places in a count and labels such as `cell 3`.

    `bare_numbers`: a number at the end is a label (`Guard 2`) also without a noun such
    as `cell` before it. `bonuses`: `+1` is a mark, and so is its absence. `regnal`: a numeral
    at the end belongs to a person; elsewhere it is a plain number. Raises `ContractError` if a
    word stands on two axes.
    """

    axes: tuple[MarkAxis, ...] = ()
    bare_numbers: bool = False
    bonuses: bool = False
    regnal: bool = False

    def __post_init__(self) -> None:
        """Check that no word stands on two axes."""
        _require_once(
            [word for axis in self.axes for value in axis.values for word in value.split()],
            "the axes of these rules",
        )


def _require_once(words: Sequence[str], where: str) -> None:
    repeated = [word for word, count in Counter(words).items() if count > 1]
    if repeated:
        message = f"{where}: `{repeated[0]}` stands twice; a word has one meaning"
        raise ContractError(message)


def _opposite(name: str, *values: str) -> MarkAxis:
    return MarkAxis(name=name, kind=MarkKind.OPPOSITE, values=values)


_COMPASS: Final = _opposite(
    "compass", "north northern", "south southern", "east eastern", "west western"
)
# An axis of its own: a north-eastern gate may well be called the north gate.
_BETWEEN: Final = _opposite(
    "between",
    "northeast northeastern",
    "northwest northwestern",
    "southeast southeastern",
    "southwest southwestern",
)
_LEVEL: Final = _opposite("level", "upper", "lower")
_DEPTH: Final = _opposite("depth", "inner", "outer")
_SIDE: Final = _opposite("side", "left", "right")
_END: Final = _opposite("end", "front", "back rear")
_AGE: Final = _opposite("age", "old", "new")
_WEIGHT: Final = _opposite("weight", "light", "heavy")
_MATERIAL: Final = MarkAxis(
    name="material",
    kind=MarkKind.MATERIAL,
    values=(
        "copper cp cps",
        "silver sp sps",
        "electrum ep eps",
        "gold golden gp gps",
        "platinum pp pps",
        "iron",
        "bronze",
        "brass",
        "steel",
        "wood wooden",
        "stone",
        "bone",
        "glass",
        "mithral mithril",
        "adamantine",
    ),
)
_DEGREES: Final = ("lesser minor", "greater", "superior", "supreme")
_DEGREE: Final = MarkAxis(name="degree", kind=MarkKind.DEGREE, values=_DEGREES)
# A potion of healing is not one of greater healing.
_POTENCY: Final = MarkAxis(
    name="potency", kind=MarkKind.DEGREE, values=_DEGREES, absence_tells=True
)
_SENIORITY: Final = MarkAxis(
    name="seniority",
    kind=MarkKind.REGNAL,
    values=("elder eldest older", "younger youngest"),
)
_GENDER: Final = MarkAxis(
    name="gender",
    kind=MarkKind.GENDERED_TITLE,
    values=(
        (
            "mr mister sir lord king prince duke count baron marquis emperor monsieur herr father"
            " brother uncle grandfather husband son nephew man boy"
        ),
        (
            "mrs miss ms dame lady queen princess duchess countess baroness marchioness empress"
            " madam madame mademoiselle frau mother sister aunt grandmother wife daughter niece"
            " woman girl"
        ),
    ),
)

MARK_RULES: Final[Mapping[str, MarkRules]] = MappingProxyType(
    {
        "npc": MarkRules(axes=(_GENDER, _SENIORITY, _SIDE), bare_numbers=True, regnal=True),
        "item": MarkRules(
            axes=(_POTENCY, _MATERIAL, _WEIGHT, _SIDE, _LEVEL, _DEPTH, _END, _COMPASS), bonuses=True
        ),
        "location": MarkRules(
            axes=(_COMPASS, _BETWEEN, _LEVEL, _DEPTH, _SIDE, _END, _AGE, _DEGREE),
            bare_numbers=True,
        ),
    }
)
"""The rules of each registry. A lord's and a lady's house may be one: places have no gender."""

LABEL_NOUNS: Final = (
    "# apartment area bay berth block booth bunker cabin camp cell chamber chapter class"
    " compartment corridor crypt deck district dock door dormitory floor gate grade hall hangar"
    " house key level map mark no number page pier plot post quarter road room route sector shaft"
    " site stage stall station suite tier tower track tunnel type unit vault version vial volume"
    " ward warehouse wing zone"
)
"""A number, a number word or a single letter after one of these is a label, not an amount."""

AMOUNT_CUES: Final = "about by for of qty quantity than worth x"
"""A number after one of these is an amount, whatever stands before."""

CARDINALS: Final = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"
    " sixteen seventeen eighteen nineteen twenty"
)
ORDINALS: Final = (
    "zeroth first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth"
    " thirteenth fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth twentieth"
)
NUMERALS: Final = "- i ii iii iv v vi vii viii ix x xi xii xiii xiv xv xvi xvii xviii xix xx"
GENERATIONS: Final = (("jr", "jr jnr junior"), ("sr", "sr snr"))

_LABEL_NOUNS: Final = frozenset(LABEL_NOUNS.split())
_AMOUNT_CUES: Final = frozenset(AMOUNT_CUES.split())
_CARDINALS: Final = {word: str(n) for n, word in enumerate(CARDINALS.split())}
_ORDINALS: Final = {word: str(n) for n, word in enumerate(ORDINALS.split())}
_NUMERALS: Final = {word: str(n) for n, word in enumerate(NUMERALS.split())}
_GENERATIONS: Final = {word: value for value, words in GENERATIONS for word in words.split()}

_TOKEN: Final = re.compile(
    r"""
    (?<![^\s,(\[]) (?:\+\s?|-) \d+ (?![^\W_])  # +1
    | \d+ (?:[.,]\d+)+                         # 1,000
    | [^\W_]+ (?:'[^\W_]+)*
    | [^\w\s]
    """,
    re.VERBOSE,
)
_LABEL: Final = re.compile(r"([a-z]{0,2})(\d+)([a-z]?)")
_NTH: Final = re.compile(r"(\d+)(?:st|nd|rd|th)")
# `Cell3` and `Longsword+1` are written in one.
_GLUED: Final = re.compile(r"(?<=[^\W\d_]{3})(?=\d+(?![^\W_]))|(?<=[^\W_])(?=\+\d)")
_COUNTS: Final = frozenset({MarkKind.NUMBER, MarkKind.ORDINAL, MarkKind.REGNAL})
_LIKE: Final = {0x2010: "-", 0x2212: "-", 0x2018: "'", 0x2019: "'", 0x02BC: "'"}
_ARTICLES: Final = frozenset({"a", "an", "the"})
_PUNCTUATION: Final = frozenset("#,()[]")
_SILENT: Final = _ARTICLES | _PUNCTUATION
_ENDS: Final = frozenset({"", "of", *",()[]"})
_PLURAL_LETTERS_MIN: Final = 4

Mark: TypeAlias = tuple[MarkKind, str, str]
"""Kind, axis and value."""


class MarkKey(msgspec.Struct, frozen=True, kw_only=True):
    """A name taken apart: only names with an equal `base` can be told apart by their `marks`.

    `marks` is sorted and has at most one mark an axis.
    """

    base: tuple[str, ...]
    marks: tuple[Mark, ...]


class Conflict(msgspec.Struct, frozen=True, kw_only=True):
    """Two members of a group, by their position, that are distinct by a mark of `kind`."""

    first: int
    second: int
    kind: MarkKind


def mark_key(name: str, *, rules: MarkRules) -> MarkKey:
    """Take a name apart. Any text is allowed; a name beyond `NAME_LIMIT` has no marks."""
    if len(name) > NAME_LIMIT:
        return MarkKey(base=(name.casefold(),), marks=())
    read = list(_read(_tokens(name), rules))
    values: dict[tuple[MarkKind, str], set[str]] = defaultdict(set)
    for _, marks in read:
        for kind, axis, value in marks:
            values[kind, axis].add(value)
    base: list[str] = []
    kept: set[Mark] = set()
    for words, marks in read:
        if marks and all(len(values[kind, axis]) == 1 for kind, axis, _ in marks):
            kept.update(marks)
        else:
            base.extend(_singular(word) for word in words if word not in _SILENT)
    return MarkKey(base=tuple(base), marks=tuple(sorted(kept)))


def distinguishing_marks(a: str, b: str, *, rules: MarkRules) -> MarkKind | None:
    """Return the kind of mark that tells two names apart, or None. The order does not matter."""
    return _contradiction(mark_key(a, rules=rules), mark_key(b, rules=rules), rules)


def distinct(
    names_a: Sequence[str], names_b: Sequence[str], *, rules: MarkRules
) -> MarkKind | None:
    """Return what tells two candidates apart, or None; each gives its name first, then aliases."""
    found = first_conflict((names_a, names_b), rules=rules)
    return found.kind if found else None


def first_conflict(members: Iterable[Sequence[str]], *, rules: MarkRules) -> Conflict | None:
    """Return two members of a group that are distinct, or None if no two are.

    Each member gives its name first, then its aliases. Takes time linear in the group for names
    that do not share aliases: members are compared only within a base, one for each set of marks
    and of names that others have too.
    """
    every = [tuple(names) for names in members]
    buckets: dict[tuple[str, ...], dict[int, MarkKey]] = defaultdict(dict)
    for at, names in enumerate(every):
        key = _key_of(names[0], rules)
        buckets[key.base][at] = key
    for bucket in buckets.values():
        if len(set(bucket.values())) > 1:
            found = _conflict_in(
                {at: (key, _folded(every[at])) for at, key in bucket.items()}, rules
            )
            if found is not None:
                return found
    return None


# Both are cached because one candidate can stand in many proposed groups.
@functools.lru_cache(maxsize=8192)
def _key_of(name: str, rules: MarkRules) -> MarkKey:
    return mark_key(name, rules=rules)


@functools.lru_cache(maxsize=8192)
def _folded(names: tuple[str, ...]) -> frozenset[str]:
    return frozenset(filter(None, map(fold_name, names)))


def fold_name(name: str) -> str:
    """Return a name as it is compared with aliases, its marks included; "" if nothing is left."""
    if len(name) > NAME_LIMIT:
        return name.casefold()
    return " ".join(_singular(token) for token in _tokens(name) if token not in _SILENT)


def _conflict_in(
    bucket: Mapping[int, tuple[MarkKey, frozenset[str]]], rules: MarkRules
) -> Conflict | None:
    uses = Counter(name for _, names in bucket.values() for name in names)
    if len(bucket) in uses.values():
        return None  # one name is everybody's
    # Members that nothing below can tell apart are looked at once.
    sorts: dict[tuple[MarkKey, frozenset[str]], int] = {}
    for at, (key, names) in bucket.items():
        sorts.setdefault((key, frozenset(name for name in names if uses[name] > 1)), at)
    for ((key_a, names_a), first), ((key_b, names_b), second) in combinations(sorts.items(), 2):
        kind = _contradiction(key_a, key_b, rules) if names_a.isdisjoint(names_b) else None
        if kind is not None:
            return Conflict(first=first, second=second, kind=kind)
    return None


def _contradiction(a: MarkKey, b: MarkKey, rules: MarkRules) -> MarkKind | None:
    if a.base != b.base:
        return None
    ours = {(kind, axis): value for kind, axis, value in a.marks}
    theirs = {(kind, axis): value for kind, axis, value in b.marks}
    titled = any(kind is MarkKind.GENDERED_TITLE for kind, _ in (*ours, *theirs))
    words = len(a.base) + titled
    counted = _counted(ours)
    if counted and counted == _counted(theirs):  # Henry VIII and Henry the 8th
        ours, theirs = (
            {mark: value for mark, value in marks.items() if mark[0] not in _COUNTS}
            for marks in (ours, theirs)
        )
    for kind, axis in sorted(ours.keys() | theirs.keys()):
        left, right = ours.get((kind, axis)), theirs.get((kind, axis))
        if left is None or right is None:
            if a.base and _absence_tells((kind, axis, left or right or ""), words, rules):
                return kind
        elif left != right:
            return kind
    return None


def _counted(marks: Mapping[tuple[MarkKind, str], str]) -> list[str]:
    return sorted(value for (kind, _), value in marks.items() if kind in _COUNTS)


def _absence_tells(mark: Mark, words: int, rules: MarkRules) -> bool:
    if mark[:2] == (MarkKind.REGNAL, MarkKind.REGNAL):
        return words == REGNAL_WORDS and mark[2] not in REGNAL_UNTELLING
    return mark[0] is MarkKind.BONUS or any(
        axis.absence_tells for axis in rules.axes if axis.name == mark[1]
    )


def _read(tokens: Sequence[str], rules: MarkRules) -> Iterator[tuple[Sequence[str], list[Mark]]]:
    """Yield the words of a name one by one (`plus one` together), each with the marks it is."""
    axes = _axis_words(rules)
    at = depth = 0
    while at < len(tokens):
        word, after = tokens[at], _at(tokens, at + 1)
        depth += (word in {"(", "["}) - (word in {")", "]"})
        size = 1
        if rules.bonuses and word[0] in "+-" and len(word) > 1:
            marks = [_mark(MarkKind.BONUS, str(int("".join(word.split()))))]
        elif rules.bonuses and word == "plus" and (after.isdecimal() or after in _CARDINALS):
            marks = [_mark(MarkKind.BONUS, _CARDINALS.get(after, after))]
            size = 2
        elif word in axes:
            marks = [axes[word]]
        else:
            marks = _serial(tokens, at, rules, inside=depth > 0)
        yield tokens[at : at + size], marks
        at += size


def _serial(tokens: Sequence[str], at: int, rules: MarkRules, *, inside: bool) -> list[Mark]:
    """Return the marks that the word at `at` is by its place in a count."""
    word, before = tokens[at], _at(tokens, at - 1)
    ends = _at(tokens, at + 1) in _ENDS
    follows = at > 0 and before not in _ARTICLES
    nth = _NTH.fullmatch(word)
    place = _ORDINALS.get(word, nth[1] if nth else "")
    if place:
        regnal = rules.regnal and ends and at > 1 and before == "the"  # Rudolf the Third
        return [_mark(MarkKind.REGNAL if regnal else MarkKind.ORDINAL, place)]
    if ends and follows:
        if rules.regnal and not inside and (word in _NUMERALS or word in _GENERATIONS):
            return [_mark(MarkKind.REGNAL, _NUMERALS.get(word) or _GENERATIONS[word])]
        if word in _NUMERALS and not rules.regnal:
            return [_mark(MarkKind.NUMBER, _NUMERALS[word])]
    labelled = before in _LABEL_NOUNS
    if labelled and word in _CARDINALS:
        return [_mark(MarkKind.NUMBER, _CARDINALS[word])]
    if labelled and ends and len(word) == 1 and word.isalpha():
        return [(MarkKind.NUMBER, "letter", word)]
    bare = rules.bare_numbers and ends and follows and not inside and _is_one(before)
    return _number(word, bare=bare, labelled=labelled)


def _number(token: str, *, bare: bool, labelled: bool) -> list[Mark]:
    """Return the marks of `3`, `3b` or `A19`; a bare number's unit (`50m`) makes it an amount."""
    match = _LABEL.fullmatch(token.replace(",", ""))
    if match is None:
        return []
    letters, digits, suffix = match.groups()
    if letters == "x" or not (letters or labelled or (bare and not suffix)):
        return []
    marks = [_mark(MarkKind.NUMBER, letters + (digits.lstrip("0") or "0"))]
    # An axis of its own: the A1 and the A1M may be one road.
    return [*marks, (MarkKind.NUMBER, "suffix", suffix)] if suffix else marks


def _is_one(before: str) -> bool:
    return before not in _AMOUNT_CUES and _singular(before) == before


def _mark(kind: MarkKind, value: str) -> Mark:
    return kind, kind.value, value


def _at(tokens: Sequence[str], at: int) -> str:
    return tokens[at] if 0 <= at < len(tokens) else ""


@functools.lru_cache(maxsize=16)
def _axis_words(rules: MarkRules) -> Mapping[str, Mark]:
    return MappingProxyType(
        {
            word: (axis.kind, axis.name, words.partition(" ")[0])
            for axis in rules.axes
            for words in axis.values
            for word in words.split()
        }
    )


def _singular(word: str) -> str:
    if len(word) >= _PLURAL_LETTERS_MIN and word[-1] == "s" and word[-2] not in "aisu":
        return word[:-1]
    return word


def _tokens(name: str) -> list[str]:
    text = _GLUED.sub(" ", fold_text(name).translate(_LIKE))
    found = _TOKEN.findall(text)
    return [word.removesuffix("'s").replace("'", "") for word in found if _counts(word)]


def _counts(token: str) -> bool:
    """Whether a token is more than punctuation: a symbol or a vowel sign may make the name."""
    return token[-1].isalnum() or token in _PUNCTUATION or unicodedata.category(token)[0] in "MS"
