import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def python(*arguments: str, orders: str = "") -> str:
    """Run a module or a program with the interpreter of the tests; return what it prints."""
    done = subprocess.run(
        [sys.executable, *arguments],
        input=orders,
        capture_output=True,
        check=False,
        cwd=ROOT,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def tables(part: str) -> dict[str, list[str]]:
    """Measure one part at its smallest; return each line of its tables by its first cell."""
    text = python("-m", "benchmarks.performance", "--small", "--part", part)
    assert text.startswith("Measured on ")
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|")]
    found: dict[str, list[str]] = {}
    for first, *cells in lines:  # times come before memory, which has the same first cells
        found.setdefault(first, [cell.strip() for cell in cells])
    return found


def test_exchanges_are_measured_and_their_requests_do_not_grow() -> None:
    """Each way through our drivers is timed; from attempt 2 on all requests have one size."""
    found = tables("attempts")
    timed = [first for first in found if first.endswith(": notarius")]
    assert len(timed) == 5
    assert all(float(found[first][0].replace(",", "")) > 0 for first in timed)
    first, *later = found["notarius"]
    assert len(later) == 9
    assert {first} < {first, *later} == {first, later[0]}


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from Linux's /proc")
def test_long_replies_are_measured() -> None:
    """Every stage and every shape of a reply has its line, and the floor is the floor."""
    found = tables("scale")
    assert float(found["`msgspec.json.decode` alone, the floor"][1]) > 0
    assert float(found["ours: all of it, with the rules about names"][1]) > 0
    shapes = list(found)[-5:]
    assert shapes[0] == "one group of all"
    assert [found[shape][0] for shape in shapes] == ["300", "300", "30", "300", "300"]


def test_ten_times_the_work_takes_at_most_twelve_times_the_calls() -> None:
    """No shape of a reply takes more than linear work; calls are counted, since time is no test."""
    program = """
import json
from benchmarks.scale import SHAPES, Case, calls
def taken(shape, size):
    return calls(Case(text=SHAPES[shape](size), shape=shape, size=size))["calls"][0]
print(json.dumps({shape: [taken(shape, size) for size in (300, 3_000)] for shape in SHAPES}))
"""
    found: dict[str, tuple[int, int]] = json.loads(python("-c", program))
    assert len(found) == 6
    assert {
        shape: large / small for shape, (small, large) in found.items() if large > 12 * small
    } == {}


def test_imports_are_measured() -> None:
    """Each core package has a line with its time over that of msgspec alone."""
    found = tables("weight")
    for package in ("contracts", "attempts", "semanticreconcile", "registries"):
        assert float(found[f"`import notarius.{package}`"][2]) > 0


def test_the_checks_of_the_other_libraries_are_ours() -> None:
    """What the other libraries are given to check finds the groups that the split refuses."""
    program = """
import json
from benchmarks import workload
from benchmarks.reply_models import DuplicateGroups, complaints
from notarius.semanticreconcile import parse_proposal, split_proposal
for faulty in (True, False):
    text = workload.reply(faulty=faulty)
    theirs = complaints(DuplicateGroups.model_validate_json(text)).splitlines()
    ours = split_proposal(parse_proposal(text), workload.OFFERED, lambda _: None).refused
    print(json.dumps([[line.split()[0] for line in theirs], [group.index for group in ours]]))
"""
    faulty, right = map(json.loads, python("-c", program).splitlines())
    assert faulty[0] == [f"duplicate_groups[{index}]" for index in faulty[1]]
    assert faulty[1] == list(range(0, 51, 3))
    assert right == [[], []]


def test_an_unknown_library_is_an_error() -> None:
    """A misspelt name is told; nothing is measured in its place."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.performance", "--env", "instruktor=python"],
        capture_output=True,
        check=False,
        cwd=ROOT,
        text=True,
    )
    assert done.returncode == 2
    assert "instruktor" in done.stderr
