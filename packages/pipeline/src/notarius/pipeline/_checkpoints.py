"""Results of finished exchanges, remembered by content, so that unchanged work is not asked again.

All of them stand in one SQLite file, which threads and processes of one machine may share. What
keeps that file, and the files of others, whole:

1. A file is looked at before it is touched: without a lock, a side file or a write.
2. A new file gets its identity before it may use a write-ahead log, so that the look finds it.
3. A result is written in one transaction that takes the write lock at once, and is on disk when
   `put` returns: a kill leaves the whole row or none.
4. Where memory can't be shared (some network mounts) there is no write-ahead log: slower, not
   less safe.
5. Nothing is ever deleted, and a damaged file is not mended: its user is told.
"""

import contextlib
import errno
import hashlib
import os
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Final, Literal, Self, TypeAlias, TypeVar, get_args

import msgspec

from notarius.contracts import (
    AttemptRecord,
    ContractError,
    ProcessWarning,
    Value,
    canonical_json,
    cut,
    one_line,
)
from notarius.llmruntime import Sampling
from notarius.pipeline._errors import InputError
from notarius.registries import Registry

T = TypeVar("T")

RememberedOutcome: TypeAlias = Literal["accepted", "fell_back"]

_APPLICATION_ID: Final = 0x6E6F7461  # "nota"
# To be raised with every change after which old code can't read what new code writes.
_VERSION: Final = 1

_PATIENCE_S: Final = 60.0
# SQLite's own wait can't be interrupted, so it is short; the rest of the patience is ours.
_ONE_WAIT_S: Final = 1.0
_PAUSE_S: Final = 0.01

_HELD: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_PROTOCOL})
# How it shows that memory can't be shared, where the system does not say so itself.
_NO_SHARED_MEMORY: Final = frozenset(
    {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY}
)
_DAMAGED: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_NOTADB})
_REASON_MAX_BYTES: Final = 180
_DAMAGE_REMEDY: Final = (
    "move it away, or name another file; what it held is then asked of the model again"
)

_CREATE: Final = """
CREATE TABLE result (
    key TEXT NOT NULL PRIMARY KEY,
    outcome TEXT NOT NULL,
    payload BLOB NOT NULL,
    sha256 TEXT NOT NULL
)
"""
_TABLES: Final = "SELECT name FROM sqlite_master"
_GET: Final = "SELECT outcome, payload, sha256 FROM result WHERE key = ?"
_PUT: Final = """
INSERT INTO result (key, outcome, payload, sha256) VALUES (?, ?, ?, ?)
ON CONFLICT (key) DO UPDATE SET
    outcome = excluded.outcome, payload = excluded.payload, sha256 = excluded.sha256
WHERE result.outcome <> 'accepted'
"""

# Closing a descriptor drops every lock that this process has on the same file, so none may be
# open while another thread begins to use the file.
_CREATING: Final = threading.Lock()


class Remembered(Value, frozen=True, kw_only=True):
    """The result of one exchange: typed fields alone, so that no text of a model can get in.

    `registry` is a `Registry` as JSON (`msgspec.Raw(canonical_json(registry))`); whoever knows
    the entries' type decodes it (`msgspec.json.decode(found.registry, type=Registry[NpcEntry])`).
    `applied_attempt` is the number of the attempt whose groups it holds. Raises `ContractError`
    if a part has the wrong type, or a fallback has no warning, or an accepted result has one.
    """

    outcome: RememberedOutcome
    registry: msgspec.Raw
    records: tuple[AttemptRecord, ...]
    applied_attempt: int | None
    warning: ProcessWarning | None

    PRIVATE: ClassVar[frozenset[str]] = frozenset({"registry"})

    def __post_init__(self) -> None:
        """Check the parts and that they fit each other."""
        if self.outcome not in get_args(RememberedOutcome):
            message = f"a remembered outcome is one of {', '.join(get_args(RememberedOutcome))}"
            raise ContractError(message)
        if not isinstance(self.warning, ProcessWarning | None) or (
            (self.warning is None) != (self.outcome == "accepted")
        ):
            message = "a fallback is remembered with its warning, an accepted result without one"
            raise ContractError(message)
        if not isinstance(self.records, tuple) or not all(
            isinstance(record, AttemptRecord) for record in self.records
        ):
            message = "the records of a result must be a tuple of the declared type"
            raise ContractError(message)
        number = self.applied_attempt
        if number is not None and (
            type(number) is not int or number not in {record.number for record in self.records}
        ):
            message = "the applied attempt must be the number of one of the records"
            raise ContractError(message)
        if not isinstance(self.registry, msgspec.Raw) or not _is_registry(self.registry):
            message = "the registry of a result must be a Registry as JSON"
            raise ContractError(message)


def _is_registry(raw: msgspec.Raw) -> bool:
    try:
        msgspec.json.decode(raw, type=Registry[Any])
    except (msgspec.DecodeError, ValueError, RecursionError):
        return False
    return True


def checkpoint_key(
    *,
    registry: str,
    policy_fingerprint: str,
    input_sha256: str,
    prompt_sha256: str,
    model: str,
    sampling: Sampling | None,
) -> str:
    """Return the identity of an exchange, 64 hexadecimal digits; the same parts give the same.

    `model` must tell models apart: for a file it holds a digest. How many retries were allowed
    is no part, since it does not change what an accepted result is.
    """
    parts = {
        "schema": "notarius.checkpoint.v1",
        "registry": registry,
        "policy_fingerprint": policy_fingerprint,
        "input_sha256": input_sha256,
        "prompt_sha256": prompt_sha256,
        "model": model,
        "sampling": sampling,
    }
    return hashlib.sha256(canonical_json(parts)).hexdigest()


class Checkpoints:
    """The remembered results in one file.

    Threads may share one; a process opens its own (also after a fork). Every method but `close`
    raises `InputError`, which names the file and the remedy, if the file can't be used: it is
    not ours or damaged, the place is read-only or full, or another program holds it for a minute.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        """Take a connection that is ready; see `open`."""
        self._path = path
        self._connection = connection
        self._lock = threading.Lock()

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open the file, and make it, with its folder, if there is none (0 bytes are none)."""
        _make(path)
        _require_ours(path)
        try:
            return cls(path, _patiently(path, lambda: _connection(path)))
        except sqlite3.DatabaseError as error:
            if _code(error) not in _NO_SHARED_MEMORY:
                raise _unusable(path, error) from None
        # Perhaps it comes from a place where memory could be shared.
        try:
            _patiently(path, lambda: _leave_log(path))
            return cls(path, _patiently(path, lambda: _connection(path, log=False)))
        except sqlite3.DatabaseError as error:
            raise _unusable(path, error) from None

    def __enter__(self) -> Self:
        """Close at the end of the block."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the file."""
        self.close()

    def close(self) -> None:
        """Close the file; a second time does nothing."""
        with self._lock:
            self._connection.close()

    def get(self, key: str) -> Remembered | None:
        """Return the result that is remembered under a key, if any."""
        for outcome, payload, digest in self._do(
            lambda: self._connection.execute(_GET, (key,)).fetchall()
        ):
            remembered = _decoded(key, payload, digest)
            if remembered is None or remembered.outcome != outcome:
                raise self.damaged()
            return remembered
        return None

    def damaged(self) -> InputError:
        """Return what is to be raised about a result in it that makes no sense."""
        return InputError(f"{self._path}: a result in it is damaged; {_DAMAGE_REMEDY}")

    def put(self, key: str, remembered: Remembered) -> None:
        """Remember a result; when this returns it is on disk.

        The first accepted result stays for good, so that every reader sees the same one; a
        fallback gives way to whatever comes later. Raises `ContractError` if a part of a part has
        a type that its own checks let pass.
        """
        payload = canonical_json(remembered)
        digest = _digest(key, payload)
        if _decoded(key, payload, digest) is None:  # a deep part of it is of a wrong type
            message = "a result that could not be read back can't be remembered"
            raise ContractError(message)
        row = (key, remembered.outcome, payload, digest)

        def write() -> None:
            with _transaction(self._connection):
                self._connection.execute(_PUT, row)

        self._do(write)

    def _do(self, work: Callable[[], T]) -> T:
        with self._lock:
            try:
                return _patiently(self._path, work)
            except sqlite3.ProgrammingError:
                raise  # used after its end: no fault of the file
            except sqlite3.DatabaseError as error:
                raise _unusable(self._path, error) from None


def _digest(key: str, payload: bytes) -> str:
    """Return what tells whether a row is whole, and stands under its own key."""
    return hashlib.sha256(b"%b\n%b" % (key.encode(), payload)).hexdigest()


def _decoded(key: str, payload: object, digest: object) -> Remembered | None:
    """Return the result in a row, or `None` if the row is damaged (its types too may be)."""
    if not isinstance(payload, bytes) or _digest(key, payload) != digest:
        return None
    try:
        return msgspec.json.decode(payload, type=Remembered)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None


def _make(path: Path) -> None:
    """Make an empty file, its owner's alone, if there is none; require that it can be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _CREATING, contextlib.suppress(FileExistsError):
            if not path.exists():
                os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        if not path.is_file():
            what = "a folder" if path.is_dir() else "no ordinary file"
            raise InputError(f"{path}: is {what}, but results are kept in a file; name another")
        # SQLite would open a file that can only be read without a word.
        if not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise _no_place(path, error) from None


def _require_ours(path: Path) -> None:
    """Look at the head of a file, and leave it and its neighbourhood exactly as they are."""
    try:
        if not path.stat().st_size:
            return
        with contextlib.closing(_connect(path, "mode=ro&immutable=1")) as connection:
            # Another process may be at work: only the head is sure to be whole.
            connection.execute("PRAGMA writable_schema = ON")
            _require_identity(path, _identity(connection))
    except OSError as error:
        raise _no_place(path, error) from None
    except sqlite3.DatabaseError as error:
        if _code(error) in _DAMAGED:
            raise _foreign(path) from None
        raise _unusable(path, error) from None


def _identity(connection: sqlite3.Connection) -> tuple[int, int]:
    """Return application and version; both are 0 in a new file."""
    return _pragma(connection, "application_id"), _pragma(connection, "user_version")


def _pragma(connection: sqlite3.Connection, text: str) -> Any:  # noqa: ANN401 - a number or a word
    # All rows (there is one), so that no read lock is left behind.
    ((value,),) = connection.execute(f"PRAGMA {text}").fetchall()
    return value


def _require_identity(path: Path, identity: tuple[int, int]) -> None:
    application, version = identity
    if application != _APPLICATION_ID or version < 1:
        raise _foreign(path)
    if version > _VERSION:
        raise InputError(
            f"{path}: was written by a newer version of notarius; "
            "update notarius-pipeline, or name another file"
        )


def _connect(path: Path, options: str) -> sqlite3.Connection:
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?{options}",
        uri=True,
        isolation_level=None,  # transactions are begun by hand
        timeout=_ONE_WAIT_S,
        check_same_thread=False,  # a lock of ours keeps threads apart
    )


def _connection(path: Path, *, log: bool = True) -> sqlite3.Connection:
    """Return a connection to a file that is ours now, can be written, and has a log if it can."""
    connection = _connect(path, "mode=rw")
    try:
        connection.execute("PRAGMA synchronous = FULL")
        with _transaction(connection):
            identity = _identity(connection)
            if identity == (0, 0) and not connection.execute(_TABLES).fetchall():
                connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {_VERSION}")
                connection.execute(_CREATE)
            else:
                _require_identity(path, identity)
        if log and _pragma(connection, "journal_mode") != "wal" and _has_shared_memory(path):
            _pragma(connection, "journal_mode = WAL")
    except BaseException:
        connection.close()
        raise
    return connection


def _has_shared_memory(path: Path) -> bool:
    """Try out whether a write-ahead log works here, on a file that nobody else has."""
    try:
        with (
            tempfile.TemporaryDirectory(
                prefix=".notarius-probe-", dir=path.parent, ignore_cleanup_errors=True
            ) as folder,
            contextlib.closing(_connect(Path(folder) / "probe", "mode=rwc")) as connection,
        ):
            mode: str = _pragma(connection, "journal_mode = WAL")
            connection.execute("CREATE TABLE probe (x)")
            return mode == "wal"
    except OSError as error:
        raise _no_place(path, error) from None
    except sqlite3.DatabaseError as error:
        if _code(error) in _NO_SHARED_MEMORY:
            return False
        raise


def _leave_log(path: Path) -> None:
    """Go back from the write-ahead log, which needs no shared memory while nobody else is in."""
    with contextlib.closing(_connect(path, "mode=rw")) as connection:
        _pragma(connection, "locking_mode = EXCLUSIVE")
        with _transaction(connection):
            pass  # takes the lock
        _pragma(connection, "journal_mode = DELETE")


@contextlib.contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Take the write lock at once: nobody writes between what is read here and what is written."""
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        yield


def _patiently(path: Path, work: Callable[[], T]) -> T:
    """Do `work`, again and again while another program holds the file.

    SQLite waits by itself, but not in every case (a change to the write-ahead log, say).
    """
    until = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return work()
        except sqlite3.DatabaseError as error:
            if _code(error) not in _HELD:
                raise
            if time.monotonic() >= until:
                raise InputError(
                    f"{path}: another program has held it for {_PATIENCE_S:.0f} seconds; end that "
                    "one (a hung run, a database browser, a backup), or name another file"
                ) from None
        time.sleep(_PAUSE_S)


def _code(error: sqlite3.DatabaseError) -> int:
    # What Python itself finds wrong with a stored value has no code.
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)
    return code & 0xFF  # without the details


def _foreign(path: Path) -> InputError:
    return InputError(
        f"{path}: is no checkpoint file of notarius, or its head is damaged; it was left as it is; "
        "name another file"
    )


def _no_place(path: Path, error: OSError) -> InputError:
    reason = error.strerror or type(error).__name__
    full = error.errno in {errno.ENOSPC, errno.EDQUOT}
    remedy = "make room there, or name another file" if full else "name another file"
    return InputError(f"{path}: can't be written ({reason}); {remedy}")


def _unusable(path: Path, error: sqlite3.DatabaseError) -> InputError:
    code = _code(error)
    said = cut(one_line(str(error)), _REASON_MAX_BYTES)  # it can quote the file
    if code in _DAMAGED:
        return InputError(f"{path}: is damaged ({said}); {_DAMAGE_REMEDY}")
    if code == sqlite3.SQLITE_FULL:
        return InputError(f"{path}: can't be written (the disk is full); make room there")
    return InputError(
        f"{path}: can't be used ({said}); "
        "see that its folder and disk can be written, or name another file"
    )
