import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

pty = pytest.importorskip("pty", reason="needs a pseudo-terminal")

Run = Callable[..., SimpleNamespace]
Write = Callable[..., Path]
COMMAND = "import sys; from notarius.pipeline.cli import main; sys.exit(main())"


def on_a_terminal(*arguments: str) -> tuple[int, bytes, bytes]:
    """Run the command with a terminal as stderr; return status, stdout and what was shown."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm"}
    with subprocess.Popen(
        [sys.executable, "-c", COMMAND, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=theirs,
        env=environment,
    ) as process:
        os.close(theirs)
        shown = b"".join(_chunks(ours))
        said, _ = process.communicate(timeout=30)
    os.close(ours)
    return process.returncode, said, shown


def _chunks(descriptor: int) -> Iterator[bytes]:
    while True:
        try:
            chunk = os.read(descriptor, 4096)
        except OSError:  # what Linux says when the other end is closed
            return
        if not chunk:
            return
        yield chunk


def test_progress_is_shown_on_a_terminal(candidate_file: Write, out: Path) -> None:
    """On a terminal standard error shows which attempt is made; the summary is on stdout."""
    arguments = ["reconcile", "--registry", "npc", str(candidate_file()), "--out", str(out)]
    status, said, shown = on_a_terminal(*arguments)
    assert status == 0
    assert b"attempt 1" in shown
    assert said.count(b"\n") == 2
    assert b"\x1b" not in said


def test_quiet_shows_no_progress_on_a_terminal(candidate_file: Write, out: Path) -> None:
    """With --quiet a terminal stays as it is."""
    arguments = ["reconcile", "--registry", "npc", str(candidate_file()), "--out", str(out)]
    assert on_a_terminal(*arguments, "--quiet") == (0, b"", b"")


@pytest.mark.parametrize("name", ["FORCE_COLOR", "TTY_COMPATIBLE", "CLICOLOR_FORCE"])
def test_no_progress_goes_to_a_file(
    notarius: Run, candidate_file: Write, out: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Where standard error is no terminal nothing is shown, whatever asks for colours."""
    monkeypatch.setenv(name, "1")
    got = notarius(candidate_file(), out)
    assert (got.status, got.err) == (0, "")
    assert "\x1b" not in got.out


def test_a_file_name_can_not_write_to_the_terminal(tmp_path: Path, out: Path) -> None:
    """Markup and escape sequences in a file's name are shown, not obeyed."""
    source = tmp_path / "[red]in\x1b]0;title\x07.jsonl"
    arguments = ["reconcile", "--registry", "npc", str(source), "--out", str(out)]
    status, _, shown = on_a_terminal(*arguments)
    assert status == 2
    assert shown.count(b"[red]in") == 2
    assert b"\x1b]0;" not in shown


def test_a_campaign_shows_a_line_for_each_registry(tmp_path: Path, out: Path) -> None:
    """On a terminal each registry shows how many of its parts have ended."""
    for kind in ("npc", "item"):
        (tmp_path / f"{kind}.jsonl").write_text(
            '{"source_id": "a", "name": "Ada"}\n{"source_id": "b", "name": "Bo"}\n'
        )
    status, said, shown = on_a_terminal("run", str(tmp_path), "--out", str(out))
    assert status == 0
    assert b"npc" in shown
    assert b"item" in shown
    assert b"1/1" in shown
    assert b"\x1b" not in said
    quiet = on_a_terminal("run", str(tmp_path), "--out", str(out), "--quiet")
    assert quiet == (0, b"", b"")
