import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

ROOT = Path(__file__).parents[2]
TYPING_TESTS = ROOT / "typing_tests"
SEMANTIC = ROOT / "packages" / "semanticreconcile" / "src" / "notarius" / "semanticreconcile"
PROSE = SEMANTIC / "_prose.py"
# Read, not imported: no package needs to be installed to check types.
ENUM = (SEMANTIC / "_categories.py").read_text(encoding="utf-8")
CATEGORIES = re.findall(r'^    (\w+) = "\w+"$', ENUM, re.MULTILINE)

Mypy: TypeAlias = Callable[..., list[tuple[int, str, str]]]
Found: TypeAlias = set[tuple[int, str]]


@pytest.fixture(scope="session")
def mypy(tmp_path_factory: pytest.TempPathFactory) -> Mypy:
    """Run mypy as the project configures it; return line, code and text of each error."""
    cache = tmp_path_factory.mktemp("mypy")

    def run(path: Path, *, shadow: Path | None = None) -> list[tuple[int, str, str]]:
        command = [sys.executable, "-m", "mypy", "--cache-dir", str(cache), "--no-error-summary"]
        if shadow is not None:
            command += ["--shadow-file", str(path), str(shadow)]
        done = subprocess.run(
            [*command, "--show-error-codes", "--no-pretty", str(path)],
            cwd=ROOT,
            capture_output=True,
            check=False,
            text=True,
        )
        assert done.returncode in {0, 1}, done.stdout + done.stderr
        # Errors in other files would make the rest worthless.
        errors = [line for line in done.stdout.splitlines() if ": error: " in line]
        found = []
        for line in errors:
            match = re.fullmatch(r"(.+?):(\d+): error: (.*)  \[([\w-]+)\]", line)
            assert match, line
            assert (ROOT / match[1]).samefile(path), line
            found.append((int(match[2]), match[4], match[3]))
        assert bool(found) == bool(done.returncode), done.stdout
        return found

    return run


@pytest.fixture(scope="session")
def pyright() -> dict[str, Found]:
    """Run pyright over the typing tests; return line and rule of each error, by file."""
    done = subprocess.run(
        [sys.executable, "-m", "basedpyright", "--outputjson"],
        cwd=ROOT,
        capture_output=True,
        check=False,
        text=True,
    )
    assert done.returncode in {0, 1}, done.stdout + done.stderr
    told = json.loads(done.stdout)
    assert told["summary"]["filesAnalyzed"] == len(list(TYPING_TESTS.glob("*.py")))
    found: dict[str, Found] = {}
    for one in told["generalDiagnostics"]:
        rule = one["rule"].removeprefix("report")
        place = (one["range"]["start"]["line"] + 1, rule)
        found.setdefault(Path(one["file"]).name, set()).add(place)
    return found


def expected(path: Path, checker: int) -> Found:
    """Return line and code of each error that a file announces for one of the checkers."""
    return {
        (number, code)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if "# error: " in line
        for code in line.partition("# error: ")[2].split("; ")[checker].split(",")
    }


def test_the_public_api_has_the_types_it_promises(mypy: Mypy, pyright: dict[str, Found]) -> None:
    """Whoever uses the public interfaces correctly gets no error and the exact types."""
    assert mypy(TYPING_TESTS / "public_api.py") == []
    assert "public_api.py" not in pyright


def test_every_mistake_is_reported_where_it_is_made(mypy: Mypy, pyright: dict[str, Found]) -> None:
    """Each wrong line is reported by both checkers as expected, and no other line is."""
    path = TYPING_TESTS / "wrong_api.py"
    by_mypy, by_pyright = expected(path, 0), expected(path, 1)
    assert len(by_mypy) > 40
    assert {number for number, _ in by_mypy} == {number for number, _ in by_pyright}
    assert {(number, code) for number, code, _ in mypy(path)} == by_mypy
    assert pyright["wrong_api.py"] == by_pyright


def test_the_prose_is_complete_as_it_stands(mypy: Mypy) -> None:
    """The real table of prose has no type error, and an arm for each category."""
    assert len(CATEGORIES) == PROSE.read_text(encoding="utf-8").count("case IssueCategory.")
    assert mypy(PROSE) == []


@pytest.mark.parametrize("category", CATEGORIES)
def test_a_category_without_prose_is_a_type_error(
    category: str, mypy: Mypy, tmp_path: Path
) -> None:
    """Without its arm in the real table, mypy names the very category that has no prose."""
    arm = rf"        case IssueCategory\.{category}:\n(?: {{12}}.*\n)+"
    without, count = re.subn(arm, "", PROSE.read_text(encoding="utf-8"))
    assert count == 1
    shadow = tmp_path / "_prose.py"
    shadow.write_text(without, encoding="utf-8")
    (error,) = mypy(PROSE, shadow=shadow)
    number, code, text = error
    assert code == "arg-type"
    assert "assert_never" in without.splitlines()[number - 1]
    assert f"Literal[IssueCategory.{category}]" in text
