"""The world lets a run down: no room, no folder, no descriptor, a signal, a clock that jumps.

Whatever happens, an earlier result stays whole, what is wrong is said, and the status is the right
one.
"""

import contextlib
import itertools
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from notarius.attempts import AttemptMachine, AttemptPolicy, run
from notarius.attempts.testing import ScriptedProducer
from notarius.contracts import Accepted, Cancelled, Failed, FellBack, FinishReason, Reply
from notarius.pipeline import (
    Config,
    InputError,
    RunSettings,
    Settings,
    SimilarityBackend,
    reconcile,
    run_campaign,
    verify,
)
from notarius.registries import NpcCandidate, NpcNormalizer, RegistryNormalizer

Run: TypeAlias = Callable[..., SimpleNamespace]
HARD = settings.get_profile("hardness")
REFUSED = '{"duplicate_groups": [{"candidate_ids": ["c1", "c9"], "canonical_id": "c1"}]}'
POSIX = pytest.mark.skipif(os.name != "posix", reason="needs what POSIX has")
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="needs what Linux has")


def write_list(path: Path, count: int, size: int = 10) -> Path:
    """Write so many candidates, each with so many bytes of evidence."""
    path.parent.mkdir(parents=True, exist_ok=True)
    records = [
        {"source_id": f"s{number}", "name": f"Name {number}", "evidence": ["e" * size]}
        for number in range(count)
    ]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def contents(folder: Path) -> dict[str, bytes]:
    """Return the JSON files below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.json")}


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A short candidate file."""
    return write_list(tmp_path / "small" / "npc.jsonl", 3)


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """Another one, whose result takes half a megabyte."""
    return write_list(tmp_path / "large" / "npc.jsonl", 50, 10_000)


@contextlib.contextmanager
def mounted(place: Path, options: str) -> Iterator[Path]:
    """Mount a file system of its own in memory; skip the test where that is not allowed."""
    place.mkdir(exist_ok=True)
    mount, unmount = shutil.which("mount"), shutil.which("umount")
    if mount is None or unmount is None:
        pytest.skip("NOT RUN: no mount command, so no full disk to be had")
    command = [mount, "-t", "tmpfs", "-o", options, "tmpfs", str(place)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("NOT RUN: mounting is not allowed here, so no full disk to be had")
    try:
        yield place
    finally:
        subprocess.run([unmount, str(place)], check=True)


def remount(place: Path, options: str) -> None:
    """Change the options of a mounted file system."""
    mount = shutil.which("mount")
    assert mount is not None
    subprocess.run([mount, "-o", f"remount,{options}", str(place)], check=True)


def require_unharmed(out: Path, before: dict[str, bytes]) -> None:
    """All files are as they were, fit each other, and nothing was left beside them."""
    assert contents(out) == before
    found = verify(out)
    assert (found.problems, found.leftovers) == ((), ())


def told_of_a_full_disk(
    command: Run, disk: Path, *, first: list[str | Path], second: list[str | Path], room: str
) -> str:
    """Have the second of two commands fill a disk; return what it said, after trying with room."""
    out = disk / "out"
    assert command(*first, "--out", out).status == 0
    before = contents(out)
    got = command(*second, "--out", out)
    assert got.status == 2
    assert "Traceback" not in got.err
    require_unharmed(out, before)
    # With the same command all is well as soon as there is room.
    remount(disk, room)
    assert command(*second, "--out", out).status == 0
    assert verify(out).ok
    return str(got.err)


@LINUX
def test_a_full_disk_leaves_the_earlier_result(
    command: Run, small: Path, large: Path, tmp_path: Path
) -> None:
    """What does not fit any more is told as such, and nothing of it is left in the way."""
    reconcile: list[str | Path] = ["reconcile", "--registry", "npc"]
    with mounted(tmp_path / "disk", "size=128k") as disk:
        first, second = [*reconcile, small], [*reconcile, large]
        said = told_of_a_full_disk(command, disk, first=first, second=second, room="size=8m")
    assert "No space left on device" in said


@LINUX
def test_a_full_disk_ends_a_campaign_in_words(
    command: Run, small: Path, large: Path, tmp_path: Path
) -> None:
    """Checkpoints and results alike: the message says what to do, and what was there stays."""
    with mounted(tmp_path / "disk", "size=256k") as disk:
        first: list[str | Path] = ["run", small.parent]
        second: list[str | Path] = ["run", large.parent]
        said = told_of_a_full_disk(command, disk, first=first, second=second, room="size=16m")
    assert "make room" in said or "No space left on device" in said


@LINUX
def test_a_folder_that_became_read_only_is_told_before_a_model_is_asked(
    command: Run, small: Path, large: Path, tmp_path: Path
) -> None:
    """Nobody is asked for what can't be kept, and what was there stays."""
    with mounted(tmp_path / "disk", "size=8m") as disk:
        out = disk / "out"
        assert command("run", small.parent, "--out", out).status == 0
        before = contents(out)
        remount(disk, "ro")
        for options in (["run", large.parent], ["reconcile", "--registry", "npc", large]):
            got = command(*options, "--out", out)
            assert (got.status, got.out) == (2, "")
            assert "Read-only file system" in got.err
            assert "attempt" not in got.err
        assert verify(out).ok
        # What only reads works as ever.
        assert command("diff", out, out).status == 0
        require_unharmed(out, before)


LIMITED = """
import resource, signal, sys
from notarius.pipeline.cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))
sys.exit(main())
"""


@POSIX
def test_a_file_that_may_not_grow_leaves_the_earlier_result(
    command: Run, small: Path, large: Path, tmp_path: Path
) -> None:
    """A limit on the size of files is as good as a full disk, and needs no right to mount."""
    out = tmp_path / "out"
    assert command("run", small.parent, "--out", out).status == 0
    before = contents(out)
    for options in (["run", large.parent], ["reconcile", "--registry", "npc", large]):
        place = out if options[0] == "run" else out / "npc"
        got = command(*options, "--out", place, program=LIMITED)
        assert got.status == 2, got.err
        assert str(out) in got.err
        assert "Traceback" not in got.err
        require_unharmed(out, before)


class Meanwhile:
    """A backend that lets something happen while it is asked; its own factory."""

    def __init__(self, happens: Callable[[], object], text: str = REFUSED) -> None:
        """Take what happens, and what to answer."""
        self._happens = happens
        self._text = text
        self.calls = 0

    def __call__(self, *_: object) -> "Meanwhile":
        """Return itself."""
        return self

    def complete(self, call: object, *, cancellation: object) -> Reply:
        """Let it happen, and answer."""
        self.calls += 1
        self._happens()
        return Reply(text=self._text, finish_reason=FinishReason.STOP)


@pytest.mark.parametrize("happens", ["vanishes", "becomes a file", "is another's"])
def test_a_folder_that_changes_while_a_model_is_asked(
    small: Path, tmp_path: Path, happens: str
) -> None:
    """What was paid for is written where it can be, and else said not to be."""
    out = tmp_path / "out"

    def change() -> None:
        shutil.rmtree(out, ignore_errors=True)
        if happens == "becomes a file" and not out.exists():
            out.write_text("mine")
        elif happens == "is another's":
            (out / "registry.json").mkdir(parents=True, exist_ok=True)
            (out / "registry.json" / "mine").write_text("mine")

    backend = Meanwhile(change)
    given = Settings(registry="npc", candidates=small, out=out)
    if happens == "vanishes":
        assert reconcile(given, backend=backend).outcome == "fell_back"
        assert verify(out).ok
    else:
        with pytest.raises(InputError) as caught:
            reconcile(given, backend=backend)
        assert str(caught.value).startswith(f"{out}: ")
        kept = out if happens == "becomes a file" else out / "registry.json" / "mine"
        assert kept.read_text() == "mine"
        assert not [*tmp_path.rglob(".notarius-staging-*")]
    assert backend.calls == 3


@pytest.mark.parametrize("lost", ["out", "checkpoints"])
def test_a_campaign_whose_folder_vanishes_meanwhile_says_so_or_goes_on(
    small: Path, tmp_path: Path, lost: str
) -> None:
    """The result is there in the end, or an error that names the place; another run mends it."""
    given = RunSettings(
        campaign=small.parent, out=tmp_path / "out", checkpoints=tmp_path / "kept" / "checkpoints"
    )
    folder = given.out if lost == "out" else given.checkpoint_file.parent
    try:
        summary = run_campaign(given, backend=Meanwhile(lambda: shutil.rmtree(folder, True)))
    except InputError as error:
        assert str(folder) in str(error)  # noqa: PT017 - one of two good ends
    else:
        assert summary.registries[0].outcome == "fell_back"
        assert verify(given.out).ok
    assert run_campaign(given, backend=Meanwhile(lambda: None)).registries[0].entries == 3
    assert verify(given.out).ok


@pytest.mark.parametrize("years", [-50, 50])
def test_a_clock_that_jumps_changes_nothing(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, years: int
) -> None:
    """The time of day decides nothing: neither a deadline nor what is remembered."""
    real = time.time
    jumped = itertools.count()

    def jumps() -> float:
        return real() + next(jumped) % 2 * years * 365 * 86_400

    monkeypatch.setattr(time, "time", jumps)
    given = RunSettings(campaign=small.parent, out=tmp_path / "out", options=Config(deadline=60.0))
    first = run_campaign(given)
    second = run_campaign(given)
    assert [one.registries[0].outcome for one in (first, second)] == ["accepted"] * 2
    assert (first.remembered, second.remembered) == (0, 1)
    assert verify(given.out).ok


class Jumping:
    """A clock that shows these times, and stays at the last."""

    def __init__(self, times: list[float]) -> None:
        """Take the times."""
        self._times = times

    def monotonic(self) -> float:
        """Return the next one."""
        return self._times.pop(0) if len(self._times) > 1 else self._times[0]


@HARD
@given(
    times=st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=12),
    deadline=st.none() | st.floats(0.001, 1e9),
)
def test_any_clock_ends_in_an_outcome(times: list[float], deadline: float | None) -> None:
    """Even a clock that goes back, as no one should, breaks no exchange and no record."""
    people = [NpcCandidate(source_id=f"s{n}", name=f"Name {n}") for n in range(3)]
    normalizer = NpcNormalizer(people)
    machine: AttemptMachine[Any] = AttemptMachine(
        normalizer.request.prompt, AttemptPolicy(normalize_retries=2, deadline_s=deadline)
    )
    outcome = run(
        machine,
        ScriptedProducer([REFUSED] * 3),
        normalizer,
        contract=normalizer.contract,
        clock=Jumping(times),
    )
    assert isinstance(outcome, Accepted | FellBack | Failed | Cancelled)
    assert all(record.duration_ms >= 0 for record in outcome.records)
    if deadline is None:
        assert len(outcome.records) == 3


# Forks a child for each place of a write in which a signal may come; prints how each one ended, and
# whether what it left fits.
SIGNALLED = """
import json, os, signal, sys
from pathlib import Path
from notarius.pipeline import _files, verify
from notarius.pipeline.cli import main
number, out, small, large = int(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:]
signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever the tests were started by
arguments = ["reconcile", "--registry", "npc", "--out", str(out), "--quiet"]
assert main([*arguments, small]) == 0
old = (out / "registry.json").read_bytes()
real = {"fsync": os.fsync, "open": os.open, "replace": Path.replace, "mkdir": Path.mkdir}

def child(at):
    calls = iter(range(10**6))
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    def hit(work):
        def worked(*given, **named):
            if next(calls) == at:
                os.kill(os.getpid(), number)
            return work(*given, **named)
        return worked
    os.fsync, os.open = hit(real["fsync"]), hit(real["open"])
    Path.replace, Path.mkdir = hit(real["replace"]), hit(real["mkdir"])
    status = main([*arguments, large])
    os._exit(status if next(calls) > at else 77)

for at in range(200):
    pid = os.fork()
    if pid == 0:
        child(at)
    ended = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    found = verify(out)
    new = (out / "registry.json").read_bytes() != old
    print(json.dumps({"at": at, "status": ended, "ok": found.ok, "new": new}))
    if ended in {77, 1}:
        break
    assert main([*arguments, small]) == 0
"""


@POSIX
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_between_any_two_steps_of_a_write_leaves_one_whole_set(
    command: Run, small: Path, large: Path, tmp_path: Path, number: signal.Signals
) -> None:
    """The folder holds the old result or the new one, never a mixture, and the status tells."""
    got = command(int(number), tmp_path / "out", small, large, program=SIGNALLED)
    assert got.status == 0, got.err
    *hit, last = [json.loads(line) for line in got.out.splitlines() if line.startswith("{")]
    assert len(hit) > 8
    assert last["status"] == 77  # all places were tried
    allowed = {130} if number is signal.SIGINT else {-signal.SIGTERM}
    assert {one["status"] for one in hit} == allowed
    assert [one for one in hit if not one["ok"]] == []
    # Some came before the new result was in place, and some after.
    assert {one["new"] for one in hit} == {False, True}


# Takes away all descriptors but a few, after everything is imported.
POOR = """
import json, os, resource, sys
from pathlib import Path
from notarius.pipeline import verify
from notarius.pipeline.cli import main
*arguments, out = sys.argv[1:]
assert main([*arguments, "--out", out + "-first"]) == 0  # imports all that comes late
arguments += ["--out", out]
for spare in range(0, 16):
    pid = os.fork()
    if pid == 0:
        low = os.open(os.devnull, os.O_RDONLY)
        os.close(low)
        resource.setrlimit(resource.RLIMIT_NOFILE, (low + spare, low + spare))
        os._exit(main(arguments))
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    print(json.dumps({"spare": spare, "status": status, "ok": verify(Path(out)).ok}), flush=True)
"""


@POSIX
@pytest.mark.parametrize("name", ["reconcile", "run"])
def test_without_descriptors_nothing_is_lost(
    command: Run, small: Path, large: Path, tmp_path: Path, name: str
) -> None:
    """With too few descriptors a run ends in words, and the earlier result is whole."""
    out = tmp_path / "out"
    given = ["run", small.parent] if name == "run" else ["reconcile", "--registry", "npc", small]
    assert command(*given, "--out", out).status == 0
    given[-1] = large.parent if name == "run" else large
    got = command(*given, "--quiet", out, program=POOR)
    assert got.status == 0, got.err
    ends = [json.loads(line) for line in got.out.splitlines() if line.startswith('{"spare"')]
    assert len(ends) == 16
    assert {end["status"] for end in ends} == {0, 2}
    assert ends[-1]["status"] == 0
    assert all(end["ok"] for end in ends)
    assert "Traceback" not in got.err


@pytest.mark.allow_hosts(["127.0.0.1"])
def test_a_server_that_hangs_for_ever_ends_with_the_deadline(
    command: Run, serve: Callable[..., SimpleNamespace], small: Path, tmp_path: Path
) -> None:
    """Status 4, and the earlier result is there beside what the failed run says of itself."""
    out = tmp_path / "out"
    write_list(small.parent / "item.jsonl", 3)
    assert command("run", small.parent, "--out", out).status == 0
    before = contents(out)
    server = serve(lambda _head, _body: time.sleep(30) or b"")  # type: ignore[func-returns-value]  # it waits
    began = time.monotonic()
    got = command(
        *("run", small.parent, "--out", out, "--model", "openai:tiny", "--deadline", "0.5"),
        *("--base-url", f"http://{server.host}/v1", "--at-once", "2"),
    )
    assert time.monotonic() - began < 25
    assert got.status == 4
    assert len(server.asked) == 2
    after = contents(out)
    kept = {name: data for name, data in before.items() if "registry" in name}
    assert kept.items() <= after.items()
    assert verify(out).ok


# Starts the command anew with some of its standard streams closed, as a service's may be.
CLOSED = """
import os, sys
for number in map(int, sys.argv.pop(1)):
    os.close(number)
program = "import sys; from notarius.pipeline.cli import main; sys.exit(main())"
os.execv(sys.executable, [sys.executable, "-c", program, *sys.argv[1:]])
"""


@POSIX
@pytest.mark.parametrize("closed", ["0", "1", "2", "012"])
def test_closed_standard_streams_change_no_status(
    command: Run, small: Path, tmp_path: Path, closed: str
) -> None:
    """Where nobody can be told anything, the work is done all the same, and the status tells."""
    given = [closed, "reconcile", "--registry", "npc"]
    out = tmp_path / "out"
    assert command(*given, small, "--out", out, program=CLOSED).status == 0
    assert verify(out).ok
    assert command(*given, tmp_path / "none.jsonl", "--out", out, program=CLOSED).status == 2


NONSENSE: dict[str, Any] = {
    "raises": ZeroDivisionError("x"),
    "an interrupted system call": InterruptedError(4, "x"),
    "no memory": MemoryError(),
    "recursion": RecursionError("x"),
    "nothing": None,
    "a text": "accepted",
    "a class": Accepted,
}


@pytest.mark.parametrize("who", ["backend", "normalizer"])
@pytest.mark.parametrize("what", NONSENSE)
def test_nonsense_from_a_part_leaves_the_earlier_result(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, who: str, what: str
) -> None:
    """Whatever a backend or a normalizer does comes out, with a receipt beside the old result."""
    out = tmp_path / "out"
    given = Settings(registry="npc", candidates=small, out=out)
    reconcile(given)
    before = contents(out)

    def broken(*_: object, **__: object) -> Any:  # noqa: ANN401 - nonsense
        if isinstance(NONSENSE[what], BaseException):
            raise NONSENSE[what]
        return NONSENSE[what]

    # It judges probes of its own for its fingerprint, which is no attempt.
    monkeypatch.setattr("notarius.pipeline._exchange.registry_fingerprint", lambda _: "sha256:0")
    target: type = SimilarityBackend if who == "backend" else RegistryNormalizer
    monkeypatch.setattr(target, "complete" if who == "backend" else "normalize", broken)
    with pytest.raises(Exception) as caught:  # noqa: PT011 - any that comes out
        reconcile(given)
    if isinstance(NONSENSE[what], BaseException):
        assert caught.value is NONSENSE[what]
    after = contents(out)
    receipt = json.loads(after.pop("failed-receipt.json"))
    assert (receipt["outcome"], len(receipt["attempts"])) == ("failed", 1)
    require_unharmed_beside(out, before, after)


def require_unharmed_beside(out: Path, before: dict[str, bytes], after: dict[str, bytes]) -> None:
    """The earlier files are as they were, whatever lies beside them."""
    assert after == before
    assert verify(out).ok
    assert all(stat.S_ISREG(path.stat().st_mode) for path in out.iterdir())
