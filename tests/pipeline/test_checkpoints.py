import itertools
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from notarius.attempts import AttemptMachine, AttemptPolicy, run
from notarius.attempts.testing import ScriptedProducer
from notarius.contracts import (
    Accepted,
    ContractError,
    FellBack,
    Outcome,
    ProcessWarning,
    canonical_json,
)
from notarius.llmruntime import Sampling
from notarius.pipeline import InputError, _checkpoints
from notarius.pipeline._checkpoints import Checkpoints, Remembered, checkpoint_key
from notarius.registries import NpcCandidate, NpcEntry, NpcNormalizer, Registry

Groups = Callable[..., str]
APPLICATION_ID = 0x6E6F7461
KILLS = 20
POSIX_ONLY = pytest.mark.skipif(os.name != "posix", reason="needs a POSIX system")
# Puts results of about 20 kB and says so after each; begins when it is told to.
PROGRAM = """
import sys
from pathlib import Path
import msgspec
from notarius.pipeline._checkpoints import Checkpoints, Remembered
path, who, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
registry = msgspec.Raw(b'{"schema": "%b", "entries": []}' % (b"x" * 20_000))
result = Remembered(
    outcome="accepted", registry=registry, records=(), applied_attempt=None, warning=None
)
print("ready", flush=True)
sys.stdin.readline()
with Checkpoints.open(path) as checkpoints:
    for number in range(count):
        checkpoints.put(f"{who}-{number}", result)
        print(f"{who}-{number}", flush=True)
"""
# For each line on its standard input, does so in a process of its own, whose number it says first,
# and says at last how that ended. Python is started and everything imported only once.
LAUNCHER = f"""
import os, sys
import msgspec, notarius.pipeline._checkpoints
program = compile({PROGRAM!r}, "program", "exec")
for line in sys.stdin:
    child = os.fork()
    if not child:
        sys.argv, sys.stdin = ["", *line.split("\\t")], open(os.devnull)
        print(os.getpid(), flush=True)
        exec(program)
    end = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print("\\nended", end, flush=True)
"""
# Does so in eight processes, all of which begin when standard input is closed.
TOGETHER = f"""
import os, sys
import msgspec, notarius.pipeline._checkpoints
program = compile({PROGRAM!r}, "program", "exec")
children = []
for who in range(8):
    child = os.fork()
    if not child:
        sys.argv = ["", sys.argv[1], str(who), "5"]
        exec(program)
        os._exit(0)
    children.append(child)
sys.exit(sum(os.waitpid(child, 0)[1] != 0 for child in children))
"""


def remembered(outcome: str = "accepted", name: object = "any", **changes: object) -> Remembered:
    """Make a small result; equal arguments make equal results."""
    warning = ProcessWarning(code="unsafe_groups", message="Two stay apart.")
    fields: dict[str, Any] = {
        "outcome": outcome,
        "registry": msgspec.Raw(canonical_json({"schema": str(name), "entries": []})),
        "records": (),
        "applied_attempt": None,
        "warning": None if outcome == "accepted" else warning,
    }
    return Remembered(**{**fields, **changes})


def exchange(model: ScriptedProducer) -> Outcome[Registry[NpcEntry]]:
    """Play a real exchange, with one retry."""
    names = ("Lord Percival", "Percival", "Mr. Bennet", "Mrs. Bennet")
    normalizer = NpcNormalizer(
        [NpcCandidate(source_id=f"s{number}", name=name) for number, name in enumerate(names)]
    )
    machine: AttemptMachine[Registry[NpcEntry]] = AttemptMachine(
        normalizer.request.prompt, AttemptPolicy(normalize_retries=1)
    )
    return run(machine, model, normalizer, contract=normalizer.contract)


def result_of(outcome: Outcome[Any]) -> Remembered:
    """Turn the outcome of an exchange into what is remembered of it."""
    assert isinstance(outcome, Accepted | FellBack)
    fell_back = outcome if isinstance(outcome, FellBack) else None
    return Remembered(
        outcome="fell_back" if fell_back else "accepted",
        registry=msgspec.Raw(canonical_json(outcome.value)),
        records=outcome.records,
        applied_attempt=fell_back.applied_attempt if fell_back else len(outcome.records),
        warning=fell_back.warning if fell_back else None,
    )


def execute(path: Path, *statements: str) -> list[tuple[Any, ...]]:
    """Run SQL on a file past the module; return the rows of the last statement."""
    rows = []
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            rows = connection.execute(statement).fetchall()
    return rows


def state(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Return time of change and content of every file of a folder."""
    return {
        path.name: (path.stat().st_mtime_ns, path.read_bytes())
        for path in folder.iterdir()
        if path.is_file()
    }


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A place for the file, in a folder that is not made yet; with letters that URIs quote."""
    return tmp_path / "some where" / "what?#100%.sqlite"


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed file with an accepted result, a fallback, and one that fills some pages."""
    path = tmp_path_factory.mktemp("used") / "results.sqlite"
    with Checkpoints.open(path) as checkpoints:
        checkpoints.put("good", remembered("accepted", "g"))
        checkpoints.put("poor", remembered("fell_back", "p"))
        checkpoints.put("long", remembered("accepted", "l" * 50_000))
    return path


@pytest.fixture
def filled(path: Path, used: Path) -> Path:
    """A copy of that file, to use and to spoil."""
    path.parent.mkdir()
    return Path(shutil.copy(used, path))


# -------------------------------------------------------------------- what is remembered


@pytest.mark.parametrize("ending", ["accepted", "fell_back"])
def test_a_real_result_comes_back_whole(path: Path, groups: Groups, ending: str) -> None:
    """Registry, records, warning and applied attempt are those of the exchange, after reopening."""
    refused = groups(["c1", "c2"], ["c3", "c4"])
    last = groups(["c1", "c2"]) if ending == "accepted" else refused
    outcome = exchange(ScriptedProducer([refused, last]))
    result = result_of(outcome)
    with Checkpoints.open(path) as checkpoints:
        checkpoints.put("key", result)
        assert checkpoints.get("key") == result
        assert checkpoints.get("other") is None
    with Checkpoints.open(path) as checkpoints:
        found = checkpoints.get("key")
    assert found == result
    assert (found.outcome, len(found.records), found.applied_attempt) == (ending, 2, 2)
    assert isinstance(outcome, Accepted | FellBack)
    assert msgspec.json.decode(found.registry, type=Registry[NpcEntry]) == outcome.value


def test_no_text_of_a_model_is_on_disk(path: Path, groups: Groups) -> None:
    """Neither file nor write-ahead log holds what the model wrote, nor does `repr`."""
    canary = "QUETZALCOATLUS"
    refused = groups(["c3", "c4"]).replace("any", canary)
    model = ScriptedProducer([refused, f"{canary} is no JSON"])
    result = result_of(exchange(model))
    with Checkpoints.open(path) as checkpoints:
        checkpoints.put("key", result)
        written = b"".join(content for _, content in state(path.parent).values())
    assert b"Percival" in written
    assert canary.encode() not in written
    correction = model.requests[1].messages[-1].content.splitlines()
    assert [line for line in correction if line and line.encode() in written] == []
    assert "Percival" not in repr(result).replace(str(result.warning), "")


@pytest.mark.parametrize(
    "changes",
    [
        {"outcome": "failed"},
        {"outcome": "fell_back", "warning": None},
        {"warning": ProcessWarning(code="unsafe_groups", message="Two stay apart.")},
        {"outcome": "fell_back", "warning": "text"},
        {"records": []},
        {"records": ("text",)},
        {"applied_attempt": 1},
        {"applied_attempt": True},
        {"registry": b'{"schema": "s", "entries": []}'},
        {"registry": msgspec.Raw(b'{"schema": "s"}')},
        {"registry": msgspec.Raw(b'{"schema": "s", "entries": ["\xff"]}')},
        {"registry": msgspec.Raw(b'{"schema": "s", "entries": [')},
        {"registry": msgspec.Raw(b'{"schema": "s", "entries": %b}' % (b"[" * 9999 + b"]" * 9999))},
    ],
)
def test_what_does_not_fit_is_no_result(changes: dict[str, Any]) -> None:
    """Outcome, warning, records, applied attempt and registry are checked when it is made."""
    with pytest.raises(ContractError):
        remembered(**changes)


def test_what_could_not_be_read_back_is_not_written(path: Path, groups: Groups) -> None:
    """A wrong type deep inside is an error of whoever made it, not a damaged file later."""
    result = result_of(exchange(ScriptedProducer([groups()])))
    with pytest.raises(ContractError):
        msgspec.structs.replace(result, applied_attempt=True)
    record = msgspec.structs.replace(result.records[0], usage=None)
    with Checkpoints.open(path) as checkpoints:
        with pytest.raises(ContractError):
            checkpoints.put("key", msgspec.structs.replace(result, records=(record,)))
        assert checkpoints.get("key") is None


# -------------------------------------------------------------------------------- keys

PARTS: dict[str, Any] = {
    "registry": "npc",
    "policy_fingerprint": "sha256:1",
    "input_sha256": "2",
    "prompt_sha256": "3",
    "model": "openai:m",
    "sampling": Sampling(temperature=0.0, seed=1, max_tokens=9),
}


@pytest.mark.parametrize(
    "change",
    [
        {"registry": "item"},
        {"policy_fingerprint": "sha256:2"},
        {"input_sha256": "3"},
        {"prompt_sha256": "2"},
        {"model": "openai:n"},
        {"sampling": None},
        {"sampling": Sampling()},
        {"sampling": Sampling(temperature=0.5, seed=1, max_tokens=9)},
        {"sampling": Sampling(temperature=0.0, seed=2, max_tokens=9)},
        {"sampling": Sampling(temperature=0.0, seed=1, max_tokens=8)},
        {"input_sha256": "3", "prompt_sha256": "2"},
    ],
)
def test_each_part_changes_the_key(change: dict[str, Any]) -> None:
    """Nothing that decides a result can change while its key stays."""
    assert checkpoint_key(**{**PARTS, **change}) != checkpoint_key(**PARTS)


def test_a_key_stays_the_same() -> None:
    """What earlier versions remembered is found again: a new key needs a decision, not a slip."""
    assert (
        checkpoint_key(**PARTS)
        == "e732051681aa3a5312ff37d2ebd4395aa9f9e50247956338431e27d52c3a4a71"
    )


# -------------------------------------------------------------------------- precedence


@pytest.mark.parametrize(
    ("puts", "left"),
    [
        ([("fell_back", 1), ("accepted", 2)], ("accepted", 2)),
        ([("accepted", 1), ("fell_back", 2)], ("accepted", 1)),
        ([("fell_back", 1), ("fell_back", 2)], ("fell_back", 2)),
        ([("accepted", 1), ("accepted", 2)], ("accepted", 1)),
        ([("fell_back", 1), ("accepted", 2), ("fell_back", 3)], ("accepted", 2)),
    ],
)
def test_an_accepted_result_stays(
    path: Path, puts: list[tuple[str, int]], left: tuple[str, int]
) -> None:
    """A fallback gives way to whatever comes later, an accepted result to nothing."""
    with Checkpoints.open(path) as checkpoints:
        for put in puts:
            checkpoints.put("key", remembered(*put))
        assert checkpoints.get("key") == remembered(*left)
    assert execute(path, "SELECT count(*) FROM result") == [(1,)]


def test_an_accepted_result_stays_in_a_race(path: Path) -> None:
    """It does so too when a fallback is put at the same moment over another connection."""
    keys = [f"key-{number}" for number in range(40)]
    start = threading.Barrier(2)

    def put_all(outcome: str) -> None:
        with Checkpoints.open(path) as checkpoints:
            for key in keys:
                start.wait()
                checkpoints.put(key, remembered(outcome))

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(put_all, ["accepted", "fell_back"]))
    with Checkpoints.open(path) as checkpoints:
        assert [key for key in keys if checkpoints.get(key) != remembered("accepted")] == []


class Places:
    """Keys that no example has used before, in one file: a new file takes long."""

    def __init__(self, path: Path) -> None:
        """Use a file."""
        self.path = path
        self.examples = itertools.count()


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Places:
    """One file for all examples."""
    return Places(tmp_path_factory.mktemp("places") / "results.sqlite")


@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from("ab"),
            st.sampled_from(["accepted", "fell_back", "fell_back"]),
            st.integers(0, 3),
            st.sampled_from([0, 1]),
            st.booleans(),
        ),
        max_size=8,
    )
)
def test_it_behaves_like_a_dictionary(
    places: Places, steps: list[tuple[str, str, int, int, bool]]
) -> None:
    """Two connections and reopening make no difference to a dictionary with the one rule."""
    example = next(places.examples)
    model: dict[str, Remembered] = {}
    opened = [Checkpoints.open(places.path), Checkpoints.open(places.path)]
    for letter, outcome, name, which, reopen in steps:
        key, result = f"{example}-{letter}", remembered(outcome, name)
        opened[which].put(key, result)
        if key not in model or model[key].outcome == "fell_back":
            model[key] = result
        if reopen:
            opened[which].close()
            opened[which] = Checkpoints.open(places.path)
        for checkpoints, each in itertools.product(opened, "ab"):
            assert checkpoints.get(f"{example}-{each}") == model.get(f"{example}-{each}")
    for checkpoints in opened:
        checkpoints.close()


# ------------------------------------------------------------------------- new files


@POSIX_ONLY
def test_a_new_file_is_for_its_owner_alone(path: Path) -> None:
    """It is made with its folder; nobody else may read it or its write-ahead log."""
    with Checkpoints.open(path) as checkpoints:
        checkpoints.put("key", remembered())
        files = list(path.parent.iterdir())
        assert path in files
        assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_an_empty_file_is_a_new_one(tmp_path: Path) -> None:
    """A file of 0 bytes, as tempfile makes it, is filled in place."""
    path = tmp_path / "empty"
    path.touch()
    with path.open("rb") as same, Checkpoints.open(path) as checkpoints:
        checkpoints.put("key", remembered())
        assert same.read(6) == b"SQLite"
    with Checkpoints.open(path) as checkpoints:
        assert checkpoints.get("key") == remembered()


# --------------------------------------------------------- files that can't be used


def database(path: Path, *statements: str) -> None:
    """Make a database of another application."""
    execute(path, "CREATE TABLE notes (text)", "INSERT INTO notes VALUES ('mine')", *statements)


UNUSABLE: dict[str, Callable[[Path], object]] = {
    "a text": lambda path: path.write_bytes(b"my diary\n" * 200),
    "a byte": lambda path: path.write_bytes(b"\n"),
    "half a head": lambda path: path.write_bytes(b"SQLite format 3\x00\x10\x00"),
    "another application": database,
    "another application, with a log": lambda path: database(path, "PRAGMA journal_mode = WAL"),
    "another application, numbered": lambda path: database(
        path, "PRAGMA application_id = 7", "PRAGMA user_version = 1"
    ),
    "an emptied database": lambda path: database(path, "DROP TABLE notes", "VACUUM"),
    "our number alone": lambda path: database(path, f"PRAGMA application_id = {APPLICATION_ID}"),
}


def require_untouched(path: Path, work: Callable[[], object]) -> str:
    """Require an error that names the file, and that nothing in its folder is changed by it."""
    before = state(path.parent)
    with pytest.raises(InputError) as caught:
        work()
    assert state(path.parent) == before
    assert str(path) in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("kind", UNUSABLE)
def test_a_foreign_file_is_left_as_it_is(tmp_path: Path, kind: str) -> None:
    """No byte is changed, no side file comes and none goes; the message says what to do."""
    path = tmp_path / "mine"
    UNUSABLE[kind](path)
    assert "name another file" in require_untouched(path, lambda: Checkpoints.open(path))


def test_a_foreign_file_in_use_is_left_as_it_is(tmp_path: Path) -> None:
    """So it is while its own application works on it."""
    path = tmp_path / "mine"
    database(path, "PRAGMA journal_mode = WAL")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("INSERT INTO notes VALUES ('more')")
        assert len(state(tmp_path)) == 3
        require_untouched(path, lambda: Checkpoints.open(path))


def test_a_file_of_a_newer_version_is_left_as_it_is(filled: Path) -> None:
    """Its user is told to update."""
    execute(filled, "PRAGMA user_version = 2")
    assert "update" in require_untouched(filled, lambda: Checkpoints.open(filled))


ANOTHER_ROW = "SELECT outcome, payload, sha256 FROM result WHERE key = 'good'"


@pytest.mark.parametrize(
    "change",
    [
        "SET payload = replace(payload, 'schema', 'Schema')",
        "SET payload = CAST(payload AS TEXT)",
        "SET payload = 7",
        "SET outcome = 'accepted'",
        "SET outcome = CAST(x'ff' AS TEXT)",
        "SET sha256 = 'no digest'",
        f"SET (outcome, payload, sha256) = ({ANOTHER_ROW})",
    ],
)
def test_a_damaged_row_is_an_error(filled: Path, change: str) -> None:
    """What does not match its digest, its key or its types is never taken for a result."""
    execute(filled, f"UPDATE result {change} WHERE key = 'poor'")
    with Checkpoints.open(filled) as checkpoints:
        assert "damaged" in require_untouched(filled, lambda: checkpoints.get("poor"))
        assert checkpoints.get("good") == remembered("accepted", "g")
    assert execute(filled, "SELECT count(*) FROM result") == [(3,)]


@pytest.mark.parametrize("payload", [b"{}", b"no JSON", b'{"outcome": "failed"}', b"[" * 9999])
def test_a_row_that_is_no_result_is_an_error(filled: Path, payload: bytes) -> None:
    """A row whose digest is right, but not its content, is damage too."""
    with closing(sqlite3.connect(filled, isolation_level=None)) as connection:
        connection.execute(
            "UPDATE result SET payload = ?, sha256 = ? WHERE key = 'poor'",
            (payload, _checkpoints._digest("poor", payload)),
        )
    with Checkpoints.open(filled) as checkpoints:
        assert "damaged" in require_untouched(filled, lambda: checkpoints.get("poor"))


def test_what_a_damaged_file_says_is_told_in_short(filled: Path) -> None:
    """The reason can quote the file: it is one line, not long, and writes to no terminal."""
    name = "one\ntwo\x1b]0;three\x07" + " and more" * 1000
    with closing(sqlite3.connect(filled, isolation_level=None)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("INSERT INTO sqlite_master VALUES ('table', ?, 'x', 2, 'x')", [name])
    message = require_untouched(filled, lambda: use_all(filled))
    assert "one two ]0;three and more" in message
    assert message.isprintable()
    assert len(message) < len(str(filled)) + 400


def use_all(path: Path) -> None:
    """Open a file, read every result, and write one."""
    with Checkpoints.open(path) as checkpoints:
        for key in ("good", "poor", "long"):
            assert checkpoints.get(key) is not None
        checkpoints.put("more", remembered())


def cut_off(path: Path) -> None:
    """Take the end of a file away."""
    os.truncate(path, path.stat().st_size - 5000)


def overwrite(offset: int, count: int) -> Callable[[Path], None]:
    """Make a function that writes nonsense into a file."""

    def damage(path: Path) -> None:
        with path.open("r+b") as file:
            file.seek(offset)
            file.write(b"\xa5" * count)

    return damage


DAMAGES: dict[str, Callable[[Path], object]] = {
    "cut off": cut_off,
    "head": overwrite(0, 16),
    "list of tables": overwrite(100, 8),
    "table": overwrite(4096, 200),
    "one byte of a text": overwrite(6 * 4096, 1),
    "no table": lambda path: execute(path, "DROP TABLE result"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_an_error(filled: Path, damage: str) -> None:
    """Damage anywhere is told before anything is written; the file stays for a closer look."""
    DAMAGES[damage](filled)
    message = require_untouched(filled, lambda: use_all(filled))
    # Without its head it can't be told from a file of somebody else.
    assert ("move it away" in message) == (damage != "head")


@POSIX_ONLY
@pytest.mark.parametrize("kind", ["a folder", "a pipe", "below a file", "a broken link"])
def test_what_can_be_no_file_is_an_error(tmp_path: Path, kind: str) -> None:
    """A place where no file can be is named, and nothing is made there."""
    path = tmp_path / "place"
    match kind:
        case "a folder":
            path.mkdir()
        case "a pipe":
            os.mkfifo(path)
        case "below a file":
            path.write_bytes(b"mine")
            path /= "file"
        case _:
            path.symlink_to(tmp_path / "nowhere" / "file")
    before = list(tmp_path.rglob("*"))
    with pytest.raises(InputError) as caught:
        Checkpoints.open(path)
    assert str(path) in str(caught.value)
    assert "name another" in str(caught.value)
    assert list(tmp_path.rglob("*")) == before


@POSIX_ONLY
@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="root may write anywhere")
@pytest.mark.parametrize(("file", "folder"), [(0o400, 0o700), (0o600, 0o500), (0o400, 0o500)])
@pytest.mark.parametrize("mode", ["WAL", "DELETE"])
def test_a_read_only_place_is_an_error(filled: Path, file: int, folder: int, mode: str) -> None:
    """That nothing could be remembered is said on opening, not after the work is paid for."""
    execute(filled, f"PRAGMA journal_mode = {mode}")
    filled.chmod(file)
    filled.parent.chmod(folder)
    try:
        require_untouched(filled, lambda: Checkpoints.open(filled))
    finally:
        filled.parent.chmod(0o700)


def test_a_full_disk_is_an_error(filled: Path) -> None:
    """What does not fit any more is not half there, and what was there stays readable."""
    with Checkpoints.open(filled) as checkpoints:
        checkpoints._connection.execute("PRAGMA max_page_count = 1")
        with pytest.raises(InputError) as caught:
            checkpoints.put("more", remembered("accepted", "m" * 50_000))
        assert str(filled) in str(caught.value)
        assert "room" in str(caught.value)
        assert checkpoints.get("more") is None
        assert checkpoints.get("good") is not None
        checkpoints._connection.execute("PRAGMA max_page_count = 1000")
        checkpoints.put("more", remembered("accepted", "m" * 50_000))


def test_use_after_the_end_blames_no_file(filled: Path) -> None:
    """It is a fault of the program; closing twice is none."""
    checkpoints = Checkpoints.open(filled)
    checkpoints.close()
    checkpoints.close()
    with pytest.raises(sqlite3.ProgrammingError):
        checkpoints.get("good")


# ------------------------------------------------------------------ others in the file


@pytest.fixture
def held(filled: Path) -> Iterable[sqlite3.Connection]:
    """A connection of another program that keeps everybody else from writing."""
    with closing(
        sqlite3.connect(filled, isolation_level=None, check_same_thread=False)
    ) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield connection


def test_a_file_that_stays_held_is_an_error(
    filled: Path, held: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a bounded wait the message says who could hold it; afterwards all is well."""
    monkeypatch.setattr(_checkpoints, "_PATIENCE_S", 0.0)
    monkeypatch.setattr(_checkpoints, "_ONE_WAIT_S", 0.1)
    with closing(Checkpoints(filled, _checkpoints._connect(filled, "mode=rw"))) as checkpoints:
        for work in (
            lambda: checkpoints.put("poor", remembered()),
            lambda: Checkpoints.open(filled),
        ):
            message = require_untouched(filled, work)
            assert "another program" in message
            assert "locked" not in message
        assert checkpoints.get("poor") == remembered("fell_back", "p")
        held.execute("ROLLBACK")
        checkpoints.put("poor", remembered())
        assert checkpoints.get("poor") == remembered()


def test_a_file_that_is_held_for_a_while_is_waited_for(
    filled: Path, held: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody sees a lock that goes away, even if SQLite itself does not wait for it."""
    monkeypatch.setattr(_checkpoints, "_ONE_WAIT_S", 0.0)
    release = threading.Timer(0.3, held.execute, ["ROLLBACK"])
    release.start()
    use_all(filled)
    release.join()


def test_threads_share_one(path: Path) -> None:
    """Many threads put and get over one connection, and nothing is lost or mixed."""
    with Checkpoints.open(path) as checkpoints:

        def work(who: int) -> None:
            for number in range(10):
                checkpoints.put(f"{who}-{number}", remembered("accepted", who))
                assert checkpoints.get(f"{who}-{number}") == remembered("accepted", who)

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(work, range(8)))
    assert execute(path, "SELECT count(*) FROM result") == [(80,)]


def test_threads_open_a_new_file_at_once(path: Path) -> None:
    """Whoever is first makes it, the others find it, and each sees the results of all."""
    start = threading.Barrier(8)

    def work(who: int) -> None:
        start.wait()
        with Checkpoints.open(path) as checkpoints:
            checkpoints.put(f"{who}", remembered("accepted", who))
            start.wait()
            assert [checkpoints.get(f"{n}") for n in range(8)] == [
                remembered("accepted", n) for n in range(8)
            ]

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))


def start(path: Path, who: str, count: int) -> "subprocess.Popen[str]":
    """Start a writer and wait until it is ready to begin."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(path), who, str(count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def begin(process: "subprocess.Popen[str]") -> None:
    """Tell a writer to begin."""
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def require_whole(path: Path, keys: Iterable[str]) -> None:
    """Require that the file is sound, each row in it readable, and each of the keys there."""
    with Checkpoints.open(path) as checkpoints:
        stored = {key for (key,) in execute(path, "SELECT key FROM result")}
        assert [key for key in stored if checkpoints.get(key) is None] == []
    assert set(keys) <= stored
    assert execute(path, "PRAGMA integrity_check") == [("ok",)]


@POSIX_ONLY
@pytest.mark.parametrize("empty", [False, True])
def test_processes_open_a_new_file_at_once(path: Path, empty: bool) -> None:
    """Eight of them make it, share it and end well, whether it is missing or empty."""
    path.parent.mkdir()
    if empty:
        path.touch()
    with subprocess.Popen(
        [sys.executable, "-c", TOGETHER, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.read(8 * len("ready\n")).count("ready") == 8
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    require_whole(path, [f"{who}-{number}" for who in range(8) for number in range(5)])
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_opening_twice_keeps_the_first_one_safe(path: Path) -> None:
    """A second one in this process may come and go: other processes still see the first."""
    with Checkpoints.open(path) as first:
        first.put("first", remembered())
        Checkpoints.open(path).close()
        with start(path, "other", 3) as process:
            begin(process)
            _, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (0, "")
        # If that process had thought itself alone, it would have taken the log away.
        assert path.with_name(f"{path.name}-wal").exists()
        first.put("last", remembered())
    require_whole(path, ["first", "last", "other-0", "other-1", "other-2"])


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs a signal that can't be caught")
def test_a_killed_writer_leaves_whole_rows(path: Path) -> None:
    """After kill -9 at any moment the file is sound, and what was reported as put is there."""
    chance = random.Random(7)  # noqa: S311 - when to kill is no secret
    reported: dict[Path, set[str]] = {}
    with subprocess.Popen(
        [sys.executable, "-c", LAUNCHER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as launcher:
        assert launcher.stdin is not None
        assert launcher.stdout is not None
        for number in range(KILLS):
            # Every fourth meets a new file and may be killed while it makes it; the others put.
            place = path.with_name(f"{number // 4}.sqlite")
            launcher.stdin.write(f"{place}\t{number}\t{10**6}\n")
            launcher.stdin.flush()
            writer = int(launcher.stdout.readline())
            assert launcher.stdout.readline() == "ready\n"
            said = launcher.stdout.readline() if number % 4 else ""
            time.sleep(chance.uniform(0.0, 0.06))
            os.kill(writer, signal.SIGKILL)
            while not (line := launcher.stdout.readline()).startswith("ended "):
                said += line
            assert line == f"ended {-signal.SIGKILL}\n"
            # Without the line end before that, what follows the last one is half a line.
            keys = said[:-1].split("\n")[:-1]
            reported.setdefault(place, set()).update(keys)
            require_whole(place, reported[place])
    assert all(reported.values())


# ------------------------------------------------------- where memory can't be shared


def log_mode(path: Path) -> str:
    """Return how a file keeps its transactions."""
    ((mode,),) = execute(path, "PRAGMA journal_mode")
    assert isinstance(mode, str)
    return mode


def test_a_log_is_used_where_it_works(filled: Path) -> None:
    """Readers and writers do not wait for each other on an ordinary disk."""
    assert log_mode(filled) == "wal"


@POSIX_ONLY
def test_it_works_where_the_system_offers_no_shared_memory(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes the journal that there is, and two at once get along."""
    connect = sqlite3.connect

    def without(name: str, **options: Any) -> sqlite3.Connection:  # noqa: ANN401 - as the original
        connection: sqlite3.Connection = connect(f"{name}&vfs=unix-dotfile", **options)
        return connection

    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", without)
        with Checkpoints.open(path) as one, Checkpoints.open(path) as other:
            one.put("one", remembered())
            other.put("other", remembered())
            assert one.get("other") == other.get("one") == remembered()
    assert log_mode(path) == "delete"
    require_whole(path, ["one", "other"])


@pytest.fixture
def unshared(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], None]]:
    """Let nobody have shared memory, and SQLite learn of it only when it is too late.

    What is put into the list is done whenever somebody connects.
    """
    connect, during = sqlite3.connect, list[Callable[[], None]]()

    def without(name: str, **options: Any) -> sqlite3.Connection:  # noqa: ANN401 - as the original
        for work in during:
            work()
        # A folder stands in the place of the shared memory.
        Path(f"{unquote(urlsplit(name).path)}-shm").mkdir(exist_ok=True)
        connection: sqlite3.Connection = connect(name, **options)
        return connection

    monkeypatch.setattr(sqlite3, "connect", without)
    return during


@POSIX_ONLY
@pytest.mark.usefixtures("unshared")
def test_it_works_on_a_file_from_elsewhere(filled: Path) -> None:
    """A file that was used with a log is still of use where none can be."""
    with Checkpoints.open(filled) as one, Checkpoints.open(filled) as other:
        one.put("one", remembered())
        other.put("other", remembered())
        assert one.get("other") == other.get("one") == remembered()
        assert other.get("good") == remembered("accepted", "g")


@POSIX_ONLY
def test_to_try_for_shared_memory_disturbs_nobody(
    path: Path, unshared: list[Callable[[], None]]
) -> None:
    """Whoever opens the file, others can write at every moment as if nothing had been tried."""
    with Checkpoints.open(path) as one:
        unshared.append(lambda: one.put("key", remembered("fell_back")))
        Checkpoints.open(path).close()
