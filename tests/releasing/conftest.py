"""Repositories to release from: two made-up packages, one of which needs the other."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# What is tested is a script of the repository, and no installed package.
sys.path.insert(0, str(ROOT))

DATE = "2026-12-24"
_MISSED = pytest.StashKey[bool]()
_PACKAGE = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "notarius-{name}"
version = "0.1.0"
description = "Made up"
readme = "README.md"
license = "MIT"
license-files = ["LICENSE"]
requires-python = ">=3.11"
dependencies = [{needs}]

[tool.hatch.build.targets.wheel]
only-include = ["src/notarius/{name}"]
sources = ["src"]

[tool.hatch.build.targets.sdist]
only-include = ["src/notarius/{name}", "CHANGELOG.md"]
"""
_CODE = """\
\"\"\"Made up.\"\"\"

__all__ = ["greet"]


def greet() -> str:
    \"\"\"Greet.\"\"\"
    return "hello"
"""
# What the real one stores is no matter here; it is called for the version that is released.
_STORE_PAYLOADS = """\
import sys, tomllib
from pathlib import Path

text = Path("packages", sys.argv[1], "pyproject.toml").read_text()
place = Path("tests/pins/payloads", sys.argv[1], tomllib.loads(text)["project"]["version"])
place.mkdir(parents=True)
(place / "Value.json").write_text("{}")
"""
_CHANGELOG = """\
# Changelog of notarius-{name}

Newest first.

<!-- towncrier release notes start -->
"""


def environment(home: Path) -> dict[str, str]:
    """An environment in which git knows nothing of whoever runs the tests."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return {
        **kept,
        "HOME": str(home),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "A maintainer",
        "GIT_AUTHOR_EMAIL": "maintainer@example.org",
        "GIT_COMMITTER_NAME": "A maintainer",
        "GIT_COMMITTER_EMAIL": "maintainer@example.org",
    }


class Repository:
    """A repository, and the command that releases from it."""

    def __init__(self, root: Path) -> None:
        """Take its folder."""
        self.root = root
        self.env = environment(root.parent)

    def git(self, *arguments: str) -> str:
        """Run git; return what it prints."""
        return self._printed("git", *arguments)

    def _printed(self, *command: str) -> str:
        done = subprocess.run(
            command, cwd=self.root, env=self.env, capture_output=True, check=False, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def begin(self) -> None:
        """Make a repository of what lies here."""
        self.git("init", "--quiet", "--initial-branch", "main")
        self.commit("Begin")

    def commit(self, message: str = "Change something") -> str:
        """Commit everything; return the commit."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", message)
        return self.git("rev-parse", "HEAD")

    def write(self, path: str, text: str) -> None:
        """Write a file."""
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")

    def read(self, path: str) -> str:
        """Read a file."""
        return (self.root / path).read_text(encoding="utf-8")

    def replace(self, path: str, old: str, new: str) -> None:
        """Change a file in one place."""
        text = self.read(path)
        assert text.count(old) == 1
        self.write(path, text.replace(old, new))

    def tell(self, package: str, kind: str, text: str = "Something is new.") -> None:
        """Write a fragment, and commit it."""
        self.write(f"packages/{package}/changelog.d/+something.{kind}.md", f"{text}\n")
        self.commit(f"Tell of something {kind}")

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the command."""
        return subprocess.run(
            [sys.executable, "-m", "scripts.release", *arguments],
            cwd=self.root,
            env=self.env,
            capture_output=True,
            check=False,
            text=True,
        )

    def release(self, *arguments: str) -> str:
        """Release; return what is printed."""
        done = self.run(*arguments, "--date", DATE)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def refusal(self, *arguments: str) -> str:
        """Fail to release, which must change nothing; return why."""
        before = self.state()
        done = self.run(*arguments)
        assert done.returncode == 1, done.stdout + done.stderr
        assert self.state() == before
        start, _, why = done.stderr.partition(": ")
        assert start == "Nothing is released"
        return why.strip()

    def plan(self, package: str, wanted: str) -> str:
        """Return the version that would be released, without the time that it takes."""
        code = f"from scripts.release import plan; print(plan({package!r}, {wanted!r}, '').version)"
        return self._printed(sys.executable, "-c", code)

    def state(self) -> dict[str, str | bytes]:
        """All that a release changes: branches, tags, worktrees, and every file's bytes."""
        found: dict[str, str | bytes] = {
            str(path.relative_to(self.root)): path.read_bytes()
            for path in self.root.rglob("*")
            if path.is_file()
            and not {".git", "__pycache__"} & set(path.relative_to(self.root).parts)
        }
        if (self.root / ".git").exists():
            for asked in ("for-each-ref", "rev-parse HEAD", "worktree list", "status --short"):
                found[f"git {asked}"] = self.git(*asked.split())
        return found


def _lay_out(root: Path) -> None:
    """Write the two packages, beside what the command needs of this repository."""
    here = Repository(root)
    for path in ROOT.glob("scripts/*.py"):
        here.write(f"scripts/{path.name}", path.read_text("utf-8"))
    for name in ("pyproject.toml", ".gitignore", ".gitattributes", "LICENSE"):
        here.write(name, (ROOT / name).read_text("utf-8"))
    here.write("scripts/store_payloads.py", _STORE_PAYLOADS)
    here.write("tests/pins/accepted.toml", "# None so far.\n")
    for name, needs in (("lower", ""), ("upper", '"notarius-lower>=0.1,<0.2"')):
        folder = f"packages/{name}"
        here.write(f"{folder}/pyproject.toml", _PACKAGE.format(name=name, needs=needs))
        here.write(f"{folder}/CHANGELOG.md", _CHANGELOG.format(name=name))
        here.write(f"{folder}/README.md", f"# notarius-{name}\n")
        here.write(f"{folder}/LICENSE", (ROOT / "LICENSE").read_text("utf-8"))
        here.write(f"{folder}/src/notarius/{name}/__init__.py", _CODE)
        here.write(f"{folder}/src/notarius/{name}/py.typed", "")
        here.write(f"{folder}/changelog.d/+first.added.md", f"The {name} package.\n")


@pytest.fixture(scope="session")
def _has_tools(request: pytest.FixtureRequest) -> None:
    pytest.importorskip("towncrier", reason="run the nox session `releasing`")
    if shutil.which("git") is None:
        request.config.stash[_MISSED] = True
        pytest.skip("no git")


@pytest.fixture(scope="session")
def _laid_out(_has_tools: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("begun") / "repository"
    _lay_out(root)
    Repository(root).begin()
    return root


@pytest.fixture(scope="session")
def _with_releases(_laid_out: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("released") / "repository"
    shutil.copytree(_laid_out, root)
    here = Repository(root)
    here.env["SOURCE_DATE_EPOCH"] = "1000000000"
    for name in ("lower", "upper"):
        here.release(name, "0.1.0")
    return root


@pytest.fixture
def begun(_laid_out: Path, tmp_path: Path) -> Repository:
    """A repository that has released nothing so far."""
    shutil.copytree(_laid_out, tmp_path / "repository")
    return Repository(tmp_path / "repository")


@pytest.fixture
def released(_with_releases: Path, tmp_path: Path) -> Repository:
    """A repository whose two packages were released as 0.1.0, and nothing since."""
    shutil.copytree(_with_releases, tmp_path / "repository")
    return Repository(tmp_path / "repository")


@pytest.fixture
def real(_has_tools: None, tmp_path: Path) -> Repository:
    """A copy of this repository, without its history."""
    root = tmp_path / "repository"
    unwanted = shutil.ignore_patterns("__pycache__", ".*_cache", ".hypothesis", "build", "dist")
    for name in ("packages", "scripts", "examples", "tests/pins"):
        shutil.copytree(ROOT / name, root / name, ignore=unwanted)
    for name in ("pyproject.toml", ".gitignore", ".gitattributes", "LICENSE"):
        shutil.copy(ROOT / name, root / name)
    here = Repository(root)
    here.begin()
    return here


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say loudly that nothing was released."""
    if config.stash.get(_MISSED, False):
        terminalreporter.write_line(
            "NOT RUN: tests of releases. There is no git; install it.", yellow=True, bold=True
        )
