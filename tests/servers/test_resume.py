"""Campaigns over a server: kill -9 at any moment, many processes on one checkpoint file, Dask."""

import concurrent.futures
import json
import os
import random
import re
import signal
import socketserver
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from notarius.pipeline import verify

pytestmark = [
    pytest.mark.allow_hosts(["127.0.0.1"]),
    pytest.mark.skipif(
        not hasattr(signal, "SIGKILL"), reason="needs a signal that can't be caught"
    ),
]
COMMAND = "import sys; from notarius.pipeline.cli import main; sys.exit(main())"
KILLS = int(os.environ.get("NOTARIUS_KILLS", "12"))
"""Kills in one run of the tests; 1,000 by hand."""
PARTS_CONTEXT = "8000"
PATIENCE_S = 60.0


class _Model(socketserver.ThreadingTCPServer):
    """A model behind HTTP: its answer depends on the question alone; it counts the questions."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.lock = threading.Lock()
        self.answered: Counter[str] = Counter()
        self.delay_s = 0.0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Model

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        messages = asked["messages"]
        time.sleep(self.server.delay_s)
        first = re.findall(r"^(c\d+): ", messages[1]["content"], flags=re.MULTILINE)[:2]
        # Refused at first, right when corrected, for one list in two.
        wrong = len(messages) == 2 and len(messages[1]["content"]) % 2
        ids = [first[0], "kanari"] if wrong else first
        group = {"name": "kanari", "candidate_ids": ids, "canonical_id": first[0]}
        content = json.dumps({"duplicate_groups": [group]})
        choice = {"message": {"content": content}, "finish_reason": "stop"}
        body = json.dumps({"choices": [choice]}).encode()
        try:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except OSError:
            return  # whoever asked was killed
        with self.server.lock:
            self.server.answered[json.dumps(messages)] += 1

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

    def make(name: str = "Ludo", size: int = 60) -> Path:
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


def run_arguments(model: _Model, campaign: Path, out: Path, *more: str) -> list[str]:
    """Return the command line of a run over the model."""
    return [
        *(sys.executable, "-c", COMMAND, "run", str(campaign), "--out", str(out)),
        *("--model", "openai:tiny", "--base-url", model.url),
        *("--context-tokens", PARTS_CONTEXT, "--quiet", *more),
    ]


def registries(out: Path) -> dict[str, bytes]:
    """Return the bytes of every registry and its warnings."""
    found = sorted((*out.glob("*/registry.json"), *out.glob("*/warnings.json")))
    return {f"{path.parent.name}/{path.name}": path.read_bytes() for path in found}


@pytest.mark.parametrize("at_once", ["1", "4"])
def test_a_killed_run_resumes_and_pays_for_nothing_twice(
    model: _Model, make_campaign: Callable[..., Path], tmp_path: Path, at_once: str
) -> None:
    """After kill -9 at any moment the same command ends with the bytes of an undisturbed run.

    Only exchanges that were being held when the kill came are paid for again.
    """
    campaign = make_campaign()
    undisturbed = tmp_path / "undisturbed"
    subprocess.run(run_arguments(model, campaign, undisturbed), check=True, timeout=PATIENCE_S)
    expected = registries(undisturbed)
    once = dict(model.answered)
    assert len(once) > 6
    chance = random.Random(at_once)  # noqa: S311 - when to kill is no secret
    model.delay_s = 0.01
    kills = ended = 0
    while kills < KILLS:
        out = tmp_path / f"out-{kills}"
        model.answered.clear()
        mine = 0
        while True:
            command = run_arguments(model, campaign, out, "--at-once", at_once)
            with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
                try:
                    process.wait(chance.uniform(0.5, 1.6))
                except subprocess.TimeoutExpired:
                    process.kill()
            if process.returncode == 0:
                break
            assert process.returncode == -signal.SIGKILL, process.stderr
            kills += 1
            mine += 1
        ended += 1
        assert registries(out) == expected
        assert verify(out).ok
        assert model.answered.keys() == once.keys()
        # Each kill can cost the exchanges that were in flight: a request, and its correction.
        again = sum(model.answered.values()) - len(once)
        assert again <= 2 * int(at_once) * mine
    assert ended


def test_processes_share_one_checkpoint_file(
    model: _Model, make_campaign: Callable[..., Path], tmp_path: Path
) -> None:
    """Eight at a time on one file: all end well, nothing is lost, nothing is asked twice."""
    shared = tmp_path / "shared.sqlite"
    campaigns = [make_campaign(_word(n), size=4) for n in range(16)]

    def run(campaign: Path) -> "subprocess.CompletedProcess[bytes]":
        out = tmp_path / f"out-{campaign.name}"
        command = run_arguments(model, campaign, out, "--checkpoints", str(shared))
        return subprocess.run(command, capture_output=True, timeout=PATIENCE_S, check=False)

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        first = list(pool.map(run, campaigns))
        asked = dict(model.answered)
        again = list(pool.map(run, campaigns))
    for done in (*first, *again):
        assert (done.returncode, done.stderr) == (0, b"")
    assert set(asked.values()) == {1}
    assert dict(model.answered) == asked
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
    model: _Model, make_campaign: Callable[..., Path], tmp_path: Path
) -> None:
    """Three worker processes hold the exchanges; one is killed in mid-run; nothing is missing."""
    campaign = make_campaign()
    alone = tmp_path / "alone"
    subprocess.run(run_arguments(model, campaign, alone), check=True, timeout=PATIENCE_S)
    script = tmp_path / "cluster.py"
    script.write_text(CLUSTER)
    model.answered.clear()
    model.delay_s = 0.3
    with subprocess.Popen(
        [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as cluster:
        assert cluster.stdout is not None
        address, *workers = cluster.stdout.readline().split()
        executor = address.replace("tcp://", "dask://")
        out = tmp_path / "out"
        command = run_arguments(model, campaign, out, "--executor", executor)
        with subprocess.Popen(command, stderr=subprocess.PIPE) as run:
            _until(lambda: bool(model.answered))
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
