"""Writes output files so that each is either the old one or the new one, never a half.

A set of files is first written beside its place and forced to disk, then renamed one by one, the
manifest last: while it does not fit the other files, the set is not complete.
"""

import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from notarius.contracts import canonical_json
from notarius.pipeline._errors import InputError

MANIFEST: Final = "manifest.json"
_STAGING_PREFIX: Final = ".notarius-"


def prepare_folder(folder: Path) -> None:
    """Make sure that `folder` exists and can be written to, before any work is done.

    Raises `InputError` if not.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=_STAGING_PREFIX, dir=folder):
            pass
    except OSError as error:
        raise _unwritable(folder, error) from None


def publish(folder: Path, files: Mapping[str, object]) -> tuple[Path, ...]:
    """Write JSON files and their manifest into `folder`; return the paths, the manifest last.

    Raises `InputError` if that is not possible; then the old files are still there, each whole.
    """
    contents = {name: canonical_json(value) + b"\n" for name, value in files.items()}
    manifest = {
        "schema": "notarius.manifest.v1",
        "files": [
            {"name": name, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            for name, data in sorted(contents.items())
        ],
    }
    return _replace(folder, {**contents, MANIFEST: canonical_json(manifest) + b"\n"})


def publish_one(folder: Path, name: str, value: object) -> tuple[Path, ...]:
    """Write one JSON file that no manifest lists; otherwise as `publish`."""
    return _replace(folder, {name: canonical_json(value) + b"\n"})


def _replace(folder: Path, contents: Mapping[str, bytes]) -> tuple[Path, ...]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=_STAGING_PREFIX, dir=folder))
        try:
            for name, data in contents.items():
                _write_through(staging / name, data)
            for name in contents:
                (staging / name).replace(folder / name)
            _sync_folder(folder)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
    except OSError as error:
        raise _unwritable(folder, error) from None
    return tuple(folder / name for name in contents)


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


def _unwritable(folder: Path, error: OSError) -> InputError:
    reason = error.strerror or type(error).__name__
    return InputError(f"{folder}: can't be written to ({reason}); choose another --out")
