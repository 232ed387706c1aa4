"""A campaign folder: which candidate files it holds, and what its `notarius.toml` says."""

import difflib
import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar

import msgspec

from notarius.attempts import AttemptPolicy, TerminalPolicy
from notarius.contracts import ContractError, Value, cut, one_line
from notarius.pipeline._errors import InputError
from notarius.pipeline._exchange import Budgets, rules_for
from notarius.pipeline._models import API_KEY_ENV, SERVER, SIMILARITY, ModelChoice
from notarius.pipeline._outputs import KINDS
from notarius.registries import STANDARD_COINAGES, Coinage, RegistryKind

T = TypeVar("T")

CONFIG: Final = "notarius.toml"

_SUFFIX: Final = ".jsonl"
_NOWHERE: Final = "is a link to nowhere; mend it, or move it away"
_KEY_VARIABLE: Final = "api-key-env"
"""What the options may say and a file may not: else a folder of a stranger could have any variable
of the environment sent to a server."""

_KEY_SHOWN_MAX_BYTES: Final = 60
_CONFIG_MAX_BYTES: Final = 16 * 1024
"""A key of many parts takes memory, and unknown keys take time, in the square of their number."""


class Config(Value, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    """What `notarius.toml` may say, and the options of the command that say the same.

    `None` says nothing. `api_key_env` is for options alone. `coinage` are coins beside the five
    standard ones. Raises `ValueError` on a value out of its range.
    """

    PRIVATE: ClassVar[frozenset[str]] = frozenset({"base_url", "api_key_env"})

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
        """Return this where it says something, and `weaker` elsewhere.

        What `weaker` says about a server or a context is not for a model of another kind.
        """
        if self.model is not None:
            meant = weaker.model or (self.model if weaker.base_url is None else SERVER)
            if _kind(self.model) != _kind(meant):
                weaker = msgspec.structs.replace(weaker, base_url=None, context_tokens=None)
        said = {
            name: value
            for name, value in msgspec.structs.asdict(self).items()
            if value is not None and value != ()
        }
        return msgspec.structs.replace(weaker, **said)

    def choice(self, *, keyless: bool = False) -> ModelChoice:
        """Return the model. Raises `InputError` if what belongs to it is contradictory."""
        return ModelChoice(
            name=self.model or SIMILARITY,
            base_url=self.base_url,
            api_key_env=self.api_key_env,
            keyless=keyless,
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

    def under(self, options: Config) -> tuple[Config, ModelChoice]:
        """Return what the folder says where the options say nothing, and the model of both.

        To a server that the folder names, a key is sent only if the options name its variable.
        Raises `InputError` if what belongs to the model is contradictory, or if another key would
        be looked for there, and says where it stands.
        """
        config = options.over(self.config)
        keyless = config.base_url != options.base_url and options.api_key_env is None
        try:
            choice = config.choice(keyless=keyless)
        except InputError as error:
            raise InputError(*(self._placed(one, options) for one in error.problems)) from None
        if keyless and os.environ.get(API_KEY_ENV):
            raise InputError(
                f"{self.folder / CONFIG}: `base-url`: the key in {API_KEY_ENV} is not sent to an "
                f"address that a file names; to send it there give --api-key-env {API_KEY_ENV}, "
                "and otherwise unset it"
            )
        return config, choice

    def _placed(self, problem: str, options: Config) -> str:
        """Name the key of the file where the problem begins with an option that was not given."""
        option, _, what = problem.partition(": ")
        key = option.removeprefix("--")
        if key == option or getattr(options, key.replace("-", "_"), None) is not None:
            return problem
        return f"{self.folder / CONFIG}: `{key}`: {what}"


def read_campaign(folder: Path) -> Campaign:
    """Look what a folder holds.

    The files of a registry are `npc.jsonl`, those in `npc/`, and `npc.jsonl` in the folders of
    sessions; numbers in names count as numbers. Raises `InputError` if there is none, if another
    JSON Lines file lies anywhere below (it would be left out in silence), or if `notarius.toml` is
    wrong. What is hidden is not looked at.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: is no folder; give the folder of a campaign")
    config = _read_config(folder / CONFIG)
    try:
        sources = _sources(folder)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        where = error.filename or folder
        raise InputError(f"{where}: can't be read ({reason}); mend its permissions") from None
    if not sources:
        names = ", ".join(f"{kind}{_SUFFIX}" for kind in KINDS)
        raise InputError(f"{folder}: holds no candidates; put {names} (any of them) there")
    return Campaign(folder=folder, config=config, sources=sources)


def _sources(folder: Path) -> Mapping[RegistryKind, tuple[Path, ...]]:
    found: dict[RegistryKind, list[Path]] = {kind: [] for kind in KINDS}
    problems = []
    for path in _lists(folder):
        place = path.relative_to(folder)
        kind = _registry_of(place)
        if kind is None:
            problems.append(f"{path}: is for no registry; {_remedy(place)}")
        elif not path.exists():
            problems.append(f"{path}: {_NOWHERE}")
        else:
            found[kind].append(path)
    if problems:
        raise InputError(*problems)
    return {kind: tuple(files) for kind, files in found.items() if files}


def _lists(folder: Path) -> Iterator[Path]:
    """Return all JSON Lines files, however their suffix is written and however deep they lie.

    A link to a folder is followed at the top alone, where it may stand for a session.
    """
    waiting = _inside(folder)[::-1]
    while waiting:
        path = waiting.pop()
        if path.suffix.casefold() == _SUFFIX:
            yield path
        elif path.is_dir() and (path.parent == folder or not path.is_symlink()):
            waiting += _inside(path)[::-1]
        elif path.name in KINDS and path.is_symlink() and not path.exists():
            raise InputError(f"{path}: {_NOWHERE}")


def _inside(folder: Path) -> list[Path]:
    return sorted((p for p in folder.iterdir() if not p.name.startswith(".")), key=_natural)


def _registry_of(place: Path) -> RegistryKind | None:
    """Return whose file lies at a place of the campaign; `None` if it would be left out."""
    match place.parts:
        case (own, _) if own in KINDS:
            return own if place.suffix == _SUFFIX else None
        case (name,) | (_, name):
            return next((kind for kind in KINDS if name == f"{kind}{_SUFFIX}"), None)
        case _:
            return None


def _remedy(place: Path) -> str:
    """Say what to do with a file that would be left out."""
    match place.parts:
        case (own, _) if own in KINDS:
            return f"rename it {place.stem}{_SUFFIX}, or move it away"
        case (name,) | (_, name):
            near = _nearest(name.casefold(), [f"{kind}{_SUFFIX}" for kind in KINDS])
            return f"rename it {near}, or move it away"
        case _:
            return f"it lies too deep: move it up to {place.parts[0]}, or away"


def _natural(path: Path) -> tuple[list[tuple[int, str]], str]:
    """Order `session-2` before `session-10`."""
    pieces = re.split(r"(\d{1,9})", path.name.casefold())
    return [(int(p) if p.isdecimal() else -1, p) for p in pieces], path.name


def _read_config(path: Path) -> Config:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        if path.is_symlink():
            raise InputError(f"{path}: {_NOWHERE}") from None
        return Config()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InputError(f"{path}: can't be read ({reason}); mend its permissions") from None
    text, found = _parsed(path, data)
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


def _parsed(path: Path, data: bytes) -> tuple[str, dict[str, Any]]:
    """Return a TOML file as text and as data."""
    if len(data) > _CONFIG_MAX_BYTES:
        raise InputError(f"{path}: has more than {_CONFIG_MAX_BYTES} bytes; make it shorter")
    try:
        text = data.decode()
        return text, tomllib.loads(text)
    except UnicodeDecodeError as error:
        said = f"byte {error.start + 1} is no UTF-8 text"
        raise InputError(f"{path}: is no TOML ({said}); save it as UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        said = cut(one_line(str(error)), 3 * _KEY_SHOWN_MAX_BYTES)
        raise InputError(f"{path}: is no TOML ({said}); mend it there") from None
    except RecursionError:
        raise InputError(f"{path}: is nested too deeply; make it flatter") from None
    except ValueError:  # what `int` says of thousands of digits
        raise InputError(f"{path}: holds a number of too many digits; mend it there") from None


def _unknown_keys(path: Path, text: str, found: Mapping[str, Any]) -> list[str]:
    known = [field.encode_name for field in msgspec.structs.fields(Config)]
    known.remove(_KEY_VARIABLE)
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
    return [f"{path}{_line_of(text, key)}: {_not_a_key(key, names)}" for key, names in keys]


def _not_a_key(key: str, names: Sequence[str]) -> str:
    if _kebab(key) == _KEY_VARIABLE:
        return (
            f"`{key}`: a file can't choose the variable of the environment that is sent to a "
            f"server; remove it there, and give --{_KEY_VARIABLE}"
        )
    return (
        f"unknown key `{cut(one_line(key), _KEY_SHOWN_MAX_BYTES)}`; "
        f"did you mean `{_nearest(key, names)}`? The keys are {', '.join(names)}"
    )


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


def _kind(model: str) -> str:
    return model.partition(":")[0]


def _kebab(name: str) -> str:
    return name.replace("_", "-")


def _or(value: T | None, usual: T) -> T:
    return usual if value is None else value
