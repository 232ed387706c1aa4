"""Several runs, and files of the user, in one output folder."""

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from notarius.pipeline import Settings, reconcile

Run = Callable[..., SimpleNamespace]
Write = Callable[..., Path]
COMMAND = (
    "import sys; from notarius.pipeline.cli import main\n"
    "for _ in range(6):\n"
    "    status = main(sys.argv[1:])\n"
    "    assert status == 0, status\n"
)


def require_one_set(out: Path) -> None:
    """Each file is the one that the manifest tells of."""
    manifest = json.loads((out / "manifest.json").read_bytes())
    for entry in manifest["files"]:
        data = (out / entry["name"]).read_bytes()
        assert hashlib.sha256(data).hexdigest() == entry["sha256"], entry["name"]


def test_runs_that_share_a_folder_leave_one_whole_set(candidate_file: Write, out: Path) -> None:
    """Whoever comes last, its files are together, and no run is disturbed by another."""
    command = [sys.executable, "-c", COMMAND, "reconcile", "--registry", "npc"]
    command += [str(candidate_file()), "--out", str(out), "--quiet"]
    running = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    for run in running:
        _, err = run.communicate(timeout=60)
        assert (run.returncode, err) == (0, "")
    require_one_set(out)
    assert not list(out.glob(".notarius-*"))


def test_what_is_not_ours_is_left_alone(candidate_file: Write, out: Path, notarius: Run) -> None:
    """Hidden folders and broken links of the user stay, also those that look a little like ours."""
    mine = out / ".notarius-mine"
    mine.mkdir(parents=True)
    (mine / "notes.txt").write_text("keep", encoding="utf-8")
    (out / ".notarius-staging-link").symlink_to("nowhere")
    assert notarius(candidate_file(), out).status == 0
    assert (mine / "notes.txt").read_text(encoding="utf-8") == "keep"
    require_one_set(out)


@pytest.mark.parametrize("name", ["registry.json", "manifest.json", "failed-receipt.json"])
def test_the_input_is_never_overwritten(
    tmp_path: Path, candidate_file: Write, notarius: Run, name: str
) -> None:
    """A candidate file in the place of an output file is refused before anything happens."""
    source = candidate_file()
    content = source.read_bytes()
    place = tmp_path / "here"
    place.mkdir()
    (place / name).hardlink_to(source)
    got = notarius(place / name, place)
    assert got.status == 2
    assert source.read_bytes() == content
    assert [path.name for path in place.iterdir()] == [name]


def test_a_reader_that_has_gone_changes_no_status(candidate_file: Write, out: Path) -> None:
    """The work is done, whether somebody reads the summary or not."""
    once = "import sys; from notarius.pipeline.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", once, "reconcile", "--registry", "npc"]
    command += [str(candidate_file()), "--out", str(out)]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    require_one_set(out)


def test_an_undeclared_fault_leaves_a_receipt(
    candidate_file: Write, out: Path, scripted: Callable[..., Any]
) -> None:
    """What was asked and paid for is on paper, whatever a backend raises."""
    model = scripted(["no json", ConnectionError("gone")])
    settings = Settings(registry="npc", candidates=candidate_file(), out=out, repair_retries=0)
    with pytest.raises(ConnectionError):
        reconcile(settings, backend=model)
    receipt = json.loads((out / "receipt.json").read_bytes())
    assert (receipt["outcome"], receipt["failure"]["kind"]) == ("failed", "broken")
    assert [attempt["result"] for attempt in receipt["attempts"]] == ["structural", "broken"]
