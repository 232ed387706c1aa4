"""Reads a candidate file: JSON Lines, every line checked before anything else happens."""

import codecs
import difflib
import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

import msgspec

from notarius.contracts import (
    ContractError,
    RepeatedKeyError,
    canonical_json,
    cut,
    has_lone_surrogate,
    one_line,
    require_unique_keys,
)
from notarius.pipeline._errors import InputError
from notarius.registries import Candidate, Entry, ItemKind, RegistryRules

C = TypeVar("C", bound=Candidate)
E = TypeVar("E", bound=Entry)

_SHOWN_MAX_BYTES: Final = 60
_DEPTH_MAX: Final = 64
"""Lists and objects that may stand in one another, the line's own included: a limit of ours, since
that of a decoder depends on how deep in a program it is called, and output is to be read again."""
_ITEM_KEYS: Final = frozenset({"item_kind", "denomination"})


class _LineError(Exception):
    """What is wrong with one line, and the fix."""


def read_candidates(paths: Sequence[Path], rules: RegistryRules[C, E]) -> tuple[tuple[C, ...], str]:
    """Return the candidates of all files in order, and a digest of what was read.

    The digest is that of the file, or, of several, the digest of the list of their digests.
    Raises `InputError` with file and line for every bad line: no JSON object, an unknown,
    missing, repeated or wrongly typed key, a blank name, another registry's kind, a `source_id`
    that stands twice. Blank lines are skipped; a byte-order mark at the start is allowed.
    """
    candidates: list[C] = []
    places: dict[str, tuple[Path, int]] = {}
    problems: list[str] = []
    digests: list[str] = []
    for path in paths:
        data = _read(path)
        digests.append(_sha256(data))
        for number, line in _lines(data):
            try:
                candidate = _candidate(line, rules)
                first = places.setdefault(candidate.source_id, (path, number))
                if first != (path, number):
                    _fail(
                        f"`source_id` stands in {_place(first, path)} already; "
                        "give each candidate its own"
                    )
            except _LineError as error:
                problems.append(f"{path}, line {number}: {error}")
            else:
                candidates.append(candidate)
    if problems:
        raise InputError(*problems)
    digest = digests[0] if len(digests) == 1 else _sha256(canonical_json(digests))
    return tuple(candidates), digest


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InputError(f"{path}: can't be read ({reason}); give a candidate file") from None


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _place(first: tuple[Path, int], path: Path) -> str:
    return f"line {first[1]}" if first[0] == path else f"{first[0]}, line {first[1]},"


def _lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    # Split at line feeds alone: other separators may stand inside a JSON text.
    for number, line in enumerate(data.removeprefix(codecs.BOM_UTF8).split(b"\n"), start=1):
        if line.strip():
            yield number, line


def _candidate(line: bytes, rules: RegistryRules[C, E]) -> C:
    record = _record(line)
    known = [field.name for field in msgspec.structs.fields(rules.candidate_type)]
    for key in record:
        if key not in known:
            _fail(f"unknown key {_shown(key)}{_suggestion(key, known)}")
    if not one_line(str(record.get("name", "name"))):
        _fail("`name` must not be blank: it has no visible character")
    if record.get("kind", rules.kind) != rules.kind:
        _fail(
            f"`kind` is {_shown(record['kind'])}, but this is the {rules.kind} registry; "
            "mend it or choose another --registry"
        )
    try:
        candidate = msgspec.convert(record, rules.candidate_type)
        rules.require(candidate)
    except (msgspec.ValidationError, ContractError) as error:
        _fail(_plain(str(error)))
    return candidate


def _record(line: bytes) -> dict[str, Any]:
    try:
        line.decode()
        record = msgspec.json.decode(line)
        require_unique_keys(line)
    except RepeatedKeyError as error:
        _fail(f"key {_shown(error.key)} stands twice in one object; keep one of them")
    except RecursionError:
        _fail(f"nested too deeply (at most {_DEPTH_MAX} levels); make it flatter")
    except UnicodeDecodeError as error:
        _fail(f"byte {error.start + 1} is no UTF-8 text, so no valid JSON; save the file as UTF-8")
    except (msgspec.DecodeError, ValueError) as error:
        if _is_half_a_pair(line):
            _fail("a lone surrogate (an escape from \\ud800 to \\udfff); write the whole character")
        # A fragment of the line may be a whole mistaken file; the position is enough.
        _fail(f"no valid JSON ({_plain(str(error))}); write one JSON object a line")
    if not isinstance(record, dict):
        _fail("not a JSON object; write one object a line")
    if _is_deeper(record, _DEPTH_MAX):
        _fail(f"nested too deeply (at most {_DEPTH_MAX} levels); make it flatter")
    return record


def _is_deeper(value: object, levels: int) -> bool:
    """Whether more than so many lists and objects stand in one another."""
    if not isinstance(value, dict | list):
        return False
    inside: Iterable[object] = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_is_deeper(item, levels - 1) for item in inside)


def _is_half_a_pair(line: bytes) -> bool:
    """Whether that is what is wrong with a line: the standard library lets it pass."""
    try:
        text = json.dumps(json.loads(line), ensure_ascii=False)
    except (ValueError, RecursionError):
        return False
    return has_lone_surrogate(text)


def _plain(message: str) -> str:
    """Turn a decoder's message into words for somebody who does not know Python."""
    replaced = message
    for technical, plain in (
        ("Object missing required field", "required key missing:"),
        (" - at `$.", " at `"),
        (" - at `$", " at `"),
        ("Expected ", "expected "),
        ("`str`", "a text"),
        ("`array`", "a list"),
        ("`object`", "an object"),
        ("`null`", "null"),
        ("`int`", "a number"),
        ("`float`", "a number"),
        ("`bool`", "true or false"),
        ("Invalid enum value", f"expected one of {', '.join(ItemKind)}, got"),
        ("JSON is malformed: ", ""),
        ("Number out of range", "a number is out of range"),
        ("Integer value out of range", "a number is out of range"),
        ("`[...][...]", "`[...]"),
    ):
        replaced = replaced.replace(technical, plain)
    return cut(one_line(replaced), 3 * _SHOWN_MAX_BYTES)


def _shown(value: object) -> str:
    """Quote a piece of the input, all but texts as JSON: one line, not long."""
    text = value if isinstance(value, str) else canonical_json(value).decode()
    return f"`{cut(one_line(text), _SHOWN_MAX_BYTES)}`"


def _suggestion(key: str, known: Sequence[str]) -> str:
    if key in _ITEM_KEYS:
        return "; it is for items only (--registry item); remove it"
    close = difflib.get_close_matches(key[:_SHOWN_MAX_BYTES], known, n=1)
    if close:
        return f"; did you mean `{close[0]}`?"
    return "; put it under `extra` or remove it"


def _fail(problem: str) -> NoReturn:
    raise _LineError(problem)
