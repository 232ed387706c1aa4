"""Campaigns over a server: kill -9 at any moment, many processes on one checkpoint file, Dask."""

import concurrent.futures
import itertools
import json
import os
import queue
import random
import re
import shutil
import signal
import socketserver
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, NamedTuple, Self

import pytest

from notarius.pipeline import verify

pytestmark = [
    pytest.mark.allow_hosts(["127.0.0.1"]),
    pytest.mark.skipif(
        not (hasattr(signal, "SIGKILL") and hasattr(os, "fork")),
        reason="needs a signal that can't be caught, and forks",
    ),
]
COMMAND = "import sys; from notarius.pipeline.cli import main; sys.exit(main())"
KILLS = int(os.environ.get("NOTARIUS_KILLS", "24"))
"""Kills in one run of the tests, half of them with several requests at a time; 1,000 by hand."""
INTERRUPTS = min(KILLS, 100)
"""Interruptions, likewise; each costs a whole run."""
CAMPAIGNS = int(os.environ.get("NOTARIUS_CAMPAIGNS", "16"))
"""Campaigns that eight processes run on one checkpoint file; 200 by hand."""
TOUCHES = ("execute", "fsync", "replace", "mkdir", "open")
"""Calls that touch a disk: a statement of SQLite's, and what the system does to files."""
PARTS_CONTEXT = "5000"
PATIENCE_S = 60.0


class _Asked(NamedTuple):
    """A request: which run made it (its key says so), in which exchange, and all of it."""

    run: str
    exchange: str
    request: str


class _Model(socketserver.ThreadingTCPServer):
    """A model behind HTTP: its answer depends on the question alone; it keeps the questions."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[_Asked] = []
        self.delay_s = 0.0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as inherited
        """Say nothing of a client that was killed."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)

    def exchanges(self, *runs: str) -> list[str]:
        """Return the exchanges that these runs asked about, each once, in order."""
        return [*dict.fromkeys(asked.exchange for asked in self.asked if asked.run in runs)]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Model

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if len(body) < int(self.headers["Content-Length"]):
            return  # whoever asked was killed
        messages = json.loads(body)["messages"]
        question = messages[1]["content"]
        run = self.headers.get("Authorization", "").removeprefix("Bearer ")
        self.server.asked.append(_Asked(run, question, json.dumps(messages)))
        time.sleep(self.server.delay_s)
        first = re.findall(r"^(c\d+): ", question, flags=re.MULTILINE)[:2]
        # Refused at first, right when corrected, for one list in two.
        wrong = len(messages) == 2 and len(question) % 2
        ids = [first[0], "kanari"] if wrong else first
        group = {"name": "kanari", "candidate_ids": ids, "canonical_id": first[0]}
        content = json.dumps({"duplicate_groups": [group]})
        choice = {"message": {"content": content}, "finish_reason": "stop"}
        answer = json.dumps({"choices": [choice]}).encode()
        try:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)
        except OSError:
            return  # whoever asked was killed

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def model() -> Iterator[_Model]:
    """A model at a free port of this machine."""
    server = _Model()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def make_campaign(tmp_path: Path) -> Callable[..., Path]:
    """Write a campaign of three registries, long enough for several parts each."""

    def make(name: str = "Ludo", size: int = 40) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        for kind in ("npc", "item", "location"):
            records = [
                {"source_id": f"{name}-{kind}-{n}", "name": f"{_word(n)} of {name}"}
                for n in range(size)
            ]
            text = "".join(json.dumps(record) + "\n" for record in records)
            (folder / f"{kind}.jsonl").write_text(text)
        return folder

    return make


def _word(number: int) -> str:
    """Return a name that no rule tells apart from another: no number, title or opposite."""
    syllables = ("ba", "de", "fi", "go", "ku", "la", "me", "ni")
    return "".join(syllables[number // 8**place % 8] for place in range(3)).title()


def options(model: _Model, campaign: Path, out: Path, *more: str) -> list[str]:
    """Return the arguments of a run over the model."""
    return [
        *("run", str(campaign), "--out", str(out)),
        *("--model", "openai:tiny", "--base-url", model.url),
        *("--context-tokens", PARTS_CONTEXT, *more),
    ]


def command(*arguments: str) -> list[str]:
    """Return the command line of a process with these arguments."""
    return [sys.executable, "-c", COMMAND, *arguments]


# Imports everything once; then each line on its standard input is a run in a process of its own.
LAUNCHER = """
import collections, json, os, signal, sys, time
from openai import AsyncOpenAI
import notarius.llmruntime.openai
from notarius.pipeline import cli
AsyncOpenAI(api_key="any").chat.completions

def watch(touches, strike, blow):
    seen = collections.Counter()
    def look(frame, event, function):
        if event not in ("c_call", "c_return") or function.__name__ not in touches:
            return
        if type(function.__self__).__module__ != "sqlite3" and function.__module__ != "posix":
            return
        seen[function.__name__] += 1
        if [function.__name__, seen[function.__name__]] == strike:
            os.kill(os.getpid(), blow)
    sys.setprofile(look)
    return seen

def run(said, key, arguments, touches, strike, blow):
    descriptor = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.environ["OPENAI_API_KEY"] = key
    seen = watch(touches, strike, blow)
    status = cli.main(arguments)
    sys.setprofile(None)
    sys.stdout.write(json.dumps(seen) if touches else "")
    sys.stdout.flush()
    return status

for line in sys.stdin:
    order = json.loads(line)
    seconds = order.pop("seconds")
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        status = 99
        try:
            status = run(**order)
        finally:
            os._exit(status)
    ended = 0
    while not ended and time.monotonic() - began < seconds:
        ended, status = os.waitpid(child, os.WNOHANG)
        time.sleep(0.001)
    if not ended:
        os.kill(child, order["blow"])
        _, status = os.waitpid(child, 0)
    print(json.dumps([os.waitstatus_to_exitcode(status), time.monotonic() - began]), flush=True)
"""


class _Ended(NamedTuple):
    """How a process ended, after how many seconds, and what it said."""

    status: int
    seconds: float
    said: str


class _Launcher:
    """Starts runs in processes of their own, one at a time; the imports are made only once."""

    def __init__(self, folder: Path) -> None:
        """Start the process whose children the runs are."""
        self._said = folder / "said"
        self._process = subprocess.Popen(
            [sys.executable, "-c", LAUNCHER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the process."""
        self._process.communicate(timeout=PATIENCE_S)

    def __call__(
        self,
        arguments: list[str],
        *,
        key: str = "key",
        seconds: float = PATIENCE_S,
        touches: tuple[str, ...] = (),
        strike: tuple[str, int] | None = None,
        blow: int = signal.SIGKILL,
    ) -> _Ended:
        """Run the command, and send it a signal, the `blow`, after so many seconds.

        `strike` is the call of `touches` at which it comes, by name and number: odd numbers are
        just before a call, even ones after. If it ends, it says how many there were.
        """
        order = {
            "said": str(self._said),
            "key": key,
            "arguments": arguments,
            "seconds": seconds,
            "touches": touches,
            "strike": strike,
            "blow": blow,
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        self._process.stdin.flush()
        status, took = json.loads(self._process.stdout.readline())
        return _Ended(status, took, self._said.read_text() if self._said.exists() else "")


@pytest.fixture(scope="module")
def launch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Launcher]:
    """Start runs, one at a time."""
    with _Launcher(tmp_path_factory.mktemp("launcher")) as launcher:
        yield launcher


def registries(out: Path) -> dict[str, bytes]:
    """Return the bytes of every registry and its warnings."""
    found = sorted((*out.glob("*/registry.json"), *out.glob("*/warnings.json")))
    return {f"{path.parent.name}/{path.name}": path.read_bytes() for path in found}


def require_whole(out: Path) -> None:
    """Require that what has the name of an output file is one, to its last byte."""
    for path in out.rglob("*.json"):
        if not path.parent.name.startswith("."):
            assert path.read_bytes().endswith(b"}\n")
            assert json.loads(path.read_bytes())


def remembered(out: Path, scratch: Path) -> int:
    """Count the results in the checkpoints; a copy is read, since a look would mend the file."""
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    for file in out.glob("checkpoints.sqlite*"):
        shutil.copy(file, scratch)
    with closing(sqlite3.connect(scratch / "checkpoints.sqlite")) as connection:
        if not connection.execute("SELECT name FROM sqlite_master").fetchall():
            return 0
        ((number,),) = connection.execute("SELECT count(*) FROM result").fetchall()
        return int(number)


def moments(whole: _Ended) -> Iterator[dict[str, Any]]:
    """Say without end when to kill: at some time, or at some touch of a disk, each kind in turn."""
    chance = random.Random(len(whole.said))  # noqa: S311 - when to kill is no secret
    seen = json.loads(whole.said)
    for kind in itertools.cycle(("", *TOUCHES)):
        yield {"seconds": chance.uniform(0.0, whole.seconds)}
        if kind:
            yield {"touches": TOUCHES, "strike": (kind, chance.randint(1, seen[kind]))}


@pytest.mark.parametrize("at_once", ["1", "4"])
def test_a_killed_run_resumes_and_pays_for_nothing_twice(
    model: _Model,
    make_campaign: Callable[..., Path],
    launch: _Launcher,
    tmp_path: Path,
    at_once: str,
) -> None:
    """After kill -9 at any moment the same command ends with the bytes of an undisturbed run.

    Only exchanges that were being held when the kill came are held again; what is on disk is not.
    """
    campaign = make_campaign()
    quiet = ("--at-once", at_once, "--quiet")
    model.delay_s = 0.003
    undisturbed = tmp_path / "undisturbed"
    whole = launch(options(model, campaign, undisturbed, *quiet), key="whole", touches=TOUCHES)
    assert whole.status == 0, whole.said
    expected = registries(undisturbed)
    requests = {asked.request for asked in model.asked}
    exchanges = set(model.exchanges("whole"))
    assert 3 < len(exchanges) < len(requests) == len(model.asked)
    when = moments(whole)
    kills = ended = 0
    while kills < KILLS // 2:
        out = tmp_path / f"out-{ended}"
        runs: list[str] = []
        known: list[int] = []
        while True:
            runs.append(f"{ended}-{len(runs)}")
            arguments = options(model, campaign, out, *quiet)
            got = launch(arguments, key=runs[-1], **next(when))
            if got.status == 0:
                break
            # What it says of its touches is the last thing before its end, which may be cut short.
            assert (got.status, got.said[:1].strip("{")) == (-signal.SIGKILL, "")
            require_whole(out)
            known.append(remembered(out, tmp_path / "scratch"))
        kills += len(known)
        ended += 1
        assert registries(out) == expected
        assert verify(out).ok
        asked = Counter((one.run, one.request) for one in model.asked if one.run in runs)
        assert {request for _, request in asked} == requests
        assert set(asked.values()) == {1}
        for number, results in enumerate(known):
            before, later = model.exchanges(runs[number]), model.exchanges(*runs[number + 1 :])
            assert len(later) == len(exchanges) - results
            again = [exchange for exchange in before if exchange in later]
            assert len(again) <= int(at_once)
            if at_once == "1":
                assert again == before[len(before) - len(again) :]
        shutil.rmtree(out)


@pytest.mark.parametrize("at_once", ["1", "4", "99"])
def test_an_interrupted_run_says_how_to_go_on_and_does(
    model: _Model,
    make_campaign: Callable[..., Path],
    launch: _Launcher,
    tmp_path: Path,
    at_once: str,
) -> None:
    """Ctrl-C in mid-run: status 130, whole files, one line; the same command then ends the same."""
    campaign = make_campaign()
    undisturbed = tmp_path / "undisturbed"
    more = ("--at-once", at_once, "--format", "json")
    assert launch(options(model, campaign, undisturbed, *more), key="whole").status == 0
    exchanges = model.exchanges("whole")
    out = tmp_path / "out"
    arguments = options(model, campaign, out, *more)
    model.delay_s = 0.2
    environment = {**os.environ, "OPENAI_API_KEY": "stopped"}
    with subprocess.Popen(
        command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    ) as process:
        begun = min(int(at_once) + 2, len(exchanges))
        _until(lambda: len(model.exchanges("stopped")) >= begun)
        process.send_signal(signal.SIGINT)
        told, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert said.count(b"\n") == 1
    assert b"is whole" in said
    assert b"run the same command to go on" in said
    assert json.loads(told) == {"outcome": "cancelled", "failure": None}
    assert verify(out).ok
    require_whole(out)
    assert not list(out.rglob(".*"))
    known = remembered(out, tmp_path / "scratch")
    assert (known > 0) is (begun < len(exchanges))
    assert known < len(exchanges)
    assert launch(arguments, key="resumed").status == 0
    assert len(model.exchanges("resumed")) == len(exchanges) - known
    assert registries(out) == registries(undisturbed)
    assert verify(out).ok


@pytest.mark.parametrize("at_once", ["1", "4"])
def test_ctrl_c_may_come_at_any_moment(
    model: _Model,
    make_campaign: Callable[..., Path],
    launch: _Launcher,
    tmp_path: Path,
    at_once: str,
) -> None:
    """Also between two writes: one line, no traceback, whole files, and a manifest that fits."""
    campaign = make_campaign()
    quiet = ("--at-once", at_once, "--quiet")
    model.delay_s = 0.003
    undisturbed = tmp_path / "undisturbed"
    whole = launch(options(model, campaign, undisturbed, *quiet), touches=TOUCHES)
    expected = registries(undisturbed)
    when = moments(whole)
    for number in range(INTERRUPTS // 2):
        out = tmp_path / f"out-{number}"
        arguments = options(model, campaign, out, *quiet)
        got = launch(arguments, blow=signal.SIGINT, **next(when))
        # A finalizer of a library may be what it hits, at the very end; Python says so by itself.
        said = re.sub(r"(?s)Exception ignored in:.*?\nKeyboardInterrupt: ?\n", "", got.said)
        # It is told, but for a moment before anything was begun, or when all was done.
        if out.exists() and registries(out) != expected:
            assert (got.status, said.count("\n")) == (130, 1)
        assert said == "" or "run the same command to go on" in said
        require_whole(out)
        # Before anything is asked nothing is written; after that the set is complete.
        assert verify(out).ok if list(out.glob("*/*.json")) else not list(out.glob("*.json"))
        assert launch(arguments).status == 0
        assert registries(out) == expected
        shutil.rmtree(out)


def test_processes_share_one_checkpoint_file(
    model: _Model, make_campaign: Callable[..., Path], tmp_path: Path
) -> None:
    """Eight at a time on one file: all end well, nothing is lost, nothing is asked twice."""
    shared = tmp_path / "shared.sqlite"
    campaigns = [make_campaign(_word(n), size=4) for n in range(CAMPAIGNS)]
    free: queue.SimpleQueue[_Launcher] = queue.SimpleQueue()

    def run(campaign: Path) -> _Ended:
        out = tmp_path / f"out-{campaign.name}"
        launcher = free.get()
        try:
            more = ("--checkpoints", str(shared), "--quiet")
            return launcher(options(model, campaign, out, *more))
        finally:
            free.put(launcher)

    with concurrent.futures.ThreadPoolExecutor(8) as pool, ExitStack() as launchers:
        for number in range(8):
            folder = tmp_path / f"launcher-{number}"
            folder.mkdir()
            free.put(launchers.enter_context(_Launcher(folder)))
        first = list(pool.map(run, campaigns))
        asked = Counter(one.request for one in model.asked)
        again = list(pool.map(run, campaigns))
    for done in (*first, *again):
        assert (done.status, done.said) == (0, "")
    assert set(asked.values()) == {1}
    assert len({one.exchange for one in model.asked}) == 3 * CAMPAIGNS
    assert len(model.asked) == len(asked)
    for campaign in campaigns:
        assert len(registries(tmp_path / f"out-{campaign.name}")) == 6


CLUSTER = """
import sys
from distributed import LocalCluster
if __name__ == "__main__":
    with LocalCluster(
        n_workers=3, threads_per_worker=1, processes=True, dashboard_address=None,
        host="127.0.0.1", protocol="tcp", silence_logs=50,
    ) as cluster:
        pids = [worker.process.process.pid for worker in cluster.workers.values()]
        print(cluster.scheduler_address, *pids, flush=True)
        sys.stdin.read()
"""


def test_a_cluster_writes_the_same_bytes_though_a_worker_is_killed(
    model: _Model, make_campaign: Callable[..., Path], launch: _Launcher, tmp_path: Path
) -> None:
    """Three worker processes hold the exchanges; one is killed in mid-run; nothing is missing."""
    campaign = make_campaign()
    alone = tmp_path / "alone"
    assert launch(options(model, campaign, alone)).status == 0
    script = tmp_path / "cluster.py"
    script.write_text(CLUSTER)
    model.asked.clear()
    model.delay_s = 0.3
    with subprocess.Popen(
        [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as cluster:
        assert cluster.stdout is not None
        address, *workers = cluster.stdout.readline().split()
        executor = address.replace("tcp://", "dask://")
        out = tmp_path / "out"
        arguments = options(model, campaign, out, "--executor", executor, "--quiet")
        with subprocess.Popen(command(*arguments), stderr=subprocess.PIPE) as run:
            _until(lambda: bool(model.asked))
            os.kill(int(workers[0]), signal.SIGKILL)
            _, said = run.communicate(timeout=PATIENCE_S)
        cluster.communicate("", timeout=PATIENCE_S)
    assert (run.returncode, said) == (0, b"")
    assert registries(out) == registries(alone)
    assert verify(out).ok


def _until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)
