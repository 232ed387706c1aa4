import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

Run = Callable[..., SimpleNamespace]
Write = Callable[..., Path]
Scripted = Callable[..., Any]
Groups = Callable[..., str]
FILES = ["manifest.json", "receipt.json", "registry.json", "warnings.json"]


def shape(data: bytes | str) -> Any:  # noqa: ANN401 - a JSON value
    """Return a JSON text as data, with what changes from run to run, and prose, masked."""

    def masked(key: str, value: Any) -> Any:  # noqa: ANN401 - a JSON value
        if isinstance(value, dict):
            return {name: masked(name, part) for name, part in value.items()}
        if isinstance(value, list):
            return [masked(key, part) for part in value]
        if key in {"duration_ms", "bytes", "guidance_bytes"} and value is not None:
            return f"<{key}>"
        if key in {"message", "samples"}:
            return "<prose>"
        if key in {"out", "files"} and isinstance(value, str):
            return f"<folder>/{Path(value).name}"
        return re.sub(r"[0-9a-f]{64}", "<sha256>", value) if isinstance(value, str) else value

    return masked("", json.loads(data))


@pytest.mark.parametrize("terminal", ["fallback", "fail"])
def test_the_files_and_the_summary_have_their_shape(
    notarius: Run,
    candidate_file: Write,
    out: Path,
    scripted: Scripted,
    groups: Groups,
    snapshot: SnapshotAssertion,
    terminal: str,
) -> None:
    """Other tools read these files and the summary: keys, types and codes stay as they are."""
    model = scripted(["no JSON", "no JSON", groups(["c2", "c1"], ["c3", "c4"], ["c9", "c1"])])
    options = ["--normalize-retries", "1", "--terminal", terminal, "--format", "json"]
    got = notarius(candidate_file(), out, *options, model=model)
    assert {"summary": shape(got.out)} == snapshot(name="summary")
    assert sorted(path.name for path in out.iterdir()) == (
        FILES if terminal == "fallback" else ["manifest.json", "receipt.json"]
    )
    for path in sorted(out.iterdir()):
        assert shape(path.read_bytes()) == snapshot(name=path.name)


def test_an_item_entry_has_its_shape(
    notarius: Run,
    candidate_file: Write,
    out: Path,
    scripted: Scripted,
    groups: Groups,
    snapshot: SnapshotAssertion,
) -> None:
    """An item entry tells money from objects, and names the coin."""
    items = [
        {"source_id": "a", "name": "5 gp", "kind": "item"},
        {"source_id": "b", "name": "gold coins"},
        {"source_id": "c", "name": "rope", "item_kind": "object"},
    ]
    model = scripted([groups(["c2", "c1"])])
    assert notarius(candidate_file(items), out, registry="item", model=model).status == 0
    assert shape((out / "registry.json").read_bytes()) == snapshot


def test_files_are_canonical_json_with_one_newline(
    notarius: Run, candidate_file: Write, out: Path
) -> None:
    """Equal content is equal bytes: sorted keys, no spaces, UTF-8, one line feed at the end."""
    source = candidate_file(
        [{"source_id": "z", "name": "Zoë \u2028"}, {"source_id": "a", "name": "A"}]
    )
    assert notarius(source, out).status == 0
    assert sorted(path.name for path in out.iterdir()) == FILES
    for path in out.iterdir():
        text = path.read_bytes().decode()
        value = json.loads(text)
        options: dict[str, Any] = {"sort_keys": True, "separators": (",", ":")}
        assert text == json.dumps(value, ensure_ascii=False, **options) + "\n"
        assert value["schema"].startswith(f"notarius.{path.stem}.")


def test_the_manifest_fits_the_files(notarius: Run, candidate_file: Write, out: Path) -> None:
    """The manifest lists every other file with its size and SHA-256."""
    assert notarius(candidate_file(), out).status == 0
    listed = json.loads((out / "manifest.json").read_bytes())["files"]
    assert [entry["name"] for entry in listed] == FILES[1:]
    for entry in listed:
        data = (out / entry["name"]).read_bytes()
        assert entry["bytes"] == len(data)
        assert entry["sha256"] == hashlib.sha256(data).hexdigest()


def test_the_same_input_gives_the_same_bytes(
    notarius: Run, candidate_file: Write, tmp_path: Path, scripted: Scripted, groups: Groups
) -> None:
    """Running again, in another folder or over the first result, gives the same files."""
    bad = groups(["c3", "c4"], ["c1", "c2"])
    one, other = tmp_path / "one", tmp_path / "other"
    seen = []
    for folder in (one, other, one):
        got = notarius(candidate_file(), folder, model=scripted([bad] * 3))
        assert got.status == 0
        seen.append([(folder / name).read_bytes() for name in ("registry.json", "warnings.json")])
    assert seen[0] == seen[1] == seen[2]
    assert len(json.loads(seen[0][1])["warnings"]) == 1


def test_nothing_that_came_in_is_lost(
    notarius: Run, candidate_file: Write, out: Path, scripted: Scripted, groups: Groups
) -> None:
    """A merged entry holds every name, text, source and extra object of its members."""
    model = scripted([groups(["c2", "c1"])])
    assert notarius(candidate_file(), out, model=model).status == 0
    merged, *others = json.loads((out / "registry.json").read_bytes())["entries"]
    del merged["entry_id"]
    assert merged == {
        "name": "Percival",
        "aliases": ["Lord Percival", "Percy"],
        "descriptions": ["A gunslinger."],
        "evidence": ["Lord Percival fires.", "Percival laughs."],
        "source_ids": ["e1-1", "e2-1"],
        "extra": [{"session": 1}],
    }
    assert [entry["source_ids"] for entry in others] == [["e2-2"], ["e3-1"]]


@pytest.mark.parametrize("count", [0, 1])
def test_where_there_can_be_no_duplicate_no_model_is_asked(
    notarius: Run, candidate_file: Write, out: Path, scripted: Scripted, count: int
) -> None:
    """None or one candidate is a registry by itself."""
    records = [{"source_id": "a", "name": "Ada"}][:count]
    got = notarius(candidate_file(records), out, model=scripted([]))
    assert (got.status, got.model.calls) == (0, [])
    assert len(json.loads((out / "registry.json").read_bytes())["entries"]) == count
    receipt = json.loads((out / "receipt.json").read_bytes())
    assert (receipt["outcome"], receipt["attempts"]) == ("accepted", [])
