"""Is an item money, and which coin? Told from its name, and from what it weighs.

The rules, in order:

1. A name is read as words; case, width, punctuation and the dots of `g.p.` do not matter. A name
   longer than `NAME_LIMIT` characters is no currency: nobody calls a coin that.
2. Every word must be a coin's name or abbreviation, a word for money in general, or an amount.
   One other word (`ring`, `sack`, `worth`, `dragon`) makes it an object: `sack of gold` is a sack.
3. One coin, however often it is named, is that coin: `Gold Piece (GP)`.
4. Several coins in a list, or money of no named coin, is currency without a code: it is never
   counted as one of them. Two coins side by side without a comma, an `and` or an amount between
   them are no list but a thing (`silver crown`), hence no currency.

5. A metal for trade is called `Gold` too. So where a coin's bare name is the whole name, and a text
   about the item says that this comes by weight or in bars (`1 lb. of gold`, `gold ingots`,
   `Gold, 50 gp, 1 lb.`), it is an object.

Money in a container (`pouch of coins`) is an object: it is the same thing as the `coin pouch`.
"""

import enum
import functools
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import msgspec

from notarius.registries._fold import fold_text

NAME_LIMIT: Final = 200
"""Characters of an item's name, after trimming, beyond which it is never currency."""

PROSE_LIMIT: Final = 400
"""Characters of a text about an item that are read for a weight."""

TERM_LIMIT: Final = 64
"""Characters of one configured label, name or abbreviation."""


class WordRole(enum.StrEnum):
    """What a word does in the name of money, apart from the words that name a coin."""

    MONEY = "money"  # is money by itself
    PIECE = "piece"  # counts coins, but is money only beside the name of one
    AMOUNT = "amount"  # how many; another coin may follow
    JOIN = "join"  # between the members of a list
    PLAIN = "plain"  # changes nothing


WORDS: Final = MappingProxyType(
    {
        WordRole.MONEY: "coin coins cash coinage currency money",
        WordRole.PIECE: "piece pieces pc pcs",
        WordRole.AMOUNT: (
            "one two three four five six seven eight nine ten eleven twelve thirteen fourteen"
            " fifteen sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy"
            " eighty ninety hundred hundreds thousand thousands million millions dozen dozens half"
            " couple pair few several many some handful handfuls fistful pile heap stack lot lots"
            " bunch x , ("
        ),
        WordRole.JOIN: "and or plus & + / ;",
        WordRole.PLAIN: (
            "a an the of about around approximately roughly nearly almost over another more extra"
            " remaining total each apiece assorted different loose mixed various s"
        ),
    }
)
_ROLES: Final = MappingProxyType(
    {word: role for role, words in WORDS.items() for word in words.split()}
)

_TOKEN: Final = re.compile(
    r"""
    (?P<initials> [^\W\d_] (?:\.[^\W\d_])+ (?![^\W\d_]) )  # g.p.
    | (?P<other>
        \d+d\d+ | \d[\d,.]*(?:k(?![^\W_]))?                # 2d6, 1,000, 5k
        | [^\W\d_]+
        | [&+/;,(]
    )
    """,
    re.VERBOSE,
)
MASSES: Final = "lbs? oz kgs? pounds? ounces? kilos? kilograms? grams?"
SHAPES: Final = "ingots? bars?"
NOT_COINS: Final = "coins? pieces? coinage currency money cash for"
BY_WEIGHT: Final = (
    # The name stands for NAME, and no coins follow it. `1 lb. of pure gold`, `a bar of gold`:
    r"(?:\d\ ?|\b(?:an?|one|two|three|four|five|six|seven|eight|nine|ten|half|per|each)\ )"
    r"(?:(?:MASS|SHAPE)\ (?:of\ )?|(?:MASS)\.\ of\ )(?:(?:the|pure|raw|solid|refined)\ ){0,3}"
    r"NAME(?!['\w-]|\ (?:COINS)\b)"
    # `gold ingots`
    r"|\bNAME\ (?:ingots?|bars)\b"
    # A line of a price list: `Gold, 50 gp, 1 lb.` and `Gold (1 lb.), 50 gp`.
    r"|\A\W{0,8}NAME\ ?[,:|](?:(?!\b(?:COINS)\b)[^.;]){0,60}?\d\ ?(?:MASS)\b\.?\W{0,3}\Z"
    r"|\A\W{0,8}NAME\ \(\d[\d.,]{0,8}\ ?(?:MASS)\b\.?\)"
)
_UNITS: Final = MappingProxyType(
    {
        "MASS": MASSES.replace(" ", "|"),
        "SHAPE": SHAPES.replace(" ", "|"),
        "COINS": NOT_COINS.replace(" ", "|"),
    }
)
_CODE: Final = re.compile(r"[a-z][a-z0-9-]{0,15}")
_PLAIN_WORDS: Final = re.compile(r"[^\W\d_]+(?:[ '-][^\W\d_]+)*")
_ABBREVIATION: Final = re.compile(r"[^\W\d_]+|[^\W\d_](?:\.[^\W\d_])+\.?")


def _shown(term: str) -> str:
    """Quote a configured text in a message: one line of ASCII, and never long."""
    return ascii(term if len(term) <= TERM_LIMIT else f"{term[:TERM_LIMIT]}...")


def _is_written(term: str, form: re.Pattern[str]) -> bool:
    """Whether `term` has the form both as it stands and as names are compared with it."""
    return (
        len(term) <= TERM_LIMIT
        and form.fullmatch(unicodedata.normalize("NFC", term)) is not None
        and form.fullmatch(fold_text(term)) is not None
    )


class Coinage(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    """One coin of a setting.

    `code` is what a denomination says, `label` the plural that a model is told (`gold coins`).
    `names` may stand bare (`gold`) and get a plural `s`; `abbreviations` are taken as they are.
    Raises `ValueError` that says what to change.
    """

    code: str
    label: str
    names: tuple[str, ...] = ()
    abbreviations: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check each text on its own."""
        if not _CODE.fullmatch(self.code):
            raise ValueError(
                f"coinage code {_shown(self.code)}: use 1 to 16 of a-z, 0-9 and '-', a letter first"
            )
        for term in (self.label, *self.names):
            if not _is_written(term, _PLAIN_WORDS):
                raise ValueError(
                    f"coinage {self.code}: label or name {_shown(term)} must be plain words with"
                    f" one space between them, at most {TERM_LIMIT} characters"
                )
        for term in self.abbreviations:
            if not _is_written(term, _ABBREVIATION):
                raise ValueError(
                    f"coinage {self.code}: abbreviation {_shown(term)} must be letters without"
                    f" spaces, at most {TERM_LIMIT} characters"
                )


STANDARD_COINAGES: Final = (
    Coinage(code="cp", label="copper coins", names=("copper",), abbreviations=("cp",)),
    Coinage(code="sp", label="silver coins", names=("silver",), abbreviations=("sp",)),
    Coinage(code="ep", label="electrum coins", names=("electrum",), abbreviations=("ep",)),
    Coinage(code="gp", label="gold coins", names=("gold",), abbreviations=("gp",)),
    Coinage(code="pp", label="platinum coins", names=("platinum", "plat"), abbreviations=("pp",)),
)
"""The five coins of the 5th edition exchange table, smallest first."""


class Currency(msgspec.Struct, frozen=True, kw_only=True):
    """An item is money: of the coin `code`, or of several or unnamed coins when it is `None`.

    `several` then has the codes of the coins that its name lists, sorted, "" for unnamed ones;
    it is empty for money of which the name says no more.
    """

    code: str | None
    several: tuple[str, ...] = ()


class CurrencyRules(msgspec.Struct, frozen=True, kw_only=True):
    """Tells money from objects for the given coinages.

    Raises `ValueError` if two coinages share a code, label, name or abbreviation, or if one of
    those is a word that already means something here (`coin`, `piece`, `dozen`).
    """

    coinages: tuple[Coinage, ...] = STANDARD_COINAGES

    def __post_init__(self) -> None:
        """Check the coinages against each other."""
        _vocabulary(self.coinages)

    def classify(self, name: str, about: Iterable[str] = ()) -> Currency | None:
        """Return which money `name` is, or None for an object. Any text is allowed.

        `about` is what else is said of the item: its description, sentences about it.
        """
        text = name.strip()
        # Cut off before folding, which takes quadratic time on a long run of accents.
        if len(text) > NAME_LIMIT:
            return None
        found = _classify(text, self.coinages)
        if found is not None and found.code and _is_by_weight(text, tuple(about), self.coinages):
            return None
        return found

    def mentioned(self, name: str) -> tuple[str, ...]:
        """Return the codes of all coins that are named anywhere in `name`, sorted."""
        text = name.strip()
        if len(text) > NAME_LIMIT:
            return ()
        words = list(_tokens(text))
        found = {code for code, _ in _read(words, _vocabulary(self.coinages)) if code is not None}
        return tuple(sorted(found))


@functools.lru_cache(maxsize=8192)  # one candidate can stand in many proposed groups
def _classify(text: str, coinages: tuple[Coinage, ...]) -> Currency | None:
    terms = _vocabulary(coinages)
    codes: set[str | None] = set()
    for part in _parts(_tokens(text)):
        found = _part_codes(part, terms)
        if found is None:
            return None
        codes |= found
    if not codes:
        return None
    if len(codes) == 1:
        return Currency(code=codes.pop())
    return Currency(code=None, several=tuple(sorted(code or "" for code in codes)))


@functools.lru_cache(maxsize=1024)  # as above; the texts about it can be many
def _is_by_weight(text: str, about: tuple[str, ...], coinages: tuple[Coinage, ...]) -> bool:
    by_weight = _by_weight(text, coinages)
    return by_weight is not None and any(
        by_weight.search(" ".join(fold_text(said.strip()[:PROSE_LIMIT]).split())) for said in about
    )


@functools.lru_cache(maxsize=1024)
def _by_weight(text: str, coinages: tuple[Coinage, ...]) -> re.Pattern[str] | None:
    """Return what says that goods of this name come by weight; None unless it is a bare name."""
    words = [word for word in _tokens(text) if _ROLES.get(word) is not WordRole.PLAIN]
    bare = {tuple(_tokens(name)) for coinage in coinages for name in coinage.names}
    if tuple(words) not in bare:
        return None
    parts = {"NAME": "[ '-]".join(words), **_UNITS}
    return re.compile(re.sub("NAME|MASS|SHAPE|COINS", lambda found: parts[found[0]], BY_WEIGHT))


def _part_codes(
    part: Sequence[str], terms: Mapping[tuple[str, ...], str]
) -> set[str | None] | None:
    """Return the coins that one member of a list names, or {None} for unnamed money.

    The result is empty for a mere amount, and None if anything in the part is not money.
    """
    codes: set[str | None] = set()
    roles: set[WordRole] = set()
    apart = True
    for code, role in _read(part, terms):
        if role is not None:
            roles.add(role)
            apart = apart or role is not WordRole.PLAIN
        elif code is None or (codes - {code} and not apart):
            return None
        else:
            codes.add(code)
            apart = False
    if codes:
        return codes
    if WordRole.PIECE in roles:
        return None
    return {None} if WordRole.MONEY in roles else set()


def _read(
    part: Sequence[str], terms: Mapping[tuple[str, ...], str]
) -> Iterator[tuple[str | None, WordRole | None]]:
    """Yield the code of a coin or the role of a word; neither for a word that is not money's."""
    longest = max(map(len, terms), default=0)
    at = 0
    while at < len(part):
        for size in range(longest, 0, -1):
            code = terms.get(tuple(part[at : at + size]))
            if code is not None:
                yield code, None
                at += size
                break
        else:
            word = part[at]
            yield None, WordRole.AMOUNT if word[0].isdecimal() else _ROLES.get(word)
            at += 1


def _parts(tokens: Iterable[str]) -> Iterator[list[str]]:
    """Cut a list of things at the words and signs that join them."""
    part: list[str] = []
    for token in tokens:
        if _ROLES.get(token) is WordRole.JOIN:
            yield part
            part = []
        else:
            part.append(token)
    yield part


def _tokens(text: str) -> Iterator[str]:
    for match in _TOKEN.finditer(fold_text(text)):
        yield match["other"] or match["initials"].replace(".", "")


@functools.lru_cache(maxsize=64)
def _vocabulary(coinages: tuple[Coinage, ...]) -> Mapping[tuple[str, ...], str]:
    """Return the code for every sequence of words that names a coin."""
    terms: dict[tuple[str, ...], str] = {}
    if len({coinage.code for coinage in coinages}) < len(coinages):
        raise ValueError("two coinages have the same code: give each coin its own")
    for coinage in coinages:
        for term in (coinage.label, *coinage.names, *coinage.abbreviations):
            words = tuple(_tokens(term))
            if (len(words) == 1 and words[0] in _ROLES) or any(
                _ROLES.get(word) is WordRole.JOIN for word in words
            ):
                raise ValueError(
                    f"coinage {coinage.code}: {_shown(term)} means any coin, an amount or a list;"
                    " name the coin itself"
                )
            if terms.setdefault(words, coinage.code) != coinage.code:
                raise ValueError(
                    f"{_shown(term)} names both {terms[words]} and {coinage.code}: remove it from"
                    " one of the two coinages"
                )
    for coinage in coinages:
        for name in (*coinage.names, *coinage.abbreviations):
            *first, last = _tokens(name)
            # A plural that another coinage spells out stays with that one.
            terms.setdefault((*first, f"{last}s"), coinage.code)
    return MappingProxyType(terms)
