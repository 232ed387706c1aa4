"""The command, from a file of factions to a registry."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from factionbook.command import main

EXAMPLE = Path(__file__).parents[1] / "factions.ndjson"


def test_the_example_becomes_a_registry(tmp_path: Path) -> None:
    """The installed command merges the names of one faction and keeps its chapters."""
    command = Path(sys.executable).with_name("factionbook")
    out = tmp_path / "registry.json"
    done = subprocess.run([command, EXAMPLE, "--out", out], check=True, capture_output=True)
    assert (done.stdout, done.stderr) == (b"", b"")
    registry = json.loads(out.read_text(encoding="utf-8"))
    assert registry["schema"] == "factionbook.registry.faction.v1"
    assert [(entry["name"], entry["seat"]) for entry in registry["entries"]] == [
        ("the Harpers", ""),
        ("Waterdeep chapter of the Harpers", "Waterdeep"),
        ("Order of the Gauntlet", ""),
        ("Red Wizards of Thay", ""),
        ("Harpers in Neverwinter", "Neverwinter"),
        ("Salt Company loyalists", ""),
        ("Salt Company rebels", ""),
    ]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('{"source_id": "b"}', "name"),
        ('{"source_id": "b", "name": " "}', "`name` must not be blank"),
        ('{"source_id": "b", "name": "A", "name": "B"}', "same key"),
        ('{"source_id": "b", "name": "B", "seta": "C"}', "seta"),
        ('{"source_id": "b", "name": "B", "seat": "\\t"}', "`seat`"),
        ('{"source_id": "a", "name": "B"}', "give it another"),
        ('{"source_id": "b", "name": "B", "kind": "npc"}', "npc"),
        ("\udcff", "mend this line"),
    ],
)
def test_a_bad_line_is_named(
    line: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """File and line number are told, nothing is asked, and nothing is written."""
    file = tmp_path / "f.jsonl"
    good = '{"source_id": "a", "name": "A"}'
    file.write_text(f"{good}\n\n{line}\n", encoding="utf-8", errors="surrogateescape")
    assert main([str(file), "--out", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert f"{file}:3: " in said
    assert says in said
    assert not (tmp_path / "out").exists()


def test_a_missing_file_is_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The file that is not there is named."""
    assert main([str(tmp_path / "none.jsonl")]) == 2
    assert "none.jsonl" in capsys.readouterr().err
