import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from notarius.pipeline import cli

# The best of what two plain methods reach on these files: equal names, and names with the same
# words. The built-in matcher must be worth having.
F1_FLOORS = {"npc": 0.63, "location": 0.64, "item": 0.79}
Runs = list[tuple[Path, int, dict[str, Any], Path]]


@pytest.fixture(scope="module")
def tool(shared_data: Path) -> ModuleType:
    """The script that comes with the labelled data."""
    spec = importlib.util.spec_from_file_location("score", shared_data.parent / "tools/score.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def run_all(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Runs]:
    """Run the command, with its defaults, on every file of one registry, without the truth."""

    def run(kind: str) -> Runs:
        found = []
        for labelled in sorted((shared_data / "registry" / kind).glob("*.jsonl")):
            folder = tmp_path_factory.mktemp(labelled.stem)
            records = [json.loads(line) for line in labelled.read_text("utf-8").splitlines()]
            for record in records:
                del record["entity"]
            source = folder / "candidates.jsonl"
            source.write_text("".join(f"{json.dumps(record)}\n" for record in records), "utf-8")
            out = folder / "out"
            arguments = ["--registry", kind, str(source), "--out", str(out), "--quiet"]
            status = cli.main(["reconcile", *arguments])
            found.append((labelled, status, json.loads((out / "registry.json").read_bytes()), out))
        return found

    return run


@pytest.mark.parametrize("kind", F1_FLOORS)
def test_real_candidates_are_reconciled_and_nothing_is_lost(
    run_all: Callable[[str], Runs], tool: ModuleType, kind: str
) -> None:
    """On real data a run is accepted, loses nothing, and finds more than plain methods do."""
    runs = run_all(kind)
    assert len(runs) >= 5
    scores = []
    for labelled, status, registry, out in runs:
        assert status == 0, labelled.name
        assert tool.check(labelled, registry) == [], labelled.name
        assert json.loads((out / "warnings.json").read_bytes())["warnings"] == [], labelled.name
        scores.append(tool.score(labelled, registry)["f1"])
    assert sum(scores) / len(scores) >= F1_FLOORS[kind]
