import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from notarius.contracts import ProviderError, ProviderErrorKind
from notarius.pipeline import cli

Run = Callable[..., SimpleNamespace]
Write = Callable[..., Path]
Scripted = Callable[..., Any]
Groups = Callable[..., str]
COMMAND = "import sys; from notarius.pipeline.cli import main; sys.exit(main())"
DOWN = ProviderError(ProviderErrorKind.DENIED, status=401)


def test_the_default_run_needs_nothing_else(
    notarius: Run, candidate_file: Write, out: Path
) -> None:
    """Without options the built-in matcher answers: summary on stdout, nothing on stderr."""
    got = notarius(candidate_file(), out)
    assert (got.status, got.err) == (0, "")
    summary, written = got.out.splitlines()
    assert "4 candidates" in summary
    assert "3 entries" in summary
    assert all(str(path) in written for path in out.iterdir())


def test_the_command_works_in_a_process_of_its_own(candidate_file: Write, out: Path) -> None:
    """As a process: the status, one JSON object on stdout, an empty stderr."""
    arguments = ["reconcile", "--registry", "npc", str(candidate_file()), "--out", str(out)]
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, *arguments, "--format", "json"],
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout)["outcome"] == "accepted"
    assert (out / "manifest.json").exists()


def test_json_output_is_one_object(
    notarius: Run, candidate_file: Write, out: Path, scripted: Scripted, groups: Groups
) -> None:
    """With --format json, stdout is one JSON object on one line, whatever happened."""
    bad = groups(["c3", "c4"])
    for steps, outcome in (([groups()], "accepted"), ([bad] * 3, "fell_back"), ([DOWN], "failed")):
        got = notarius(candidate_file(), out, "--format", "json", model=scripted(steps))
        assert got.out.count("\n") == 1
        said = json.loads(got.out)
        assert said["outcome"] == outcome
        assert all(Path(name).is_file() for name in said["files"])


@pytest.mark.parametrize("options", [[], ["--quiet"], ["--format", "json"]])
def test_a_fallback_is_done_and_warns_on_stderr(
    notarius: Run,
    candidate_file: Write,
    out: Path,
    scripted: Scripted,
    groups: Groups,
    options: list[str],
) -> None:
    """Status 0, and the one warning of warnings.json on standard error, also with --quiet."""
    got = notarius(candidate_file(), out, *options, model=scripted([groups(["c3", "c4"])] * 3))
    assert got.status == 0
    (warning,) = json.loads((out / "warnings.json").read_bytes())["warnings"]
    assert got.err.count("warning: ") == 1
    assert f"warning: {warning['message']}" in got.err
    assert all(sample in got.err for sample in warning["samples"])
    assert "warning: " not in got.out


@pytest.mark.parametrize(
    ("steps", "options", "status"),
    [
        (["{}", "{}"], ["--normalize-retries", "1", "--terminal", "fail"], 3),
        (["{}", "{}"], ["--normalize-retries", "1"], 0),
        (["{}"], ["--normalize-retries", "0", "--terminal", "fail"], 3),
        ([DOWN], [], 4),
        ([DOWN], ["--terminal", "fail"], 4),
        (["{}", DOWN], [], 4),
        ([], ["--deadline", "0.000001"], 4),
        ([KeyboardInterrupt()], [], 130),
        (["{}", KeyboardInterrupt()], ["--terminal", "fail"], 130),
    ],
)
def test_the_exit_status_tells_how_it_ended(
    notarius: Run,
    candidate_file: Write,
    out: Path,
    scripted: Scripted,
    steps: list[Any],
    options: list[str],
    status: int,
) -> None:
    """0 done, 3 exhausted under --terminal fail, 4 no answer to be had, 130 interrupted."""
    options = ["--repair-retries", "0", *options]
    got = notarius(candidate_file(), out, *options, model=scripted(steps))
    assert got.status == status
    assert (out / "registry.json").exists() is (status == 0)
    assert "Traceback" not in got.err
    if status:
        assert len(got.err.splitlines()) == 1
        assert ("interrupted" if status == 130 else "o registry was written") in got.err
    receipt = json.loads((out / "receipt.json").read_bytes())
    assert len(receipt["attempts"]) == len(steps)
    assert receipt["outcome"] == {0: "fell_back", 130: "cancelled"}.get(status, "failed")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--bogus"],
        ["--registry", "monsters"],
        ["--normalize-retries", "-1"],
        ["--repair-retries", "-1"],
        ["--transport-retries", "x"],
        ["--deadline", "0"],
        ["--deadline", "-1"],
        ["--deadline", "nan"],
        ["--terminal", "explode"],
        ["--format", "yaml"],
        ["--model", "unheard-of"],
        ["--model", "openai:"],
        ["--model", "llama:"],
        ["--base-url", "http://127.0.0.1:9"],
    ],
)
def test_bad_usage_is_told_before_anything_is_done(
    notarius: Run, candidate_file: Write, out: Path, arguments: list[str]
) -> None:
    """A mistaken option is status 2, named on standard error, with nothing written."""
    got = notarius(candidate_file(), out, *arguments)
    assert (got.status, got.out) == (2, "")
    assert arguments[0] in got.err
    assert "Traceback" not in got.err
    assert not out.exists()


@pytest.mark.parametrize("missing", ["--registry", "--out", "CANDIDATES"])
def test_what_is_required_is_named(
    capsys: pytest.CaptureFixture[str], candidate_file: Write, tmp_path: Path, missing: str
) -> None:
    """A missing argument or option is status 2 and named."""
    parts = {
        "--registry": ["--registry", "npc"],
        "--out": ["--out", str(tmp_path / "out")],
        "CANDIDATES": [str(candidate_file())],
    }
    given = [word for part, words in parts.items() if part != missing for word in words]
    assert cli.main(["reconcile", *given]) == 2
    assert missing in capsys.readouterr().err


def test_quiet_says_nothing(notarius: Run, candidate_file: Write, out: Path) -> None:
    """With --quiet an accepted run prints nothing at all, and writes the same files."""
    got = notarius(candidate_file(), out, "--quiet")
    assert (got.status, got.out, got.err) == (0, "", "")
    assert len(list(out.iterdir())) == 4


@pytest.mark.parametrize(
    ("level", "logged"), [("WARNING", set()), ("INFO", {"INFO"}), ("DEBUG", {"INFO", "DEBUG"})]
)
def test_the_log_level_comes_from_the_environment(
    notarius: Run,
    candidate_file: Write,
    out: Path,
    monkeypatch: pytest.MonkeyPatch,
    level: str,
    logged: set[str],
) -> None:
    """NOTARIUS_LOG sets what is logged to standard error; standard output stays the summary."""
    monkeypatch.setenv("NOTARIUS_LOG", level)
    got = notarius(candidate_file(), out, "--format", "json")
    assert got.status == 0
    assert {line.split()[0] for line in got.err.splitlines()} == logged
    json.loads(got.out)


@pytest.mark.parametrize("level", ["TRACE", "debug", "10"])
def test_an_unknown_log_level_is_bad_usage(
    notarius: Run, candidate_file: Write, out: Path, monkeypatch: pytest.MonkeyPatch, level: str
) -> None:
    """A level that is none is status 2; the message names the variable and the levels."""
    monkeypatch.setenv("NOTARIUS_LOG", level)
    got = notarius(candidate_file(), out)
    assert (got.status, out.exists()) == (2, False)
    assert all(word in got.err for word in ("NOTARIUS_LOG", "DEBUG", "INFO", "WARNING"))


def test_help_and_version_are_done(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Help names every option; the version is that of the installed package."""
    monkeypatch.setattr(cli, "version", lambda name: f"{name} 1.2.3")
    monkeypatch.setenv("COLUMNS", "200")
    assert cli.main(["--version"]) == 0
    assert "notarius-pipeline 1.2.3" in capsys.readouterr().out
    assert cli.main(["reconcile", "--help"]) == 0
    said = capsys.readouterr().out
    options = "registry out model base-url api-key-env normalize-retries repair-retries"
    options += " transport-retries deadline terminal debug-exchange format quiet"
    assert [name for name in options.split() if f"--{name}" not in said] == []


@pytest.mark.skipif(os.name != "posix", reason="sends a signal to a process")
def test_a_real_interrupt_is_status_130(candidate_file: Write, out: Path) -> None:
    """Ctrl-C while the model thinks: status 130, the receipt says cancelled, no traceback."""
    program = (
        "import sys, time\n"
        "from notarius.pipeline import cli, reconcile\n"
        "class Slow:\n"
        "    def __init__(self, *given): pass\n"
        "    def complete(self, call, *, cancellation):\n"
        "        print('asked', flush=True)\n"
        "        time.sleep(60)\n"
        "cli.reconcile = lambda settings, **named: reconcile(settings, backend=Slow)\n"
        "sys.exit(cli.main())\n"
    )
    arguments = ["reconcile", "--registry", "npc", str(candidate_file()), "--out", str(out)]
    with subprocess.Popen(
        [sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"asked\n"
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert b"Traceback" not in said
    receipt = json.loads((out / "receipt.json").read_bytes())
    assert receipt["outcome"] == "cancelled"
    assert [attempt["result"] for attempt in receipt["attempts"]] == ["cancelled"]
