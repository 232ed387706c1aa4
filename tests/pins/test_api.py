"""The comparison of a package with its last release, on made-up pairs."""

import shutil
from pathlib import Path

import pytest
from scripts import check_api
from scripts.check_api import breaking_changes, check, main
from scripts.pins import may_break
from scripts.releases import Release

ROOT = Path(__file__).parents[2]


FACE = """
from enum import StrEnum
from notarius.contracts._inside import (
    Alias, Bad, Base, Kind, Made, Tells, cut, first, LIMIT, MOST
)

__all__ = ["LIMIT", "MOST", "Alias", "Bad", "Base", "Kind", "Made", "Tells", "cut", "first"]


def __getattr__(name: str) -> str:
    return name.upper()
"""
INSIDE = """
import enum
from typing import ClassVar, Final, Protocol, TypeAlias, overload

import msgspec

LIMIT: Final = 10
\"\"\"Most of them.\"\"\"
_ONE = 1
_TWO = _ONE + 1
MOST: Final = 2 * _TWO


class Bad(ValueError, KeyError):
    pass


class Kind(enum.StrEnum):
    ONE = "one"
    OTHER = "other"


class _Base(msgspec.Struct, frozen=True, kw_only=True):
    records: tuple[str, ...]


class Made(_Base, frozen=True, kw_only=True, tag="made"):
    name: str
    note: str | None = None
    count: int = 0

    @property
    def size(self) -> int:
        return len(self.name)

    @classmethod
    def of(cls, name: str, *, note: str | None = None) -> "Made":
        return cls(name=name, note=note)


class Tells(Protocol):
    def tell(self, kind: Kind) -> None: ...

    async def listen(self) -> str: ...


Alias: TypeAlias = str | int


class Base:
    @property
    def level(self) -> int:
        return self._level

    @level.setter
    def level(self, level: int) -> None:
        self._level = level


@overload
def first(text: str) -> str: ...
@overload
def first(text: bytes) -> bytes: ...
def first(text, size=_ONE):
    return text[:size]


def cut(text: str | bytes, size: int) -> str:
    return _cut(text, size)


def _cut(text: str | bytes, size: int) -> str:
    return str(text)[:size]
"""


def written(folder: Path, *edits: tuple[str, str]) -> Path:
    """Write a made-up package, with some of its text exchanged, under the name of a real one."""
    texts = {"__init__.py": FACE, "_inside.py": INSIDE}
    for old, new in edits:
        assert sum(text.count(old) for text in texts.values()) == 1, old
        texts = {name: text.replace(old, new) for name, text in texts.items()}
    package = folder / "src" / "notarius" / "contracts"
    package.mkdir(parents=True)
    for name, text in texts.items():
        (package / name).write_text(text, encoding="utf-8")
    return folder / "src"


BREAKING = {
    "a name is not public": (', "cut", "first"]', ', "first"]', ".cut: is not public any more"),
    "a name is gone": ("def cut(", "def cut_off(", ".cut: is gone"),
    "a parameter has another name": (
        "def cut(text: str | bytes, size: int)",
        "def cut(text: str | bytes, most: int)",
        "cut(size): parameter was removed",
    ),
    "a parameter is new and required": (
        "def cut(text: str | bytes, size: int)",
        "def cut(text: str | bytes, size: int, end: str)",
        "cut(end): parameter was added as required",
    ),
    "parameters changed places": (
        "def cut(text: str | bytes, size: int)",
        "def cut(size: int, text: str | bytes)",
        "cut(text): positional parameter was moved",
    ),
    "a default is another": (
        "*, note: str | None = None",
        '*, note: str | None = ""',
        "of(note): parameter default was changed",
    ),
    "a default is gone": (
        "*, note: str | None = None",
        "*, note: str | None",
        "of(note): parameter is now required",
    ),
    "a parameter has another type": (
        "def cut(text: str | bytes, size: int)",
        "def cut(text: str, size: int)",
        "cut(text): type changed, from str | bytes to str",
    ),
    "a function returns something else": (
        "def cut(text: str | bytes, size: int) -> str:",
        "def cut(text: str | bytes, size: int) -> bytes:",
        ".cut: return type changed, from str to bytes",
    ),
    "a property is a method": (
        "    @property\n    def size",
        "    def size",
        "size: public object points to a different kind of object",
    ),
    "a limit is another": (
        "LIMIT: Final = 10",
        "LIMIT: Final = 9",
        ".LIMIT: value changed, from 10 to 9",
    ),
    "a field is gone": ("    count: int = 0\n", "", "Made.count: is gone"),
    "a field has another type": (
        "    note: str | None = None\n",
        "    note: str = None\n",
        ".Made.note: type changed, from str | None to str",
    ),
    "a field has another default": (
        "    count: int = 0\n",
        "    count: int = 1\n",
        ".Made.count: value changed, from 0 to 1",
    ),
    "a field has no default any more": (
        "    count: int = 0\n",
        "    count: int\n",
        ".Made.count: value changed, from 0 to None",
    ),
    "a field is new and required": (
        "    name: str\n",
        "    name: str\n    kind: str\n",
        ".Made.kind: is new and has no default",
    ),
    "a field of a private base is new": (
        "    records: tuple[str, ...]\n",
        "    records: tuple[str, ...]\n    started: int\n",
        ".Made.started: is new and has no default",
    ),
    "an enum has one member more": (
        '    OTHER = "other"\n',
        '    OTHER = "other"\n    THIRD = "third"\n',
        ".Kind.THIRD: is a new member of an enum",
    ),
    "a member of an enum is written otherwise": (
        '    OTHER = "other"\n',
        '    OTHER = "others"\n',
        ".Kind.OTHER: value changed",
    ),
    "a value is written under another tag": ('tag="made"', 'tag="built"', ".Made: tag changed"),
    "a value can be changed": (
        'frozen=True, kw_only=True, tag="made"',
        'kw_only=True, tag="made"',
        ".Made: frozen changed, from True to None",
    ),
    "an error is caught elsewhere": (
        "class Bad(ValueError, KeyError):",
        "class Bad(ValueError, TypeError):",
        ".Bad: bases changed, from ValueError, KeyError to ValueError, TypeError",
    ),
    "a protocol asks for more": (
        "    async def listen",
        "    def close(self) -> None: ...\n\n    async def listen",
        ".Tells.close: is a new member of a protocol",
    ),
    "a coroutine is none": ("    async def listen", "    def listen", ".listen: sort changed"),
    "an alias stands for something else": (
        "Alias: TypeAlias = str | int",
        "Alias: TypeAlias = str",
        ".Alias: value changed",
    ),
    "an instance needs something": (
        "class Base:\n",
        "class Base:\n    def __init__(self, level: int) -> None: ...\n\n",
        ".Base.__init__: is new and requires level",
    ),
    "subclasses have a duty more": (
        "class Base:\n",
        "class Base:\n    @abc.abstractmethod\n    def close(self) -> None: ...\n\n",
        ".Base.close: has to be given by subclasses now",
    ),
    "subclasses have a private duty more": (
        "class Base:\n",
        "class Base:\n    @abc.abstractmethod\n    def _close(self) -> None: ...\n\n",
        ".Base._close: has to be given by subclasses now",
    ),
    "there can be no subclasses": (
        "class Base:\n",
        "@typing.final\nclass Base:\n",
        ".Base: decorators changed, from none to typing.final",
    ),
    "there can be no other method": (
        "    @classmethod\n",
        "    @classmethod\n    @typing.final\n",
        ".Made.of: decorators changed, from classmethod to classmethod, typing.final",
    ),
    "a value has no hash": (
        "class Base:\n",
        "class Base:\n    __hash__ = None\n\n",
        ".Base.__hash__: is taken away",
    ),
    "a field is none": (
        "    count: int = 0\n",
        "    count: ClassVar[int] = 0\n",
        ".count: sort changed",
    ),
    "a property can't be set": (
        "    @level.setter\n    def level(",
        "    def _set(",
        ".Base.level: sort changed, from ['property', 'writable'] to ['property']",
    ),
    "a way to call is gone": (
        "@overload\ndef first(text: bytes) -> bytes: ...\n",
        "",
        ".first: overloads changed",
    ),
    "a way to call returns something else": (
        "def first(text: bytes) -> bytes: ...",
        "def first(text: bytes) -> str: ...",
        ".first: overloads changed",
    ),
    "a private constant is another": (
        "_ONE = 1\n",
        "_ONE = 3\n",
        ".MOST: value changed, from 2 * 1 + 1 to 2 * 3 + 1",
    ),
    "a private default is another": (
        "_ONE = 1\n",
        "_ONE = 3\n",
        ".first(size): default changed, from 1 to 3",
    ),
    "nothing gives the version": (
        "def __getattr__(",
        "def _getattr(",
        "notarius.contracts.__version__: is gone",
    ),
}


@pytest.mark.parametrize("change", BREAKING)
def test_a_breaking_change_is_found(change: str, tmp_path: Path) -> None:
    """Each sort of change that breaks a consumer is told with the name that it is about."""
    old, new, told = BREAKING[change]
    before, after = written(tmp_path / "old"), written(tmp_path / "new", (old, new))
    found = breaking_changes("contracts", before, after)
    assert any(told in one for one in found), found
    assert len(found) <= 2, found


def test_a_public_constant_is_told_once(tmp_path: Path) -> None:
    """Whoever names a public constant is not told of as well when its value changes."""
    names = ("2 * _TWO", "2 * LIMIT")
    before = written(tmp_path / "old", names)
    after = written(tmp_path / "new", names, ("LIMIT: Final = 10", "LIMIT: Final = 9"))
    (told,) = breaking_changes("contracts", before, after)
    assert ".LIMIT: value changed" in told


COMPATIBLE: dict[str, list[tuple[str, str]]] = {
    "nothing": [],
    "a name more": [('"first"]', '"first", "MORE"]\nMORE = 1')],
    "a field more, with a default": [
        ("    count: int = 0\n", "    count: int = 0\n    hint: str = ''\n")
    ],
    "a default more": [("    name: str\n", '    name: str = "?"\n')],
    "a parameter more, with a default": [
        (
            "def cut(text: str | bytes, size: int)",
            "def cut(text: str | bytes, size: int, end: str = '')",
        ),
    ],
    "a method more": [
        ("    @classmethod\n", "    def shown(self) -> str: ...\n\n    @classmethod\n")
    ],
    "private things": [("def _cut(text: str | bytes, size: int) -> str:", "def _cut(text, most):")],
    "a constructor that needs nothing": [
        (
            "class Base:\n",
            "class Base:\n    def __init__(self, level: int = 0, *more: int): ...\n\n",
        )
    ],
    "a setter more": [
        (
            "    @classmethod\n",
            "    @size.setter\n    def size(self, size): ...\n\n    @classmethod\n",
        )
    ],
    "a warning": [("    @classmethod\n", '    @deprecated("use Made")\n    @classmethod\n')],
    "a version that is written down": [("def __getattr__(", '__version__ = "1"\ndef _getattr(')],
    "a struct of other memory": [('tag="made"', 'tag="made", gc=False')],
    "words for people": [("Most of them.", "As many as there may be.")],
}


@pytest.mark.parametrize("change", COMPATIBLE)
def test_an_addition_breaks_nobody(change: str, tmp_path: Path) -> None:
    """What is only added, or private, is no finding."""
    before, after = written(tmp_path / "old"), written(tmp_path / "new", *COMPATIBLE[change])
    assert breaking_changes("contracts", before, after) == []


def edited(folder: Path, package: str, name: str, old: str, new: str) -> Path:
    """Copy a real package's sources, and exchange text in a file; return the copy."""
    copy = folder / "edited"
    shutil.copytree(ROOT / "packages" / package / "src", copy)
    path = copy / "notarius" / package / name
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1, (name, old)
    path.write_text(text.replace(old, new), encoding="utf-8")
    return copy


def test_a_base_in_a_sibling_is_known(tmp_path: Path) -> None:
    """A struct of one package is recognised by its base in another, through private modules."""
    more = "    entry_id: str\n    seen: int\n"
    copy = edited(tmp_path, "registries", "_entities.py", "    entry_id: str\n", more)
    found = breaking_changes("registries", ROOT / "packages" / "registries" / "src", copy)
    assert "notarius.registries.ItemEntry.seen: is new and has no default" in found


def test_a_public_submodule_is_compared(tmp_path: Path) -> None:
    """The helpers for tests are public too, in modules of their own."""
    copy = edited(tmp_path, "attempts", "testing/__init__.py", '    "FakeClock",\n', "")
    found = breaking_changes("attempts", ROOT / "packages" / "attempts" / "src", copy)
    assert found == ["notarius.attempts.testing.FakeClock: is not public any more"]


@pytest.fixture
def released(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A release 0.1.0 of the contracts that had a name more than the tree has."""
    copy = edited(
        tmp_path, "contracts", "__init__.py", "__all__ = [", 'GONE = 1\n__all__ = [\n    "GONE",'
    )
    copy.rename(tmp_path / "src")
    known = [Release(package="contracts", version="0.1.0", commit="0" * 40)]
    monkeypatch.setattr(check_api, "releases", lambda package: known)
    monkeypatch.setattr(check_api, "unpack", lambda release, into: tmp_path)


GONE = "notarius.contracts.GONE: is gone"


def test_a_breaking_change_fails(released: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change that breaks who pins the last release is an error with a remedy."""
    monkeypatch.setattr(check_api, "may_break", lambda package, last: False)
    (problem,) = check("contracts", {})
    assert problem.startswith(GONE)
    assert "changelog.d" in problem


def test_a_release_that_may_break_is_allowed_to(
    released: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a version or a fragment that says so the change is told, and is no error."""
    monkeypatch.setattr(check_api, "may_break", lambda package, last: True)
    assert check("contracts", {}) == []
    assert GONE in capsys.readouterr().out


def test_an_accepted_change_is_no_error_and_an_old_one_is(
    released: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list of accepted changes can only shrink: what is no change any more must leave it."""
    monkeypatch.setattr(check_api, "may_break", lambda package, last: False)
    assert check("contracts", {GONE: "nobody used it"}) == []
    (problem,) = check("contracts", {GONE: "nobody used it", "notarius.x: is gone": "old"})
    assert problem.startswith("notarius.x: is gone: ")


def test_without_a_release_nothing_is_claimed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Where there is nothing to compare with, that is said."""
    monkeypatch.setattr(check_api, "releases", lambda package: [])
    monkeypatch.setattr(check_api, "is_shallow", lambda: True)
    monkeypatch.setattr(check_api, "ACCEPTED", tmp_path / "accepted.toml")
    (tmp_path / "accepted.toml").write_text("")
    assert main() == 0
    (told,) = capsys.readouterr().out.splitlines()
    assert told.startswith("NOT COMPARED: nothing is released of attempts, contracts, ")
    assert "--unshallow" in told


@pytest.mark.parametrize(
    ("last", "now", "fragments", "may"),
    [
        ("0.1.0", "0.1.0", [], False),
        ("0.1.0", "0.1.1", [], False),
        ("0.1.0", "0.2.0", [], True),
        ("0.1.0", "1.0.0", [], True),
        ("1.0.0", "1.1.0", [], False),
        ("1.1.0", "2.0.0", [], True),
        ("0.1.0", "0.1.0", ["+more.added.md"], False),
        ("0.1.0", "0.1.0", ["+less.breaking.md"], True),
    ],
)
def test_which_release_may_break(
    last: str,
    now: str,
    fragments: list[str],
    may: bool,
    tmp_path: Path,
) -> None:
    """Below 1.0 the minor number allows it, from 1.0 the major, and a fragment asks for that."""
    folder = tmp_path / "packages" / "contracts"
    (folder / "changelog.d").mkdir(parents=True)
    (folder / "pyproject.toml").write_text(f'[project]\nversion = "{now}"\n')
    for name in fragments:
        (folder / "changelog.d" / name).write_text("…")
    assert may_break("contracts", last, tmp_path) is may
