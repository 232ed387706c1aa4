"""Streams that can't hold what is written to them, and settings that are too much."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from notarius.pipeline import Config, RunSettings

PROGRAM = "import sys; from notarius.pipeline.cli import main; sys.exit(main())"
DRAGON = "Drag\u00f6n \N{DRAGON}"


def run(
    *arguments: object, err: int = subprocess.PIPE, **environment: str
) -> "subprocess.CompletedProcess[bytes]":
    """Run the command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=err,
        env=os.environ | environment,
        check=False,
        timeout=300,
    )


@pytest.fixture
def results(tmp_path: Path) -> tuple[Path, Path]:
    """Two results that differ in a name with letters that many encodings lack."""
    outs: list[Path] = []
    for name in ("plain", DRAGON):
        source = tmp_path / "npc.jsonl"
        source.write_text(json.dumps({"source_id": "a", "name": name}) + "\n", encoding="utf-8")
        outs.append(tmp_path / f"out-{len(outs)}")
        made = run("reconcile", "--registry", "npc", source, "--out", outs[-1])
        assert made.returncode == 0, made.stderr
    return outs[0], outs[1]


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252", "utf-8"])
def test_any_encoding_of_standard_output_will_do(results: tuple[Path, Path], encoding: str) -> None:
    """What it lacks is written as an escape; JSON is UTF-8 everywhere."""
    told = run("diff", *results, PYTHONIOENCODING=encoding)
    assert (told.returncode, told.stderr) == (0, b"")
    assert b"renamed" in told.stdout
    told = run("diff", *results, "--format", "json", PYTHONIOENCODING=encoding)
    assert told.returncode == 0
    assert json.loads(told.stdout.decode())["registries"][0]["renamed"][0]["after"] == DRAGON


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="NOT RUN: no /dev/full here")
def test_an_error_that_nobody_can_be_told_keeps_its_status(tmp_path: Path) -> None:
    """Bad input ends with 2, though standard error takes nothing."""
    with Path("/dev/full").open("wb") as full:
        assert run("verify", tmp_path / "none", err=full.fileno()).returncode == 2


def test_json_holds_nothing_that_a_terminal_obeys(tmp_path: Path) -> None:
    """What JSON lets pass, as C1 controls and marks of direction, is escaped."""
    obeyed = "\x7f\x9b\u202e\u2066\u2028"
    got = run("verify", tmp_path / f"x{obeyed}", "--format", "json")
    assert got.returncode == 2
    assert not set(obeyed) & set(got.stdout.decode())
    assert obeyed in json.loads(got.stdout)["failure"]["message"]
    assert got.stderr.count(b"error:") == got.stderr.count(b"\n") == 1


@pytest.mark.parametrize(
    "text",
    [
        "context-tokens = " + "9" * 5000,
        ".".join(["a"] * 100_000) + " = 1",
        "".join(f"key{n} = 1\n" for n in range(4000)),
        "at-once = " + "[" * 8000,
        "model = '\udcff'",
    ],
    ids=["digits", "a long key", "many keys", "nested", "no text"],
)
def test_a_configuration_that_is_too_much_is_bad_input(tmp_path: Path, text: str) -> None:
    """It is named, and what is wrong with it; it takes neither memory nor time."""
    (tmp_path / "npc.jsonl").write_text('{"source_id": "a", "name": "b"}\n')
    (tmp_path / "notarius.toml").write_bytes(text.encode("utf-8", "surrogateescape"))
    got = run("check", tmp_path)
    assert got.returncode == 2
    assert got.stderr.startswith(f"error: {tmp_path / 'notarius.toml'}: ".encode())
    assert len(got.stderr) < 1000


def test_settings_show_no_address() -> None:
    """An address may hold a password."""
    config = Config(model="openai:m", base_url="http://user:secret@127.0.0.1", api_key_env="sk-1")
    settings = RunSettings(campaign=Path("c"), out=Path("o"), options=config)
    assert "secret" not in f"{config!r}{config}{settings!r}"
    assert "sk-1" not in f"{config!r}{settings!r}"
