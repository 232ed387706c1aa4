"""What a version wrote, every later version reads: see docs/compatibility.md.

The folders are written by scripts/store_payloads.py when a version is released.
"""

import importlib
import inspect
import json
import pkgutil
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from scripts.payloads import MAKERS, store
from scripts.pins import may_break
from scripts.releases import GitError, Release, git, releases

from notarius.contracts import FinishReason, Reply, canonical_json
from notarius.pipeline import (
    RunSettings,
    check_campaign,
    diff,
    report,
    run_campaign,
    verify,
)
from notarius.pipeline._checkpoints import Checkpoints

ROOT = Path(__file__).parents[2]
PAYLOADS = Path(__file__).parent / "payloads"
VALUES = sorted(PAYLOADS.glob("*/*/*.json"))
RUNS = sorted(PAYLOADS.glob("pipeline/*"))
KINDS = ("npc", "item", "location")
# Values of one process, or scripts for tests: nobody stores them.
NEVER_STORED = {"RunSettings", "Settings", "Turn"}

run = pytest.mark.parametrize("run", RUNS, ids=lambda path: path.name)


def where(path: Path) -> str:
    """Return the name of a payload's test: `contracts-0.1.0-Message`."""
    return "-".join((*path.parts[-3:-1], path.stem))


def type_of(path: Path) -> Any:  # noqa: ANN401 - a type, or a generic alias
    """Return the type that a payload's place and name stand for."""
    module = importlib.import_module(f"notarius.{path.parts[-3]}")
    name, _, entry = path.stem.partition("-")
    kind = getattr(module, name)
    return kind[getattr(module, entry)] if entry else kind


def is_kept(old: object, new: object) -> bool:
    """Whether all of an old value is in a new one: keys may be added to objects, nothing else."""
    if isinstance(old, dict) and isinstance(new, dict):
        return all(key in new and is_kept(value, new[key]) for key, value in old.items())
    if isinstance(old, list) and isinstance(new, list):
        return len(old) == len(new) and all(map(is_kept, old, new))
    return type(old) is type(new) and old == new


@pytest.mark.parametrize("path", VALUES, ids=where)
def test_a_stored_value_is_read_and_written_as_it_was(path: Path) -> None:
    """Whatever any version wrote is decoded, passes every check, and keeps all that it said."""
    data = path.read_bytes()
    again = canonical_json(msgspec.json.decode(data, type=type_of(path)))
    assert is_kept(json.loads(data), json.loads(again))


@pytest.mark.parametrize(
    ("old", "new", "kept"),
    [
        ({"a": [1, {"b": None}]}, {"a": [1, {"b": None, "c": 2}], "d": 0}, True),
        ({"a": 1}, {"b": 1}, False),
        ({"a": 1}, {"a": 2}, False),
        ({"a": 1}, {"a": 1.0}, False),
        ({"a": 1}, {"a": True}, False),
        ([1, 2], [1], False),
        ([1, 2], [2, 1], False),
        ({"a": []}, {"a": {}}, False),
        ({"a": None}, {}, False),
    ],
)
def test_lost_and_changed_parts_are_seen(old: object, new: object, *, kept: bool) -> None:
    """The comparison above sees what is missing, changed, or of another type."""
    assert is_kept(old, new) is kept


def public_structs(package: str) -> Iterator[str]:
    """Yield the name of every struct in a package that has a public name."""
    top = importlib.import_module(f"notarius.{package}")
    found = pkgutil.walk_packages(top.__path__, f"{top.__name__}.")
    public = (one.name for one in found if not any(n[0] == "_" for n in one.name.split(".")))
    for module in map(importlib.import_module, (top.__name__, *public)):
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isclass(value) and issubclass(value, msgspec.Struct):
                yield name


@pytest.mark.parametrize("package", MAKERS)
def test_the_next_release_stores_every_public_value(package: str, tmp_path: Path) -> None:
    """No public struct is left out of what a release puts into its folder."""
    store(package, tmp_path)
    stored = {path.stem.partition("-")[0] for path in tmp_path.glob("*.json")}
    assert stored == set(public_structs(package)) - NEVER_STORED


@pytest.mark.parametrize("package", MAKERS)
def test_what_was_released_is_still_there_and_unchanged(package: str) -> None:
    """The folder of each released version is there, byte for byte as the release left it."""
    try:
        known = releases(package)
    except GitError as error:
        pytest.skip(f"releases are read from git: {error}")
    for one in known:
        assert (PAYLOADS / package / one.version).is_dir(), one
        assert changed(one) == "", one


def changed(release: Release) -> str:
    """Return what became different in the folder of a release."""
    folder = f"tests/pins/payloads/{release.package}/{release.version}"
    return git(ROOT, "diff", "--stat", release.commit, "--", folder).decode()


class Refusing:
    """A backend that must not be asked."""

    def complete(self, call: object, *, cancellation: object) -> Reply:
        """Fail the test."""
        raise AssertionError("a model was asked")


class Declining:
    """A backend that finds no duplicates."""

    def complete(self, call: object, *, cancellation: object) -> Reply:
        """Answer that there are none."""
        return Reply(text='{"duplicate_groups": []}', finish_reason=FinishReason.STOP)


@run
def test_an_old_campaign_is_read(run: Path) -> None:
    """Candidate files and the configuration of an old campaign are still understood."""
    plan = check_campaign(run / "campaign")
    assert [(one.registry, one.candidates) for one in plan.registries] == [
        (kind, len((run / "campaign" / f"{kind}.jsonl").read_text("utf-8").splitlines()))
        for kind in KINDS
    ]
    assert plan.model == "openai:made-up"
    assert plan.context_tokens == 8192


@run
def test_an_old_checkpoint_file_is_used(run: Path, tmp_path: Path) -> None:
    """An old file answers all that it knows, with the same registry; at least, it is opened.

    No model is asked again, unless the next release may break: then the policy may be another one,
    which asks anew.
    """
    pinned = not may_break("pipeline", run.name)
    file = shutil.copy(run / "out" / "checkpoints.sqlite", tmp_path / "checkpoints.sqlite")
    summary = run_campaign(
        RunSettings(campaign=run / "campaign", out=tmp_path / "out", checkpoints=Path(file)),
        backend=lambda *_: Refusing() if pinned else Declining(),
    )
    assert summary.parts == len(KINDS)
    if pinned:
        assert (summary.asked, summary.remembered) == (0, len(KINDS))
        for kind in KINDS:
            for name in ("registry.json", "warnings.json"):
                here, there = (out / kind / name for out in (tmp_path / "out", run / "out"))
                assert is_kept(json.loads(there.read_bytes()), json.loads(here.read_bytes()))
        assert diff(run / "out", tmp_path / "out").empty


@run
def test_every_row_of_an_old_checkpoint_file_is_whole(run: Path, tmp_path: Path) -> None:
    """Each result in an old file can be decoded, whatever policy it was made under."""
    file = Path(shutil.copy(run / "out" / "checkpoints.sqlite", tmp_path / "checkpoints.sqlite"))
    connection = sqlite3.connect(file)
    keys = [key for (key,) in connection.execute("SELECT key FROM result")]
    connection.close()
    assert len(keys) == len(KINDS)
    with Checkpoints.open(file) as checkpoints:
        outcomes = [found.outcome for found in map(checkpoints.get, keys) if found is not None]
    assert sorted(outcomes) == ["accepted", "accepted", "fell_back"]


@run
@pytest.mark.parametrize("out", ["out", "one"])
def test_an_old_output_folder_is_verified_and_compared(run: Path, out: str) -> None:
    """The files of an old run fit each other for this version too, and differ in nothing."""
    found = verify(run / out)
    assert found.ok, found.problems
    assert found.files == {"out": 13, "one": 3}[out]
    assert diff(run / out, run / out).empty


@run
def test_an_old_output_folder_is_reported(run: Path, tmp_path: Path) -> None:
    """A report of an old run has its figures, and finds nothing that does not match."""
    done = report(run / "out", html=tmp_path / "r.html", candidates=run / "campaign")
    assert done.problems == 0
    assert [(one.registry, one.outcome, one.entries) for one in done.registries] == [
        ("npc", "accepted", 2),
        ("item", "fell_back", 3),
        ("location", "accepted", 1),
    ]
    assert "Captain Orla Venn" in (tmp_path / "r.html").read_text("utf-8")
