"""Files that a run reads again, damaged anywhere: told in words, and never taken for a result."""

import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from notarius.contracts import canonical_json
from notarius.pipeline import (
    InputError,
    RunSettings,
    check_campaign,
    diff,
    run_campaign,
    verify,
)
from notarius.pipeline._checkpoints import Checkpoints, Remembered
from notarius.pipeline._diff import difference_lines
from notarius.pipeline._verify import verification_lines

Damaged: TypeAlias = Callable[[bytes], SearchStrategy[bytes]]
Fed: TypeAlias = Callable[[str, bytes], None]
Obeyed: TypeAlias = Callable[[str], list[str]]
HARD = settings.get_profile("hardness")
LISTS = {
    "npc": ["Lord Percival", "Percival", "Mr. Bennet", "Mrs. Bennet"],
    "item": ["gold", "5 gp", "rope \U0001f409", 'a "ring"'],
}


@pytest.fixture(scope="session")
def campaign(work_folder: Path) -> Path:
    """A campaign of two registries."""
    folder = work_folder / "campaign"
    folder.mkdir()
    for kind, names in LISTS.items():
        records = [
            {"source_id": f"{kind}-{number}", "name": name, "extra": {"n": [number, {}]}}
            for number, name in enumerate(names)
        ]
        (folder / f"{kind}.jsonl").write_text("\n".join(map(json.dumps, records)))
    return folder


@pytest.fixture(scope="session")
def results(campaign: Path, work_folder: Path) -> Path:
    """What a run over it wrote, its checkpoints beside."""
    out = work_folder / "results"
    run_campaign(RunSettings(campaign=campaign, out=out, checkpoints=work_folder / "checkpoints"))
    return out


@pytest.fixture(scope="session")
def checkpoints(results: Path, work_folder: Path) -> dict[str, Remembered]:
    """All that the checkpoints remember, by key."""
    file = work_folder / "checkpoints"
    with sqlite3.connect(file) as connection:
        keys = [key for (key,) in connection.execute("SELECT key FROM result")]
    connection.close()
    with Checkpoints.open(file) as opened:
        found = {key: opened.get(key) for key in keys}
    return {key: remembered for key, remembered in found.items() if remembered is not None}


def pages(document: bytes) -> SearchStrategy[bytes]:
    """Return a copy whose pages were overwritten, exchanged or lost, or some of its bits turned."""
    size = 4096

    def apply(drawn: tuple[str, int, int, bytes]) -> bytes:
        how, at, other, piece = drawn
        count = len(document) // size
        data = bytearray(document)
        one, two = (number % count * size for number in (at, other))
        match how:
            case "exchange":
                data[one : one + size], data[two : two + size] = (
                    document[two : two + size],
                    document[one : one + size],
                )
            case "blank":
                data[one : one + size] = bytes(size)
            case "lose":
                del data[one:]
            case "head":
                data[at % 100 : at % 100 + len(piece)] = piece
            case _:
                data[at % len(data)] ^= 1 << other % 8
        return bytes(data)

    ways = st.sampled_from(["exchange", "blank", "lose", "head", "bit"])
    numbers = st.integers(0, len(document))
    return st.tuples(ways, numbers, numbers, st.binary(min_size=1, max_size=8)).map(apply)


@HARD
@given(data=st.data())
def test_damaged_checkpoints_hold_what_was_put_or_say_so(
    damaged: Damaged,
    fed: Fed,
    campaign: Path,
    checkpoints: dict[str, Remembered],
    work_folder: Path,
    data: st.DataObject,
) -> None:
    """Wherever a file is damaged, a result in it is the one that was put, or none, or an error."""
    assert len(checkpoints) == len(LISTS)
    whole = (work_folder / "checkpoints").read_bytes()
    spoilt = data.draw(pages(whole) | damaged(whole) | st.binary(min_size=1, max_size=200))
    fed("checkpoint file", spoilt)
    file = work_folder / "spoilt"
    for left in work_folder.glob("spoilt*"):
        left.unlink()
    file.write_bytes(spoilt)
    try:
        with Checkpoints.open(file) as opened:
            for key, remembered in checkpoints.items():
                assert canonical_json(opened.get(key)) in {b"null", canonical_json(remembered)}
        check_campaign(campaign, checkpoints=file)
    except InputError as error:
        assert str(error).startswith(f"{file}: ")  # noqa: PT017 - one of two good ends
        assert file.read_bytes() == spoilt


@pytest.mark.parametrize(
    "statements",
    [
        ["DROP TABLE result"],
        ["DROP TABLE result", "CREATE TABLE result (a)"],
        ["DROP TABLE result", "CREATE VIEW result AS SELECT 1 key, 2 outcome, 3 payload, 4 sha256"],
        ["ALTER TABLE result DROP COLUMN sha256"],
        ["UPDATE result SET sha256 = x'ff'"],
        ["UPDATE result SET payload = CAST(x'ff' AS TEXT)"],
        ["UPDATE result SET payload = 7, sha256 = 7"],
        ["UPDATE result SET outcome = 'fell_back'"],
        ["PRAGMA user_version = 0"],
        ["PRAGMA user_version = 999"],
        ["PRAGMA application_id = 7"],
        ["CREATE TRIGGER t BEFORE INSERT ON result BEGIN SELECT RAISE(ABORT, 'no'); END",
         "DELETE FROM result"],
    ],
)  # fmt: skip
def test_checkpoints_of_another_form_are_an_error_or_of_no_use(
    campaign: Path, results: Path, work_folder: Path, tmp_path: Path, statements: list[str]
) -> None:
    """A database that only looks like ours is told by name, and results are never made of it."""
    file = tmp_path / "checkpoints"
    shutil.copy(work_folder / "checkpoints", file)
    connection = sqlite3.connect(file)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()
    with pytest.raises(InputError) as caught:
        run_campaign(RunSettings(campaign=campaign, out=tmp_path / "out", checkpoints=file))
    assert str(caught.value).startswith(f"{file}: ")
    # One that can be read but not written to is noticed when there is something to remember.
    for path in (tmp_path / "out").rglob("registry.json"):
        assert path.read_bytes() == (results / path.relative_to(tmp_path / "out")).read_bytes()


def files_of(folder: Path) -> list[str]:
    """Return the names of all JSON files of a campaign's results."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.json"))


@HARD
@given(data=st.data())
def test_damaged_results_are_told_of(
    damaged: Damaged,
    obeyed: Obeyed,
    fed: Fed,
    results: Path,
    work_folder: Path,
    data: st.DataObject,
) -> None:
    """Whatever stands in a file of results, checking and comparing come to an end in words."""
    name = data.draw(st.sampled_from(files_of(results)))
    whole = (results / name).read_bytes()
    spoilt = data.draw(damaged(whole) | st.binary(max_size=200))
    fed("verify and diff", spoilt)
    copy = work_folder / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(results, copy)
    (copy / name).write_bytes(spoilt)
    found = verify(copy)
    if not name.endswith("manifest.json"):
        assert found.ok == (spoilt == whole)
    lines = [*verification_lines(found)]
    for a, b in ((results, copy), (copy, results), (copy, copy)):
        try:
            lines += difference_lines(diff(a, b))
        except InputError as error:
            assert str(error).startswith(f"{copy}")  # noqa: PT017 - one of two good ends
            lines += error.problems
    assert [line for line in lines if obeyed(line) or "\n" in line] == []
    assert max(map(len, lines)) < 2_000


def test_these_results_are_no_empty_ones(results: Path) -> None:
    """Something was merged in each registry, so that there is something to damage."""
    for kind, names in LISTS.items():
        registry: dict[str, Any] = json.loads((results / kind / "registry.json").read_bytes())
        assert 1 < len(registry["entries"]) < len(names)
