"""Reading a name: what identifies, what merely decorates, and what sets apart.

Pure and deterministic; knows English titles, kinship, place types and units, and no proper name.

1. Letters are folded: compatibility forms, case, accents, apostrophes, brackets, determiners.
2. `core` holds the identifying words. Titles, place types and lot sizes leave it.
3. `facets` hold what can contradict: gender, style, numbering, parent, place type, coin. Two
   readings conflict when they state different values of one facet.
4. A `proper` name may be matched by part; any other only as a whole; a reading without keys never.
5. Text over the limits is not compared by parts but by digest, so that cost stays bounded.
"""

import hashlib
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from notarius.pipeline import _words
from notarius.registries import STANDARD_COINAGES, CurrencyRules, RegistryKind

Facets = frozenset[tuple[str, str]]
Key = tuple[str, ...]

MAX_CHARS: Final = 240
"""Characters of a name that are read; a longer name is compared by digest only."""
MAX_WORDS: Final = 16
"""Words of a name that are read; a name with more is compared by digest only."""
MIN_LEAD: Final = 3
"""Letters before an apostrophe that may stand for the whole name."""
MIN_STEM: Final = 4
"""Letters at the beginning of a name without apostrophe that may stand for it."""
MAX_STEM: Final = 12
"""Letters beyond which a beginning is no longer a short form."""
LONG_WORD: Final = 6
"""Letters of a word in which doubled letters are taken for variants of spelling."""
MAX_PROSE_CHARS: Final = 400
"""Characters of a description or sentence that are read for facets."""

_PLAIN_LETTERS: Final = str.maketrans(
    {"ø": "o", "æ": "ae", "œ": "oe", "ß": "ss", "ł": "l", "đ": "d", "ð": "d", "þ": "th"}
    | {"Ø": "O", "Æ": "AE", "Œ": "OE", "Ł": "L", "Đ": "D", "Ð": "D", "Þ": "TH", "\u02bc": "'"}
    | {"\u2018": "'", "\u2019": "'", "`": "'", "\x00": " "}
)
_ACCENTS: Final = re.compile("[\u0300-\u036f]")
_WORD: Final = re.compile(r"\+?\d+(?:st|nd|rd|th)?\b|[^\W_]+(?:'[^\W_]+)*'?")
_BRACKETED: Final = re.compile(r"[(\[]([^()\[\]]*)[)\]]")
_DOUBLED: Final = re.compile(r"([^\W\d_])\1")
_PARENT: Final = re.compile(
    r"\b(?:son|daughter|child) of ([^\W\d_]+(?:['-][^\W\d_]+)*)", re.IGNORECASE
)


_MONEY: Final = CurrencyRules()
_METALS: Final = frozenset(name for coinage in STANDARD_COINAGES for name in coinage.names)


@dataclass(frozen=True, slots=True)
class Reading:
    """One name as read."""

    keys: frozenset[Key]
    """Readings that share a key are the same name. No word begins with the slash of some keys."""
    core: Key = ()
    facets: Facets = frozenset()
    titles: frozenset[str] = frozenset()
    nicknames: frozenset[str] = frozenset()
    """Beginnings of a person's first name that may stand for it."""
    proper: bool = False
    type_only: bool = False


def read(kind: RegistryKind, text: str, *, about: Sequence[str] = ()) -> Reading:
    """Read one name; `about` is what else is said of the same thing."""
    if len(text) > MAX_CHARS:
        return _by_digest(text)
    plain = plain_text(text)
    if len(_WORD.findall(plain)) > MAX_WORDS:
        return _by_digest(text)
    if kind == "npc":
        return _read_person(plain)
    if kind == "location":
        return _read_place(plain)
    return _read_item(plain, about)


def _by_digest(text: str) -> Reading:
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return Reading(keys=frozenset({("/long", digest)}))


def plain_text(text: str) -> str:
    """Return the text with compatibility forms, accents and apostrophes folded; case is kept."""
    unfolded = unicodedata.normalize("NFKD", text.translate(_PLAIN_LETTERS))
    return unicodedata.normalize("NFC", _ACCENTS.sub("", unfolded)).translate(_PLAIN_LETTERS)


def person_facets(description: str) -> Facets:
    """Read gender and parent, if a person's description states them."""
    prose = plain_text(description[:MAX_PROSE_CHARS])
    parent = _PARENT.search(prose)
    stated = {("parent", parent[1].casefold())} if parent and parent[1][0].isupper() else set()
    return frozenset(stated | _gender_of(_WORD.findall(prose.casefold())[:12]))


def _gender_of(words: list[str]) -> set[tuple[str, str]]:
    """Return the gender that is stated first; what follows a preposition is about another."""
    for word in words:
        if word in _words.PREPOSITIONS:
            break
        if word in _words.MALE_WORDS:
            return {("gender", "male")}
        if word in _words.FEMALE_WORDS:
            return {("gender", "female")}
    return set()


def _bare(word: str) -> str:
    """Fold one word: case, possessive, apostrophes."""
    folded = word.casefold()
    folded = folded.removesuffix("'s") if len(folded) > 3 else folded  # noqa: PLR2004 - K's is a name
    return folded.replace("'", "")


def _is_capital(word: str) -> bool:
    """Tell whether a word is written as a name; scripts without case and numbers are not words."""
    return word[:1].isupper() or (word[:1].isalpha() and word[:1].lower() == word[:1].upper())


def _nominal(words: list[str]) -> Reading:
    """Read a description of someone or something: equal wholes match unless generic."""
    folded = [_bare(word) for word in words]
    while folded and folded[0] in _words.DETERMINERS:
        if folded[0] in _words.POSSESSIVE:
            return Reading(keys=frozenset())
        del folded[0]
    if all(word in _words.GENERIC for word in folded):
        return Reading(keys=frozenset())
    return Reading(keys=frozenset({("/nominal", *folded)}))


def _undecorated(words: list[str]) -> list[str] | None:
    """Drop the determiners and lower-case adjectives before a proper name.

    Returns nothing when no proper name follows, or it is only what a description relates to.
    """
    start = 0
    while start < len(words) and not _is_capital(words[start]):
        folded = _bare(words[start])
        if folded in _words.PREPOSITIONS | _words.PARTING or words[start].endswith(("'s", "s'")):
            return None
        start += 1
    while start < len(words) and words[start].casefold() in _words.DETERMINERS:
        start += 1
    rest = words[start:]
    return rest if any(map(_is_capital, rest)) else None


def _read_person(text: str) -> Reading:
    head, _, tail = text.partition(",")
    words = _WORD.findall(head)
    tail_words = _WORD.findall(tail)
    if tail_words and all(map(_is_capital, tail_words)):
        words += tail_words
    if len(words) == 1 and words[0].casefold() not in _words.GENERIC:
        return _person(words)
    proper = _undecorated(words)
    if proper is None or any(word.endswith(("'s", "s'")) for word in proper[:-1]):
        return _nominal(words)
    person = _person(_until_clause(proper))
    decorated = any(word[:1].islower() and word not in _words.DETERMINERS for word in words[:-1])
    return _nominal(words) if decorated and not person.proper else person


def _until_clause(words: list[str]) -> list[str]:
    """Cut a proper name where ordinary lower-case words go on."""
    for index, word in enumerate(words):
        lower = word[:1].islower() and word not in _words.LINKS
        if lower and "'" not in word:
            return words[:index] if index else words
    return words


def _person(words: list[str]) -> Reading:
    tokens = [_bare(word) for word in words if word.casefold() not in _words.LINKS]
    if len(words) > 2 and words[1] == "of" and _is_title(tokens[0]):  # noqa: PLR2004
        # 'Countess of Name' holds an office; nothing is called 'Name' for it.
        return Reading(frozenset({("/office", *tokens)}), facets=frozenset(_gender_of(tokens[:1])))
    titles: set[str] = set()
    facets: set[tuple[str, str]] = set()
    marks = {_words.NUMERALS.get(token, token) for token in tokens[1:] if _is_mark(token)}
    tokens = tokens[:1] + [token for token in tokens[1:] if not _is_mark(token)]
    while len(tokens) > 1 and _is_title(tokens[0]):
        titles.add(tokens.pop(0))
        if len(tokens) > 1 and titles & _words.HIGH and not titles - _words.HIGH:
            titles.add(tokens.pop(0))
    while len(tokens) > 1 and tokens[-1] in {"esq", "esquire"}:
        titles.add(tokens.pop())
    facets.update(_gender_of(sorted(titles)))
    facets.update(("style", _words.STYLES[title]) for title in titles if title in _words.STYLES)
    facets.update(("mark", mark) for mark in marks)
    if not tokens:
        return Reading(keys=frozenset())
    if len(tokens) == 1 and _is_title(tokens[0]):
        facets.update(_gender_of(tokens))
        return Reading(
            frozenset({("/office", *sorted({*titles, *tokens, *marks}))}), facets=frozenset(facets)
        )
    core = tuple(tokens)
    nicknames = _nicknames(core, words)
    # 'Name' may be any of 'Name II' and 'Name III'; 'First Last' can hardly be but one, unless a
    # 'Jr.' says that there are two.
    key = (*core, *sorted(marks if len(core) == 1 else marks & _words.GENERATIONS))
    return Reading(
        frozenset({key}), core, frozenset(facets), frozenset(titles), nicknames, proper=True
    )


def _nicknames(core: Key, words: list[str]) -> frozenset[str]:
    """Return 'Alba' for "Alba'rel", and the longer beginnings of the first of several names."""
    first = core[0]
    leads = {word.casefold().partition("'")[0] for word in words if _bare(word) == first}
    leads = {lead for lead in leads if MIN_LEAD <= len(lead) < len(first) - 1}
    if len(core) > 1:
        leads |= {first[:cut] for cut in range(MIN_STEM, min(len(first) - 1, MAX_STEM))}
    return frozenset(leads)


def stands_for(word: str, full: Reading) -> bool:
    """Tell whether a first name may be a short form of the one in `full`: 'Aldy' of 'Alderic'."""
    return any(stem in full.nicknames for stem in stems(word))


def stems(word: str) -> list[str]:
    """Return the word, and without the ending of a pet name if enough is left."""
    bare = word.removesuffix("ie") if word.endswith("ie") else word.removesuffix("y")
    return [word] if bare == word or len(bare) < MIN_STEM else [word, bare]


def _is_title(token: str) -> bool:
    return token in _words.TITLES or (
        token.endswith(_words.TITLE_ENDINGS) and token not in _words.TITLE_ENDINGS
    )


def _is_mark(token: str) -> bool:
    return token in _words.NUMERALS or token[:1].isdigit() or token[:1] == "+"


def single_letters(key: Key) -> Key:
    """Return the key with doubled letters written once in long words: spellings vary there most."""
    return tuple(_DOUBLED.sub(r"\1", word) if len(word) >= LONG_WORD else word for word in key)


def singular(word: str) -> str:
    """Return one form for singular and plural; not always a word, always the same."""
    if len(word) > 4 and word.endswith("ies"):  # noqa: PLR2004 - 'dies' and 'ties' stay
        return word[:-3] + "y"
    if len(word) > 4 and word.endswith(("sses", "oxes", "ches", "shes")):  # noqa: PLR2004 - as above
        return word[:-2]
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):  # noqa: PLR2004
        return word[:-1]
    return word


def _read_place(text: str) -> Reading:
    words = _WORD.findall(_BRACKETED.sub(r" \1 ", text))
    proper = _undecorated(words)
    if proper is None:
        return _place_of_type(words) or _nominal(words)
    cut = _place_head(_without_owners_title(proper))
    of_name = len(cut) > 2 and cut[1] == "of"  # noqa: PLR2004
    tokens = [singular(_bare(word)) for word in cut if word not in _words.LINKS]
    if of_name and tokens[0] in _words.PLACE_TYPES and tokens[0] not in _words.WHOLE_OF:
        # 'Bay of Name' is not Name.
        return Reading(frozenset({tuple(tokens)}), tuple(tokens), proper=True)
    return _place(tokens) if tokens else Reading(keys=frozenset())


def _place_of_type(words: list[str]) -> Reading | None:
    """Read 'the city of Name' as Name; None when it is no such phrase."""
    folded = [singular(_bare(word)) for word in words]
    if folded[:1] and folded[0] in _words.DETERMINERS:
        del folded[0]
    if len(folded) > 2 and folded[1] == "of" and folded[0] in _words.WHOLE_OF:  # noqa: PLR2004
        return _place([folded[0], *folded[2:]]) if _is_capital(words[-1]) else None
    return None


def _without_owners_title(words: list[str]) -> list[str]:
    """Read "Lord Name's house" as "Name's house"."""
    owned = [following.endswith(("'s", "s'")) for following in words[1:]]
    return [
        word
        for word, owner_follows in zip(words, [*owned, False], strict=True)
        if not (owner_follows and _is_title(word.casefold()))
    ]


def _place_head(words: list[str]) -> list[str]:
    """Cut 'Name on Elsewhere' to Name; 'Hall of Name' stays whole."""
    for index, word in enumerate(words):
        if index and word in _words.PREPOSITIONS - {"of"}:
            return words[:index]
    return words


def _place(tokens: list[str]) -> Reading:
    core = tuple(token for token in tokens if token not in _words.PLACE_TYPES)
    types = {_words.PLACE_TYPES[token] for token in tokens if token in _words.PLACE_TYPES}
    facets = frozenset(("type", kind) for kind in types)
    if not core:
        return Reading(frozenset({("/place", *tokens)}), tuple(tokens), facets, type_only=True)
    if types & _words.BESIDE_A_TOWN:
        facets |= {("beside", "yes")}
    elif not types and len(core) == 1:
        facets |= {("beside", "no")}
    return Reading(frozenset({core}), core, facets, frozenset(types), proper=True)


def _read_item(text: str, about: Sequence[str]) -> Reading:
    full = _item_tokens(_BRACKETED.sub(r" \1 ", text))
    brief = _item_tokens(_BRACKETED.sub(_unless_lot, text)) or full
    if not full:
        return Reading(keys=frozenset())
    money = _MONEY.classify(text, about)
    if money is not None and money.code is not None:
        return Reading(frozenset({("/coin", money.code)}), facets=frozenset({("coin", money.code)}))
    keys: set[Key] = set()
    for tokens in (full, brief):
        keys |= {tuple(sorted(tokens)), ("/joined", "".join(tokens))}
    named = all(_is_capital(word) for word in _WORD.findall(text) if word not in _words.ITEM_LINKS)
    return Reading(frozenset(keys), tuple(sorted(brief)), proper=named)


def _unless_lot(found: re.Match[str]) -> str:
    """Drop what stands in brackets if it only says how the item is sold."""
    words = [singular(word.casefold()) for word in _WORD.findall(found[1])]
    lot = all(word in _words.UNITS or word.isdigit() for word in words)
    return " " if lot else f" {found[1]} "


def _item_tokens(text: str) -> list[str]:
    tokens = [singular(_bare(word)) for word in _WORD.findall(text)]
    if len(tokens) > 1 and tokens[0].isdigit() and tokens[1] not in _words.UNITS:
        del tokens[0]
    if len(tokens) > 2 and tokens[0] in _words.LOTS and tokens[1] == "of":  # noqa: PLR2004
        del tokens[:2]
    return [token for token in tokens if token not in _words.ITEM_LINKS] or tokens


def is_distinguishing(word: str) -> bool:
    """Tell whether a word more makes a name that of something else: 'North Gate', 'Gate 2'."""
    return _is_mark(word) or word in _words.PARTING or len(word) == 1


def is_generic_extra(short: Key, extra: Key) -> bool:
    """Tell whether `extra` only says what sort of item the proper name `short` is."""
    named = not any(
        word in _words.ITEM_NOUNS or word in _METALS or _is_mark(word) for word in short
    )
    return named and all(word in _words.ITEM_NOUNS for word in extra)
