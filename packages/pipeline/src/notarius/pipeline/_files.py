"""Writes output files so that each is either the old one or the new one, never a half.

A set of files is first written beside its place and forced to disk, then renamed one by one, the
manifest last: while it does not fit the other files, the set is not complete.
"""

import contextlib
import errno
import hashlib
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from notarius.contracts import canonical_json
from notarius.pipeline._errors import InputError

try:
    import fcntl
except ImportError:  # not on this system; then two runs must not share a folder
    fcntl = None  # type: ignore[assignment]

MANIFEST: Final = "manifest.json"
_STAGING_PREFIX: Final = ".notarius-staging-"
_LEFT_BEHIND_S: Final = 24 * 3600.0
_LOCK: Final = ".notarius-lock"
_HELD: Final[set[int]] = set()
"""Locks of this process."""


def _let_go() -> None:
    """Keep no lock in a forked worker, which may outlive a run that is killed."""
    while _HELD:
        os.close(_HELD.pop())


if fcntl is not None:
    os.register_at_fork(after_in_child=_let_go)


def prepare_folder(folder: Path, names: Iterable[str]) -> None:
    """Make sure, before any work is done, that `folder` exists and takes files of these names.

    What a killed run left behind a day ago or earlier is removed. Raises `InputError` if files
    can't be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=_STAGING_PREFIX, dir=folder):
            pass
        for name in (*names, MANIFEST):
            if (folder / name).is_dir():
                raise InputError(f"{folder / name}: is a folder, but a file goes there; move it")
        for left in folder.glob(f"{_STAGING_PREFIX}*"):
            with contextlib.suppress(FileNotFoundError):  # another run has just ended
                if time.time() - left.lstat().st_mtime > _LEFT_BEHIND_S:
                    shutil.rmtree(left, ignore_errors=True)
    except OSError as error:
        raise _unwritable(folder, error) from None


def require_apart(source: Path, folder: Path, names: Iterable[str]) -> None:
    """Raise `InputError` if an output file would take the place of the input."""
    for name in (*names, MANIFEST):
        with contextlib.suppress(OSError):
            if (folder / name).samefile(source):
                raise InputError(f"{source}: would be overwritten; choose another --out")


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Keep other runs from `folder` for as long as the block takes.

    Raises `InputError` if another is at work there.
    """
    if fcntl is None:
        yield
        return
    path = folder / _LOCK
    try:
        descriptor = _locked(path)
    except BlockingIOError:
        raise InputError(
            f"{folder}: another run is writing there; wait for its end, or choose another --out"
        ) from None
    except OSError as error:
        raise _unwritable(folder, error) from None
    _HELD.add(descriptor)
    try:
        yield
    finally:
        discard(path)  # while it is still ours
        _HELD.remove(descriptor)
        os.close(descriptor)


def _locked(path: Path) -> int:
    """Return a descriptor of a lock file that is ours; a run that ends removes its own."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), path.lstat()):
                    return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def publish(folder: Path, files: Mapping[str, object], *, outdated: str) -> tuple[Path, ...]:
    """Write JSON files and their manifest into `folder`; return the paths, the manifest last.

    The file `outdated` is removed before the manifest is there: a set that fits its manifest has
    none beside it. Raises `InputError` if that is not possible; then the old files are still there,
    each whole.
    """
    contents = _with_manifest(files)
    with _staged(folder, contents) as staging:
        _rename(staging, folder, contents, outdated)
    return tuple(folder / name for name in contents)


def publish_beside(
    folder: Path, name: str, value: object, *, earlier: str, aside: str
) -> tuple[Path, ...]:
    """Write a JSON file and its manifest; but where the file `earlier` is, the file `aside` alone.

    Raises `InputError` as `publish` does.
    """
    contents = _with_manifest({name: value})
    with _staged(folder, contents) as staging:
        # Only now can no other run put it there.
        if (folder / earlier).exists():
            (staging / name).replace(folder / aside)
            return (folder / aside,)
        _rename(staging, folder, contents, aside)
    return tuple(folder / each for each in contents)


def _rename(staging: Path, folder: Path, names: Iterable[str], outdated: str) -> None:
    for name in names:
        if name == MANIFEST:
            (folder / outdated).unlink(missing_ok=True)
        (staging / name).replace(folder / name)


def _with_manifest(files: Mapping[str, object]) -> dict[str, bytes]:
    contents = {name: canonical_json(value) + b"\n" for name, value in files.items()}
    return {**contents, MANIFEST: _manifest(contents)}


def _manifest(contents: Mapping[str, bytes]) -> bytes:
    listed = [
        {"name": name, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in sorted(contents.items())
    ]
    return canonical_json({"schema": "notarius.manifest.v1", "files": listed}) + b"\n"


def publish_over(
    folder: Path, name: str, value: object, inside: Iterable[Path]
) -> tuple[Path, ...]:
    """Write a JSON file, and a manifest over it and over the files `inside` that are there.

    Those are listed by names such as `npc/registry.json`. Raises `InputError` as `publish` does.
    """
    data = canonical_json(value) + b"\n"
    listed = {name: data}
    try:
        for path in inside:
            with contextlib.suppress(FileNotFoundError):
                listed[path.relative_to(folder).as_posix()] = path.read_bytes()
    except OSError as error:
        raise _unwritable(folder, error) from None
    return _replace(folder, {name: data, MANIFEST: _manifest(listed)})


def discard(path: Path) -> None:
    """Remove a file that is out of date, if it is there and that is possible."""
    with contextlib.suppress(OSError):
        path.unlink()


def publish_page(path: Path, data: bytes, *, mark: bytes, keep: Iterable[Path]) -> None:
    """Write a file for people, anywhere, over an earlier one of its kind, which begins with `mark`.

    Raises `InputError` if it can't be written, if anything else has its name, and if it would take
    the place of one of the files to `keep`, whether these exist or not.
    """
    taken = path.resolve()
    for other in keep:
        with contextlib.suppress(OSError):
            if taken == other.resolve() or path.samefile(other):
                raise InputError(f"{path}: would overwrite {other}; choose another --html")
    if path.is_dir():
        raise InputError(f"{path}: is a folder, but a file goes there; choose another --html")
    if os.path.lexists(path) and not _begins_with(path, mark):
        raise InputError(
            f"{path}: is there already, and is no earlier report; move it, or choose another --html"
        )
    _replace(path.parent, {path.name: data}, option="--html")


def _begins_with(path: Path, mark: bytes) -> bool:
    try:
        if not path.is_file():  # to open a pipe would wait for ever
            return False
        with path.open("rb") as handle:
            return handle.read(len(mark)) == mark
    except OSError:
        return False


def _replace(
    folder: Path, contents: Mapping[str, bytes], *, option: str = "--out"
) -> tuple[Path, ...]:
    with _staged(folder, contents, option=option) as staging:
        for name in contents:
            (staging / name).replace(folder / name)
    return tuple(folder / name for name in contents)


@contextlib.contextmanager
def _staged(
    folder: Path, contents: Mapping[str, bytes], *, option: str = "--out"
) -> Iterator[Path]:
    """Write files beside their place; in the block, no other run renames any into it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=_STAGING_PREFIX, dir=folder))
        try:
            for name, data in contents.items():
                _write_through(staging / name, data)
            with _alone_in(folder), _undisturbed():
                yield staging
                _sync_folder(folder)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
    except OSError as error:
        raise _unwritable(folder, error, option) from None


@contextlib.contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Keep other runs from renaming into `folder`, so that no two sets are mixed."""
    if fcntl is None:
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Put off an interruption until the renames are done: they take a millisecond."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _write_through(path: Path, data: bytes) -> None:
    with path.open("xb") as handle:
        handle.write(data)
        handle.flush()
        os.fsync(handle.fileno())


def _sync_folder(folder: Path) -> None:
    # Not every system lets a folder be opened; the renames are done all the same.
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _unwritable(folder: Path, error: OSError, option: str = "--out") -> InputError:
    reason = error.strerror or type(error).__name__
    full = error.errno in {errno.ENOSPC, errno.EDQUOT}
    remedy = f"make room there, or choose another {option}" if full else f"choose another {option}"
    return InputError(f"{folder}: can't be written to ({reason}); {remedy}")
