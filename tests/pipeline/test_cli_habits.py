"""What every command does alike: help with an example, colours, one JSON object, statuses."""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from notarius.contracts import ProviderError, ProviderErrorKind
from notarius.pipeline import cli, reconcile, run_campaign

Run = Callable[..., Any]
Write = Callable[..., Path]
Scripted = Callable[..., Any]
Groups = Callable[..., str]

GROUP: Any = typer.main.get_command(cli.app)
COMMANDS: dict[str, Any] = GROUP.commands
DOWN = ProviderError(ProviderErrorKind.DENIED, status=401)
COLOUR = re.compile(rb"\x1b\[(?:\d+;)*(?:3\d|4\d|9\d|10\d)(?:;\d+)*m")


@pytest.mark.parametrize("name", COMMANDS)
def test_help_ends_with_an_example_that_works(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """`--help` of each command says what it does and shows a command line that can be typed."""
    monkeypatch.setenv("COLUMNS", "300")
    assert cli.main([name, "--help"]) == 0
    said = capsys.readouterr().out
    example = said.strip().splitlines()[-1].strip()
    assert example.startswith(f"Example: notarius {name} ")
    _, _, *words = shlex.split(example.removeprefix("Example: "))
    assert COMMANDS[name].make_context(name, words).params


def test_the_commands_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """Without arguments, and with `--help`, each command is named with what it does."""
    assert cli.main(["--help"]) == 0
    said = capsys.readouterr().out
    assert len(COMMANDS) >= 5
    assert [name for name in COMMANDS if not re.search(rf"\b{name}\b +\w", said)] == []
    assert cli.main([]) == 2
    assert capsys.readouterr().out.strip() == said.strip()


# ------------------------------------------------------------------------------ colours

# Runs several command lines in one process, and says how each ended.
SEVERAL = """
import json, os, sys
from notarius.pipeline.cli import main
given, kept = sys.argv[1:]
ended = [main(arguments) for arguments in json.loads(given)]
open(kept, "w").write(json.dumps(ended))
"""


def lines(folder: Path, source: Path) -> list[list[str]]:
    """Return command lines that show help, progress, a result, bad usage and bad input."""
    (folder / "campaign").mkdir()
    (folder / "campaign" / "npc.jsonl").write_bytes(source.read_bytes())
    out = str(folder / "colours")
    return [
        ["--help"],
        ["reconcile", "--help"],
        ["--version"],
        ["reconcile", "--registry", "npc", str(source), "--out", out],
        ["run", str(folder / "campaign"), "--out", out],
        ["verify", str(folder)],
        ["reconcile", "--registry", "monsters"],
        ["--bogus"],
    ]


STATUSES = [0, 0, 0, 0, 0, 2, 2, 2]


def environment(**more: str) -> dict[str, str]:
    """Return this environment without what asks for colours or forbids them."""
    asked = ("COLOR", "GITHUB_ACTIONS", "TTY_")
    kept = {name: value for name, value in os.environ.items() if not any(a in name for a in asked)}
    return {**kept, "TERM": "xterm-256color", "COLUMNS": "100", **more}


def test_nothing_but_a_terminal_gets_escape_codes(candidate_file: Write, tmp_path: Path) -> None:
    """Into a pipe go plain words only: help, results, errors, and no progress."""
    done = subprocess.run(
        [
            *(sys.executable, "-c", SEVERAL),
            *(json.dumps(lines(tmp_path, candidate_file())), str(tmp_path / "kept")),
        ],
        capture_output=True,
        env=environment(),
        check=True,
    )
    assert json.loads((tmp_path / "kept").read_text()) == STATUSES
    assert done.stdout.count(b"\n") > 20
    assert done.stderr.count(b"\n") > 3
    assert b"\x1b" not in done.stdout + done.stderr
    assert b"attempt" not in done.stderr
    assert b"part 1" not in done.stderr


@pytest.mark.parametrize("no_color", [True, False])
def test_a_terminal_gets_no_colours_where_they_are_not_wanted(
    candidate_file: Write, tmp_path: Path, no_color: bool
) -> None:
    """With NO_COLOR help, errors and progress on a terminal have no colour; without it they do."""
    pty = pytest.importorskip("pty", reason="needs a pseudo-terminal")
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [
            *(sys.executable, "-c", SEVERAL),
            *(json.dumps(lines(tmp_path, candidate_file())), str(tmp_path / "kept")),
        ],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        env=environment(**({"NO_COLOR": "1"} if no_color else {})),
    ):
        os.close(theirs)
        shown = b"".join(_chunks(ours))
    os.close(ours)
    assert json.loads((tmp_path / "kept").read_text()) == STATUSES
    assert b"attempt 1 of at most 3" in shown
    assert b"part 1" in shown
    assert bool(COLOUR.search(shown)) is not no_color


def _chunks(descriptor: int) -> Iterator[bytes]:
    while True:
        try:
            chunk = os.read(descriptor, 4096)
        except OSError:  # what Linux says when the other end is closed
            return
        if not chunk:
            return
        yield chunk


# --------------------------------------------------------------------------------- JSON


def the_object(said: str) -> dict[str, Any]:
    """Require that all that was said is one JSON object on one line, and return it."""
    assert said.count("\n") == 1
    found = json.loads(said)
    assert isinstance(found, dict)
    return found


ENDINGS: dict[str, tuple[list[Any], list[str], int]] = {
    "accepted": ([], [], 0),
    "fell_back": ([], ["--normalize-retries", "0"], 0),
    "exhausted": ([], ["--normalize-retries", "0", "--terminal", "fail"], 3),
    "provider": ([DOWN], [], 4),
    "deadline": ([], ["--deadline", "0.000001"], 4),
    "interrupted": ([KeyboardInterrupt()], [], 130),
}


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("name", ["reconcile", "run"])
def test_json_is_one_object_however_it_ended(
    candidate_file: Write,
    tmp_path: Path,
    scripted: Scripted,
    groups: Groups,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    ending: str,
) -> None:
    """Warnings and failures are in the object; standard error has them for people, in words."""
    steps, options, status = ENDINGS[ending]
    refused = groups(["c3", "c4"])
    model = scripted(steps or [groups() if ending == "accepted" else refused])
    called: Callable[..., Any] = reconcile if name == "reconcile" else run_campaign

    def over_the_model(settings: object, **named: object) -> object:
        return called(settings, **{**named, "backend": model})

    monkeypatch.setattr(cli, called.__name__, over_the_model)
    source = candidate_file(name="npc.jsonl")
    given = {"reconcile": ["--registry", "npc", str(source)], "run": [str(source.parent)]}[name]
    arguments = [name, *given, "--out", str(tmp_path / "out"), "--format", "json", *options]
    assert cli.main(arguments) == status
    said = capsys.readouterr()
    found = the_object(said.out)
    assert (said.err == "") is (ending == "accepted")
    if ending == "interrupted":
        assert found == {"outcome": "cancelled", "failure": None}
        return
    summary = found if name == "reconcile" else found["registries"][0]
    if status:
        assert (summary["outcome"], summary["entries"]) == ("failed", None)
        assert summary["failure"]["kind"] == ending
        assert summary["failure"]["message"].rstrip(".")[1:] in said.err
    else:
        assert (summary["outcome"], summary["failure"]) == (ending, None)
        assert [w["message"] in said.err for w in summary["warnings"]] == [True] * len(
            summary["warnings"]
        )
        assert len(summary["warnings"]) == (ending == "fell_back")


@pytest.mark.parametrize("quiet", [True, False])
@pytest.mark.parametrize("name", COMMANDS)
def test_bad_input_is_one_object_as_well(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, quiet: bool
) -> None:
    """Status 2: every problem is in the object as on standard error; `--quiet` keeps it back."""
    missing, out = str(tmp_path / "missing"), ["--out", str(tmp_path / "out")]
    more = {"reconcile": ["--registry", "npc", *out], "run": out, "diff": [missing]}
    can_be_quiet = any("--quiet" in param.opts for param in COMMANDS[name].params)
    options = ["--format", "json", *(["--quiet"] if quiet and can_be_quiet else [])]
    assert cli.main([name, missing, *more.get(name, []), *options]) == 2
    said = capsys.readouterr()
    assert "missing" in said.err
    if quiet and can_be_quiet:
        assert said.out == ""
        return
    found = the_object(said.out)
    assert (found["outcome"], found["failure"]["kind"]) == ("failed", "bad_input")
    problems = found["failure"]["message"].splitlines()
    assert [f"error: {problem}" for problem in problems] == said.err.splitlines()
    assert not (tmp_path / "out").exists()


def test_a_check_knows_what_retries_take(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a run without retries would ask can be checked: its requests need less room."""
    names = [f"{one}{other}" for one in ("Bar", "Dol", "Fen", "Gim") for other in ("a", "o", "ick")]
    records = [json.dumps({"source_id": name, "name": name}) for name in names]
    (tmp_path / "npc.jsonl").write_text("\n".join(records))
    arguments = ["check", str(tmp_path), "--context-tokens", "2048", "--format", "json"]
    assert cli.main(arguments) == 2
    assert "larger context" in the_object(capsys.readouterr().out)["failure"]["message"]
    requests = []
    for repairs in ("1", "0"):
        retries = ["--normalize-retries", "0", "--repair-retries", repairs]
        assert cli.main([*arguments, *retries]) == 0
        (registry,) = the_object(capsys.readouterr().out)["registries"]
        requests.append(registry["requests"])
    assert requests[0] > requests[1] > 0
