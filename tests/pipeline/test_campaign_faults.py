"""What goes wrong in mid-run: what was paid for is on paper, and the folder tells no lie."""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from notarius.attempts import AttemptPolicy
from notarius.contracts import (
    AttemptRecord,
    FinishReason,
    IssueDetails,
    ProviderError,
    ProviderErrorKind,
    Reply,
    canonical_json,
)
from notarius.pipeline import (
    Config,
    InputError,
    RunSettings,
    Settings,
    check_campaign,
    reconcile,
    report,
    run_campaign,
    verify,
)
from notarius.pipeline._checkpoints import Checkpoints

Write = Callable[..., Path]
Fill = Callable[..., Path]
KINDS = ("npc", "item", "location")
LETTERS = "abcdefghijklmnopqrstuvwxyz"
NOTHING = '{"duplicate_groups": []}'
REFUSED = '{"duplicate_groups": [{"candidate_ids": ["c1", "c9"], "canonical_id": "c1"}]}'


class Backend:
    """Answers all registries with one text, and lets something happen first; its own factory."""

    def __init__(self, happens: Callable[[int], object] = id, text: str = NOTHING) -> None:
        """Take what happens, given the number of the call, and what to answer."""
        self._happens = happens
        self._text = text
        self._lock = threading.Lock()
        self.asked: list[str] = []

    def __call__(self, kind: str, *_: object) -> Any:  # noqa: ANN401 - a backend
        """Be the factory."""

        def complete(call: object, *, cancellation: object) -> Reply:
            with self._lock:
                self.asked.append(kind)
                number = len(self.asked)
            self._happens(number)
            return Reply(text=self._text, finish_reason=FinishReason.STOP)

        return SimpleNamespace(complete=complete)


@pytest.fixture
def fill(tmp_path: Path) -> Fill:
    """Make a campaign of two people, two things and two places, or of some of these."""

    def make(name: str = "campaign", kinds: tuple[str, ...] = KINDS, count: int = 2) -> Path:
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        for kind in kinds:
            records = [
                {
                    "source_id": f"{name}-{kind}-{n}",
                    "name": f"{name} the {LETTERS[n // 26]}{LETTERS[n % 26]}",
                }
                for n in range(count)
            ]
            text = "".join(json.dumps(record) + "\n" for record in records)
            (folder / f"{kind}.jsonl").write_text(text)
        return folder

    return make


def outcomes(out: Path) -> dict[str, str]:
    """Return what the receipt of a run says of each registry."""
    found = json.loads((out / "receipt.json").read_bytes())["registries"]
    return {kind: said["outcome"] for kind, said in found.items()}


# ------------------------------------------------------------------ two runs in one place


def test_a_second_run_in_the_same_folder_is_refused(fill: Fill, out: Path, tmp_path: Path) -> None:
    """Two at once would mix their registries; the second is told before it asks or writes."""
    other = Backend()

    def second(_: int) -> None:
        (tmp_path / "link").unlink(missing_ok=True)
        (tmp_path / "link").symlink_to(out)
        for place in (out, tmp_path / "link"):
            given = RunSettings(
                campaign=fill("other"), out=place, checkpoints=tmp_path / "other.db"
            )
            with pytest.raises(InputError, match=r"another run is writing there; .*another --out"):
                run_campaign(given, backend=other)

    first = Backend(second)
    run_campaign(RunSettings(campaign=fill(), out=out), backend=first)
    assert (first.asked, other.asked) == (list(KINDS), [])
    assert verify(out).ok
    assert not list(out.rglob(".*"))
    # Afterwards the place is free, also after a run that was broken.
    broken = Backend(lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run_campaign(RunSettings(campaign=fill("other"), out=out), backend=broken)
    run_campaign(RunSettings(campaign=fill("other"), out=out), backend=other)
    assert other.asked == list(KINDS)


def test_runs_in_different_folders_may_share_checkpoints(fill: Fill, tmp_path: Path) -> None:
    """Only the place of the output is kept for one run."""
    shared = tmp_path / "shared.db"

    def inner(_: int) -> None:
        given = RunSettings(campaign=fill("other"), out=tmp_path / "b", checkpoints=shared)
        run_campaign(given, backend=Backend())

    given = RunSettings(campaign=fill(), out=tmp_path / "a", checkpoints=shared)
    run_campaign(given, backend=Backend(inner))
    assert verify(tmp_path / "a").ok
    assert verify(tmp_path / "b").ok


HOLDS = """
import os, sys, time
from pathlib import Path
from notarius.pipeline import RunSettings, run_campaign
def asked(*_):
    if os.fork() == 0:
        time.sleep(60)  # a worker that outlives the run
        os._exit(0)
    print("asked", flush=True)
    time.sleep(60)
run_campaign(RunSettings(campaign=Path(sys.argv[1]), out=Path(sys.argv[2])), backend=asked)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs forks, and locks that the system ends")
def test_a_killed_run_keeps_nobody_out(fill: Fill, out: Path) -> None:
    """Its lock ends with it, though a worker that it forked lives on."""
    command = [sys.executable, "-c", HOLDS, str(fill()), str(out)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as held:
        assert held.stdout is not None
        try:
            assert held.stdout.readline() == b"asked\n"
            with pytest.raises(InputError, match="another run is writing there"):
                run_campaign(RunSettings(campaign=fill(), out=out), backend=Backend())
            held.kill()
            held.wait()
            run_campaign(RunSettings(campaign=fill(), out=out), backend=Backend())
        finally:
            os.killpg(held.pid, signal.SIGKILL)
    assert not list(out.rglob(".*"))
    assert verify(out).ok


# ------------------------------------------------------------------ what breaks in mid-run


def spoil(file: Path) -> None:
    """Overwrite a checkpoint file while a run has it open."""
    for path in file.parent.glob(f"{file.name}*"):
        with path.open("r+b") as handle:
            handle.write(b"garbage!" * 4000)


@pytest.mark.parametrize("at_once", [1, 3])
def test_checkpoints_that_break_cost_no_result(
    fill: Fill, out: Path, tmp_path: Path, at_once: int
) -> None:
    """What was answered is written and fits; nothing more is asked, and the file is named."""
    file = tmp_path / "kept.db"
    spoiled = threading.Event()

    def happens(number: int) -> None:
        if number == 2:
            spoil(file)
            spoiled.set()
        elif at_once > 1:
            spoiled.wait(10)  # nothing is written to it while it is spoiled

    backend = Backend(happens)
    settings = RunSettings(
        campaign=fill(), out=out, checkpoints=file, options=Config(at_once=at_once)
    )
    with pytest.raises(InputError, match=r"kept\.db: "):
        run_campaign(settings, backend=backend)
    if at_once == 1:
        assert backend.asked == ["npc", "item"]
        assert outcomes(out) == {"npc": "accepted", "item": "accepted", "location": "cancelled"}
    written = [path.parent.name for path in out.glob("*/registry.json")]
    assert len(written) >= 2
    assert sorted(written) == sorted(k for k, how in outcomes(out).items() if how == "accepted")
    assert verify(out).ok


@pytest.mark.parametrize("at_once", [1, 3])
def test_without_a_model_nothing_is_written(fill: Fill, out: Path, at_once: int) -> None:
    """What is remembered is no reason to rewrite a registry if nobody can be asked for the rest."""
    options = Config(at_once=at_once)
    settings = RunSettings(campaign=fill(kinds=("npc",)), out=out, options=options)
    run_campaign(settings, backend=Backend())
    (out / "npc" / "registry.json").unlink()
    before = {path: path.read_bytes() for path in out.rglob("*.json")}

    def none(*_: object) -> Any:  # noqa: ANN401 - never
        raise InputError("--model: there is none")

    fill()
    with pytest.raises(InputError, match="--model: there is none"):
        run_campaign(settings, backend=none)
    assert {path: path.read_bytes() for path in out.rglob("*.json")} == before


@pytest.mark.parametrize("at_once", [1, 3])
@pytest.mark.parametrize("error", [InputError("no place"), ZeroDivisionError("kanari")])
def test_a_backend_that_can_not_be_made_later_on_leaves_the_rest(
    fill: Fill, out: Path, at_once: int, error: Exception
) -> None:
    """The others' results are written, the error comes out, and the folder fits."""
    backend = Backend()

    def make(kind: str, *about: object) -> Any:  # noqa: ANN401 - a backend
        if kind == "item":
            time.sleep(0.2 if at_once > 1 else 0)
            raise error
        return backend(kind, *about)

    settings = RunSettings(campaign=fill(), out=out, options=Config(at_once=at_once))
    with pytest.raises(type(error), match=str(error)):
        run_campaign(settings, backend=make)
    assert outcomes(out)["npc"] == "accepted"
    assert outcomes(out)["item"] in {"cancelled", "failed"}
    assert (out / "npc" / "registry.json").exists()
    assert verify(out).ok


def another_shape(registry: Any) -> None:  # noqa: ANN401 - JSON, here and below
    """Have something that is no entry."""
    registry["entries"] = [{"nothing": "here"}]


def another_schema(registry: Any) -> None:  # noqa: ANN401
    """Say that it is a registry of another kind."""
    registry["schema"] = "notarius.registry.npc.v1"


def another_candidate(registry: Any) -> None:  # noqa: ANN401
    """Hold somebody who was never asked about."""
    registry["entries"][0]["source_ids"] = ["stranger"]


def nobody(registry: Any) -> None:  # noqa: ANN401
    """Hold no candidate at all."""
    registry["entries"] = []


def one_twice(registry: Any) -> None:  # noqa: ANN401
    """Hold a candidate in two entries."""
    registry["entries"][1]["source_ids"] += registry["entries"][0]["source_ids"]


def an_empty_entry(registry: Any) -> None:  # noqa: ANN401
    """Hold an entry of no candidate beside the others."""
    registry["entries"].append(registry["entries"][0] | {"source_ids": []})


@pytest.mark.parametrize(
    "forge",
    [another_shape, another_schema, another_candidate, nobody, one_twice, an_empty_entry],
)
def test_a_remembered_result_that_is_none_of_this_list_is_told_of(
    fill: Fill, out: Path, forge: Callable[[Any], None]
) -> None:
    """A row that is whole but holds not what was asked is damage like any other.

    It is found before another registry is written.
    """
    settings = RunSettings(campaign=fill(kinds=("npc", "item")), out=out)
    run_campaign(settings, backend=Backend())
    file = out / "checkpoints.sqlite"
    with closing(sqlite3.connect(file)) as connection:
        rows = connection.execute("SELECT key FROM result ORDER BY rowid").fetchall()
    with Checkpoints.open(file) as checkpoints:
        results = {key: checkpoints.get(key) for (key,) in rows}
    file.unlink()
    item = rows[-1][0]
    with Checkpoints.open(file) as checkpoints:
        for key, found in results.items():
            assert found is not None
            registry = json.loads(bytes(found.registry))
            if key == item:
                forge(registry)
            raw = msgspec.Raw(canonical_json(registry))
            checkpoints.put(key, msgspec.structs.replace(found, registry=raw))
    before = {path: path.read_bytes() for path in out.rglob("*.json")}
    for look in (
        lambda: run_campaign(settings, backend=Backend()),
        lambda: check_campaign(settings.campaign, checkpoints=file),
    ):
        with pytest.raises(InputError, match=r"checkpoints\.sqlite: a result in it is damaged; "):
            look()
    assert {path: path.read_bytes() for path in out.rglob("*.json")} == before


def another_id(record: AttemptRecord) -> AttemptRecord:
    """Name an id that was never offered."""
    issue = IssueDetails(category="any_other", group_index=0, request_ids=("c999",))
    return msgspec.structs.replace(record, issues=(issue,))


def another_number(record: AttemptRecord) -> AttemptRecord:
    """Be of an attempt before which there must have been others."""
    return msgspec.structs.replace(record, number=7)


@pytest.mark.parametrize("forge", [another_id, another_number])
def test_records_of_another_exchange_are_told_of(
    fill: Fill, out: Path, forge: Callable[[AttemptRecord], AttemptRecord]
) -> None:
    """What the receipt would say of them can't be true of what was asked."""
    settings = RunSettings(campaign=fill(kinds=("npc",)), out=out)
    run_campaign(settings, backend=Backend())
    file = out / "checkpoints.sqlite"
    with closing(sqlite3.connect(file)) as connection:
        ((key,),) = connection.execute("SELECT key FROM result").fetchall()
    with Checkpoints.open(file) as checkpoints:
        found = checkpoints.get(key)
    assert found is not None
    file.unlink()
    with Checkpoints.open(file) as checkpoints:
        records = tuple(map(forge, found.records))
        forged = msgspec.structs.replace(found, records=records, applied_attempt=None)
        checkpoints.put(key, forged)
    with pytest.raises(InputError, match=r"checkpoints\.sqlite: a result in it is damaged; "):
        run_campaign(settings, backend=Backend())


# ------------------------------------------------------------------ time


def test_a_fallback_for_want_of_time_is_asked_again(fill: Fill, out: Path) -> None:
    """It says nothing about the model; one whose retries were spent is remembered."""
    settings = RunSettings(campaign=fill(kinds=("npc",)), out=out)
    hurried = msgspec.structs.replace(settings, options=Config(deadline=0.6))
    late = Backend(lambda number: time.sleep(0.7) if number == 2 else None, REFUSED)
    summary = run_campaign(hurried, backend=late)
    assert [one.outcome for one in summary.registries] == ["fell_back"]
    assert summary.registries[0].warnings[0].code == "deadline_passed"
    again = Backend(text=REFUSED)
    run_campaign(settings, backend=again)
    assert len(again.asked) == 3
    known = Backend()
    assert run_campaign(settings, backend=known).registries[0].outcome == "fell_back"
    assert known.asked == []


SERVER = """
import json, sys, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
status, delay = int(sys.argv[1]), float(sys.argv[2])
class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        print("asked", flush=True)
        time.sleep(delay)
        content = json.dumps({"duplicate_groups": []})
        choice = {"message": {"content": content}, "finish_reason": "stop"}
        data = json.dumps({"choices": [choice]}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
    def log_message(self, *_):
        pass
server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
"""


@pytest.fixture
def serve() -> Iterator[Callable[[int, float], tuple[str, Callable[[], int]]]]:
    """Start a server that answers with a status after some seconds; its address, and how to end it.

    Ending it returns how often it was asked.
    """
    running: list[subprocess.Popen[str]] = []

    def start(status: int, delay: float) -> tuple[str, Callable[[], int]]:
        command = [sys.executable, "-c", SERVER, str(status), str(delay)]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        running.append(server)
        assert server.stdout is not None
        port = server.stdout.readline().strip()

        def end() -> int:
            server.kill()
            assert server.stdout is not None
            return server.stdout.read().count("asked")

        return f"http://127.0.0.1:{port}/v1", end

    yield start
    for server in running:
        server.kill()
        server.wait()
        assert server.stdout is not None
        server.stdout.close()


@pytest.mark.allow_hosts(["127.0.0.1"])
@pytest.mark.parametrize(
    ("status", "delay", "deadline", "most"), [(200, 0.7, 2.5, 4), (500, 0.0, None, 1)]
)
def test_an_executor_is_given_no_more_than_it_can_begin(
    fill: Fill,
    out: Path,
    monkeypatch: pytest.MonkeyPatch,
    serve: Callable[[int, float], tuple[str, Callable[[], int]]],
    status: int,
    delay: float,
    deadline: float | None,
    most: int,
) -> None:
    """One worker has not begun the rest when the time is gone, or when the server has failed."""
    pytest.importorskip("openai")
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    url, end = serve(status, delay)
    options = Config(
        model="openai:any",
        base_url=url,
        context_tokens=4096,
        transport_retries=0,
        deadline=deadline,
    )
    campaign = fill(kinds=("npc",), count=90)
    settings = RunSettings(campaign=campaign, out=out, options=options, executor="processes")
    summary = run_campaign(settings)
    assert summary.parts > most + 1
    asked = end()
    assert asked <= most
    assert asked or deadline  # on a slow machine the time may be gone before
    assert summary.registries[0].outcome != "accepted"
    assert verify(out).ok


# ------------------------------------------------------------------ a failed run beside a result


def down(_: int) -> None:
    """Be a server that refuses."""
    raise ProviderError(ProviderErrorKind.DENIED)


def test_a_failed_run_never_takes_the_place_of_a_result(
    candidate_file: Write, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the result comes while the failed run is writing its receipt."""
    given = Settings(registry="npc", candidates=candidate_file(), out=out, policy=AttemptPolicy())
    real = os.fsync
    came: list[int] = []

    def sync(descriptor: int) -> None:
        real(descriptor)
        if not came:
            came.append(1)
            reconcile(given, backend=Backend())

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", sync)
        assert reconcile(given, backend=Backend(down)).outcome == "failed"
    assert json.loads((out / "receipt.json").read_bytes())["outcome"] == "accepted"
    assert json.loads((out / "failed-receipt.json").read_bytes())["outcome"] == "failed"
    assert verify(out).ok


class CutOff:
    """Lets so many calls through, and ends the run at the next."""

    def __init__(self, calls: int) -> None:
        """Take the number of calls."""
        self._left = calls

    def around(self, real: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function in the place of a real one."""

        def call(*about: Any) -> Any:  # noqa: ANN401 - as the real one
            if not self._left:
                raise KeyboardInterrupt
            self._left -= 1
            return real(*about)

        return call


def test_a_kill_leaves_no_receipt_of_a_failure_beside_a_later_result(
    candidate_file: Write, out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever a run is cut off: where its files fit, no earlier failure looks like a later one."""
    given = Settings(registry="npc", candidates=candidate_file(), out=out)
    reconcile(given, backend=Backend())
    reconcile(given, backend=Backend(down))
    assert (out / "failed-receipt.json").exists()
    shutil.copytree(out, tmp_path / "before")
    ended = []
    for calls in range(8):
        shutil.rmtree(out)
        shutil.copytree(tmp_path / "before", out)
        cut_off = CutOff(calls)
        with monkeypatch.context() as patch:
            real_unlink = cut_off.around(Path.unlink)
            patch.setattr(Path, "replace", cut_off.around(Path.replace))
            patch.setattr(Path, "unlink", lambda path, real=real_unlink, **_: real(path))
            try:
                reconcile(given, backend=Backend(text=REFUSED))
                ended.append(True)
            except KeyboardInterrupt:
                ended.append(False)
        receipt = json.loads((out / "receipt.json").read_bytes())
        report(out)
        page = (out / "report.html").read_text()
        if verify(out).ok and receipt["outcome"] == "fell_back":
            assert "later run" not in page
        elif verify(out).ok:
            assert "later run brought no result" in page
    assert (ended[0], ended[-1]) == (False, True)
