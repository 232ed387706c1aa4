"""Which siblings a package is tested with, in made-up repositories."""

import subprocess
from pathlib import Path

import pytest
from scripts import oldest_siblings
from scripts.oldest_siblings import lay_out, oldest
from scripts.releases import Release


class Repository:
    """A repository with packages that need each other."""

    def __init__(self, root: Path) -> None:
        """Begin an empty one."""
        self.root = root
        self.git("init", "--quiet")
        self.git("config", "user.name", "A")
        self.git("config", "user.email", "a@example.org")

    def git(self, *arguments: str) -> None:
        """Run git in it."""
        subprocess.run(["git", *arguments], cwd=self.root, check=True)  # noqa: S607 - on PATH

    def write(self, package: str, version: str, *needs: str) -> None:
        """Write the metadata of a package."""
        folder = self.root / "packages" / package
        folder.mkdir(parents=True, exist_ok=True)
        listed = ", ".join(f'"{need}"' for need in needs)
        (folder / "pyproject.toml").write_text(
            f'[project]\nname = "notarius-{package}"\nversion = "{version}"\n'
            f"dependencies = [{listed}]\n"
        )

    def release(self, package: str, version: str, *needs: str) -> None:
        """Commit a version of a package as a release."""
        self.write(package, version, *needs)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", f"Release notarius-{package} {version}")


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """A repository in which `contracts` has four releases and `middle` two.

    Each test writes `top` anew, which is not committed.
    """
    made = Repository(tmp_path_factory.mktemp("repository"))
    made.release("contracts", "0.1.0")
    made.release("contracts", "0.1.1")
    made.release("middle", "0.1.0", "notarius-contracts>=0.1,<0.2")
    made.release("contracts", "0.1.10")
    made.release("contracts", "0.2.0")
    made.release("middle", "0.1.1", "notarius-contracts>=0.1.1,<0.2")
    made.write("lonely", "0.1.0", "msgspec>=0.21,<1")
    return made


def versions(chosen: dict[str, Release | None]) -> dict[str, str | None]:
    """Return what was chosen, by version."""
    return {name: None if one is None else one.version for name, one in chosen.items()}


@pytest.mark.parametrize(
    ("needs", "expected"),
    [
        (["notarius-contracts>=0.1,<0.2"], {"contracts": "0.1.0"}),
        (["notarius-contracts>=0.1.2,<0.2"], {"contracts": "0.1.10"}),
        (["notarius-contracts>=0.2,<0.3"], {"contracts": "0.2.0"}),
        (["notarius-contracts>=0.3,<0.4"], {"contracts": None}),
        (["notarius-middle>=0.1,<0.2"], {"middle": "0.1.0", "contracts": "0.1.0"}),
        # The oldest that the sibling admits may be newer than what the package itself would take.
        (
            ["notarius-middle>=0.1.1,<0.2", "notarius-contracts>=0.1,<0.2"],
            {"middle": "0.1.1", "contracts": "0.1.1"},
        ),
        (
            ["notarius-middle>=0.1,<0.2", "notarius-contracts>=0.1.1,<0.2"],
            {"middle": "0.1.0", "contracts": "0.1.1"},
        ),
        (["msgspec>=0.21,<1"], {}),
    ],
)
def test_the_oldest_that_all_admit_is_chosen(
    repository: Repository, needs: list[str], expected: dict[str, str | None]
) -> None:
    """Each sibling is the oldest release in the ranges of the package and of its siblings."""
    repository.write("top", "0.1.0", *needs)
    assert versions(oldest("top", repository.root)) == expected


@pytest.fixture
def wheels(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Wheels of the tree; those of a release are files that say which release it is."""
    dist = tmp_path_factory.mktemp("dist")
    for name in ("contracts", "middle", "top", "lonely"):
        (dist / f"notarius_{name}-9-py3-none-any.whl").write_text("tree")

    def build(release: Release, into: Path, root: Path) -> Path:
        into.mkdir(parents=True, exist_ok=True)
        wheel = into / f"notarius_{release.package}-{release.version}-py3-none-any.whl"
        wheel.write_text("tree" if release.version == "0.1.10" else "released")
        return wheel

    monkeypatch.setattr(oldest_siblings, "build", build)
    return dist


def test_wheels_are_laid_out_with_what_binds_them(
    repository: Repository, wheels: Path, tmp_path: Path
) -> None:
    """The package's wheel is the tree's, those of its siblings are the released ones."""
    repository.write("top", "0.1.0", "notarius-contracts>=0.1,<0.2")
    into = tmp_path / "laid" / "top"
    assert lay_out("top", wheels, into, repository.root) == (
        "notarius-top of the tree with contracts 0.1.0"
    )
    contents = {path.name.split("-")[0]: path.read_text() for path in into.glob("*.whl")}
    assert contents == {"notarius_top": "tree", "notarius_contracts": "released"}
    bound = dict(line.split(" @ ") for line in (into / "constraints.txt").read_text().splitlines())
    assert bound == {
        f"notarius-{name}": next(into.glob(f"notarius_{name}-*.whl")).as_uri()
        for name in ("contracts", "top")
    }


@pytest.mark.parametrize(
    ("package", "needs", "said"),
    [
        ("lonely", None, "needs no sibling"),
        ("top", ["notarius-contracts>=0.3,<0.4"], "NOT TESTED: nothing is released"),
        ("top", ["notarius-contracts>=0.1.2,<0.2"], "are the tree's own"),
    ],
)
def test_what_would_be_the_same_is_not_tested_again(
    repository: Repository,
    wheels: Path,
    tmp_path: Path,
    package: str,
    needs: list[str] | None,
    said: str,
) -> None:
    """Where there is nothing older, no wheel is laid out, and that is said."""
    if needs is not None:
        repository.write(package, "0.1.0", *needs)
    told = lay_out(package, wheels, tmp_path / "laid" / package, repository.root)
    assert said in told
    assert f"wheel({package})" in told
    assert not (tmp_path / "laid" / package).exists()
