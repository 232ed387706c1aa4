"""Reads the files of an output folder. Nothing in it is trusted.

No link in it is followed, nothing but plain files is opened, what is read has a bound, and
whatever is wrong is said in words for a person.
"""

import contextlib
import hashlib
import io
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeVar, get_args

import msgspec

from notarius.contracts import RepeatedKeyError, cut, require_unique_keys
from notarius.pipeline._errors import InputError
from notarius.pipeline._shown import quoted, visible
from notarius.registries import ItemEntry, LocationEntry, NpcEntry, Registry, RegistryKind

T = TypeVar("T")

# Names and schemas stand here once more, as the format fixes them: a check that took them from
# what writes the files would agree with it whatever it wrote.
REGISTRY: Final = "registry.json"
WARNINGS: Final = "warnings.json"
RECEIPT: Final = "receipt.json"
FAILED_RECEIPT: Final = "failed-receipt.json"
MANIFEST: Final = "manifest.json"
KINDS: Final[tuple[RegistryKind, ...]] = get_args(RegistryKind)
"""The registries; a campaign's folder has a folder of each of these names, or of some."""
OURS: Final = frozenset({REGISTRY, WARNINGS, RECEIPT, MANIFEST})
"""What a manifest must account for. It can't list itself, and a failed run's receipt is in none."""
JSON_MAX_BYTES: Final = 256 * 1024 * 1024
"""The largest file whose content is read; digests are computed of files of any size."""
RESTORE: Final = "bring it back from a copy, or run notarius again"
"""How a file that is not as it was written is mended."""

_DECODER_WORDS_MAX_BYTES: Final = 180
_TYPES: Final[Mapping[RegistryKind, type[Registry[Any]]]] = MappingProxyType(
    {"npc": Registry[NpcEntry], "item": Registry[ItemEntry], "location": Registry[LocationEntry]}
)
_NO_LINK: Final = "put the file itself there"


class UnfitFileError(Exception):
    """Why a file can't be used, and the remedy, both for a person."""

    def __init__(self, what: str, hint: str = RESTORE) -> None:
        """Keep both."""
        self.what = what
        self.hint = hint
        super().__init__(f"{what}; {hint}")


class _Schema(msgspec.Struct, frozen=True, kw_only=True):
    schema: str


def listing(folder: Path) -> frozenset[str]:
    """Return the names in a folder that a person named; raise `InputError` if it can't be read."""
    try:
        return frozenset(path.name for path in folder.iterdir())
    except OSError as error:
        raise InputError(
            f"{folder}: can't be read as a folder ({reason(error)}); "
            "name a folder that was an --out"
        ) from None


def names_in(folder: Path) -> frozenset[str]:
    """Return the names in a folder; none if it is no folder, a link, or closed to us."""
    try:
        if stat.S_ISDIR(folder.lstat().st_mode):
            return frozenset(path.name for path in folder.iterdir())
    except OSError:
        pass
    return frozenset()


def read_registry(folder: Path, name: str) -> tuple[RegistryKind, Registry[Any]]:
    """Return a registry and which it is. Raises `UnfitFileError`."""
    found = read_json(folder, name, {_schema(kind): shape for kind, shape in _TYPES.items()})
    return next(kind for kind in KINDS if found.schema == _schema(kind)), found


def _schema(kind: RegistryKind) -> str:
    return f"notarius.registry.{kind}.v1"


def read_json(
    folder: Path, name: str, shapes: Mapping[str, type[T]], *, max_bytes: int = JSON_MAX_BYTES
) -> T:
    """Return a JSON file in the shape that its schema stands for; other keys are passed over.

    Raises `UnfitFileError`.
    """
    data = _content(folder, name, max_bytes=max_bytes)
    try:
        schema = msgspec.json.decode(data, type=_Schema).schema
        require_unique_keys(data)
        if schema in shapes:
            return msgspec.json.decode(data, type=shapes[schema])
    except RecursionError:
        hint = "make what `extra` holds flatter and run notarius again"
        raise UnfitFileError("is nested too deeply", hint) from None
    except RepeatedKeyError:
        raise UnfitFileError("has an object with the same key twice") from None
    except msgspec.ValidationError as error:
        raise UnfitFileError(f"has another shape than it should ({_words(error)})") from None
    except ValueError as error:
        raise UnfitFileError(f"is no valid JSON ({_words(error)})") from None
    raise UnfitFileError(
        f"has the schema {quoted(schema)}, which does not belong here",
        "use the version of notarius that wrote it, or run notarius again",
    )


def _words(error: Exception) -> str:
    return cut(visible(str(error)), _DECODER_WORDS_MAX_BYTES)


def _content(folder: Path, name: str, *, max_bytes: int) -> bytes:
    with _opened(folder, name) as handle:
        if os.fstat(handle.fileno()).st_size > max_bytes:
            raise UnfitFileError(f"is larger than the {max_bytes} bytes that are looked at")
        return handle.read(max_bytes)


def file_size(folder: Path, name: str) -> int:
    """Return the bytes of a file. Raises `UnfitFileError`."""
    with _opened(folder, name) as handle:
        return os.fstat(handle.fileno()).st_size


def file_digest(folder: Path, name: str) -> str:
    """Return the SHA-256 of a file. Raises `UnfitFileError`."""
    with _opened(folder, name) as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


@contextlib.contextmanager
def _opened(folder: Path, name: str) -> Iterator[io.BufferedReader]:
    """Open a plain file below `folder`; raise `UnfitFileError` rather than follow a link to it."""
    path = folder
    *parents, last = name.split("/")
    try:
        for parent in parents:
            path /= parent
            if stat.S_ISLNK(path.lstat().st_mode):
                raise UnfitFileError("lies behind a link, which is not followed", _NO_LINK)
        path /= last
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            raise UnfitFileError("is a link, which is not followed", _NO_LINK)
        if not stat.S_ISREG(mode):  # opening a pipe could wait for ever
            raise UnfitFileError("is no plain file")
        with path.open("rb") as handle:
            yield handle
    except (FileNotFoundError, NotADirectoryError):
        raise UnfitFileError("is missing") from None
    except OSError as error:
        raise UnfitFileError(f"can't be read ({reason(error)})") from None
    except ValueError:  # a NUL, or letters that the file system's encoding does not have
        raise UnfitFileError("has a name that no file can have here") from None


def reason(error: OSError) -> str:
    """Say why the system did not do something."""
    return error.strerror or type(error).__name__
