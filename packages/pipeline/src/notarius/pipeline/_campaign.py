"""A campaign folder: which candidate files it holds, and what its `notarius.toml` says."""

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from notarius.attempts import AttemptPolicy, TerminalPolicy
from notarius.contracts import ContractError, cut, one_line
from notarius.pipeline._errors import InputError
from notarius.pipeline._exchange import Budgets, rules_for
from notarius.pipeline._models import SIMILARITY, ModelChoice
from notarius.pipeline._outputs import KINDS
from notarius.registries import STANDARD_COINAGES, Coinage, RegistryKind

T = TypeVar("T")

CONFIG: Final = "notarius.toml"

_KEY_SHOWN_MAX_BYTES: Final = 60


class Config(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    """What `notarius.toml` may say, and the options of the command that say the same.

    `None` says nothing. `coinage` are coins beside the five standard ones. Raises `ValueError` on
    a value out of its range.
    """

    model: str | None = None
    base_url: str | None = None
    api_key_env: str | None = None
    context_tokens: int | None = None
    at_once: int | None = None
    normalize_retries: int | None = None
    repair_retries: int | None = None
    transport_retries: int | None = None
    deadline: float | None = None
    terminal: TerminalPolicy | None = None
    coinage: tuple[Coinage, ...] = ()

    def __post_init__(self) -> None:
        """Check the ranges."""
        for name in ("normalize_retries", "repair_retries", "transport_retries"):
            number = getattr(self, name)
            if number is not None and number < 0:
                raise ValueError(f"{_kebab(name)} must be 0 or more")
        for name in ("context_tokens", "at_once", "deadline"):
            number = getattr(self, name)
            if number is not None and not number > 0:
                raise ValueError(f"{_kebab(name)} must be more than 0")

    def over(self, weaker: "Config") -> "Config":
        """Return this where it says something, and `weaker` elsewhere."""
        said = {
            name: value
            for name, value in msgspec.structs.asdict(self).items()
            if value is not None and value != ()
        }
        return msgspec.structs.replace(weaker, **said)

    def choice(self) -> ModelChoice:
        """Return the model. Raises `InputError` if what belongs to it is contradictory."""
        return ModelChoice(
            name=self.model or SIMILARITY,
            base_url=self.base_url,
            api_key_env=self.api_key_env,
            context_tokens=self.context_tokens,
        )

    def budgets(self) -> Budgets:
        """Return the budgets, with the usual ones where nothing is said."""
        usual = Budgets()
        return Budgets(
            policy=AttemptPolicy(
                normalize_retries=_or(self.normalize_retries, usual.policy.normalize_retries),
                terminal=_or(self.terminal, usual.policy.terminal),
                deadline_s=self.deadline,
            ),
            repair_retries=_or(self.repair_retries, usual.repair_retries),
            transport_retries=_or(self.transport_retries, usual.transport_retries),
        )

    def coinages(self) -> tuple[Coinage, ...]:
        """Return all coins."""
        return (*STANDARD_COINAGES, *self.coinage)


class Campaign(msgspec.Struct, frozen=True, kw_only=True):
    """What a campaign folder holds: for each registry its candidate files, in order."""

    folder: Path
    config: Config
    sources: Mapping[RegistryKind, tuple[Path, ...]]


def read_campaign(folder: Path) -> Campaign:
    """Look what a folder holds.

    The files of a registry are `npc.jsonl`, those in `npc/`, and `npc.jsonl` in the folders of
    sessions; numbers in names count as numbers. Raises `InputError` if there is none, if another
    JSON Lines file lies there (it would be left out in silence), or if `notarius.toml` is wrong.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: is no folder; give the folder of a campaign")
    config = _read_config(folder / CONFIG)
    try:
        inside = sorted(
            (path for path in folder.iterdir() if not path.name.startswith(".")), key=_natural
        )
        sources = {kind: files for kind in KINDS if (files := tuple(_files(kind, inside)))}
        _require_no_other(inside)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InputError(f"{folder}: can't be read ({reason}); mend its permissions") from None
    if not sources:
        names = ", ".join(f"{kind}.jsonl" for kind in KINDS)
        raise InputError(f"{folder}: holds no candidates; put {names} (any of them) there")
    return Campaign(folder=folder, config=config, sources=sources)


def _files(kind: RegistryKind, inside: Sequence[Path]) -> Iterable[Path]:
    for path in inside:
        if path.name == f"{kind}.jsonl":
            yield path
        elif path.name == kind and path.is_dir():
            yield from sorted(path.glob("*.jsonl"), key=_natural)
        elif path.name not in KINDS and (path / f"{kind}.jsonl").is_file():
            yield path / f"{kind}.jsonl"


def _require_no_other(inside: Sequence[Path]) -> None:
    known = [f"{kind}.jsonl" for kind in KINDS]
    problems = [
        f"{path}: is for no registry; rename it {_nearest(path.name, known)}, or move it away"
        for path in inside
        if path.suffix == ".jsonl" and path.name not in known and path.is_file()
    ]
    if problems:
        raise InputError(*problems)


def _natural(path: Path) -> tuple[list[tuple[int, str]], str]:
    """Order `session-2` before `session-10`."""
    pieces = re.split(r"(\d{1,9})", path.name.casefold())
    return [(int(p) if p.isdecimal() else -1, p) for p in pieces], path.name


def _read_config(path: Path) -> Config:
    try:
        text = path.read_bytes().decode()
        found = tomllib.loads(text)
    except FileNotFoundError:
        return Config()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InputError(f"{path}: can't be read ({reason}); mend its permissions") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        said = cut(one_line(str(error)), 3 * _KEY_SHOWN_MAX_BYTES) or "nested too deeply"
        raise InputError(f"{path}: is no TOML ({said}); mend it there") from None
    problems = _unknown_keys(path, text, found)
    if problems:
        raise InputError(*problems)
    try:
        config = msgspec.convert(found, Config)
        # The rules know more about coins that contradict each other than each coin does.
        rules_for("item", config.coinages())
    except (msgspec.ValidationError, ContractError, ValueError) as error:
        said = _plain(str(error))
        line = _line_of(text, said.partition("`")[2].partition("`")[0] or said.partition(" ")[0])
        raise InputError(f"{path}{line}: {said}") from None
    return config


def _unknown_keys(path: Path, text: str, found: Mapping[str, Any]) -> list[str]:
    known = [field.encode_name for field in msgspec.structs.fields(Config)]
    coin = [field.encode_name for field in msgspec.structs.fields(Coinage)]
    tables = found.get("coinage")
    keys = [(key, known) for key in found if key not in known]
    if isinstance(tables, list):
        keys += [
            (key, coin)
            for table in tables
            if isinstance(table, dict)
            for key in table
            if key not in coin
        ]
    return [
        f"{path}{_line_of(text, key)}: unknown key `{cut(one_line(key), _KEY_SHOWN_MAX_BYTES)}`; "
        f"did you mean `{_nearest(key, names)}`? The keys are {', '.join(names)}"
        for key, names in keys
    ]


def _nearest(name: str, known: Sequence[str]) -> str:
    short = name[:_KEY_SHOWN_MAX_BYTES].replace("_", "-")
    return max(known, key=lambda other: difflib.SequenceMatcher(None, short, other).ratio())


def _line_of(text: str, key: str) -> str:
    """Say in which line a key stands, where that can be told."""
    form = re.compile(rf"""\s*(?:\[+\s*)?["']?{re.escape(key)}["']?\s*[=\].]""")
    for number, line in enumerate(text.splitlines(), start=1):
        if key and form.match(line):
            return f", line {number}"
    return ""


def _plain(message: str) -> str:
    """Turn a decoder's message into words for somebody who does not know Python."""
    what, _, place = message.partition(" - at `$")
    key = re.sub(r"\[\.\.\.\]|\[\d+\]", "", place.rstrip("`").lstrip("."))
    for technical, plain in (
        (" | null", ""),
        ("Expected ", "expected "),
        ("`str`", "a text"),
        ("`array`", "a list"),
        ("`object`", "a table"),
        ("`int`", "a whole number"),
        ("`float`", "a number"),
        ("`bool`", "true or false"),
        ("Object missing required field", "required key missing:"),
        ("Invalid enum value", f"expected one of {', '.join(TerminalPolicy)}, got"),
    ):
        what = what.replace(technical, plain)
    said = f"`{key}`: {what}" if key else what
    return cut(one_line(said), 4 * _KEY_SHOWN_MAX_BYTES)


def _kebab(name: str) -> str:
    return name.replace("_", "-")


def _or(value: T | None, usual: T) -> T:
    return usual if value is None else value
