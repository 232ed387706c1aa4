"""Releases are found in git, by tag or by the commit's subject, and can be laid out again."""

from pathlib import Path
from typing import Any, TypeAlias

import pytest
from scripts.releases import GitError, Release, is_shallow, releases, unpack

Repository: TypeAlias = Any  # it stands in conftest.py, from which nothing can be imported


def found(here: Repository, package: str = "lower") -> dict[str, str]:
    """The versions that are found, in order, with their commits."""
    return {one.version: one.commit for one in releases(package, here.root)}


def test_a_release_is_found_by_tag_and_by_subject(released: Repository) -> None:
    """Both name the same commit, so that a clone without tags has the same releases."""
    by_tag = releases("lower", released.root)
    commit = released.git("rev-parse", "HEAD~1")
    assert by_tag == [Release(package="lower", version="0.1.0", commit=commit)]
    released.git("tag", "--delete", "notarius-lower-0.1.0")
    assert releases("lower", released.root) == by_tag


def test_a_tag_is_enough(released: Repository) -> None:
    """The tag may stand on another branch, or on a commit with another subject."""
    released.git("checkout", "--quiet", "-b", "other")
    commit = released.commit("Something else")
    released.git("tag", "notarius-lower-0.1.1")
    released.git("checkout", "--quiet", "main")
    assert list(found(released)) == ["0.1.0", "0.1.1"]
    assert found(released)["0.1.1"] == commit


def test_a_tag_wins_over_a_subject(released: Repository) -> None:
    """A subject can be repeated by mistake, a tag is made on purpose."""
    commit = found(released)["0.1.0"]
    again = released.commit("Release notarius-lower 0.1.0")
    assert found(released)["0.1.0"] == commit
    released.git("tag", "--delete", "notarius-lower-0.1.0")
    assert found(released)["0.1.0"] == again


@pytest.mark.parametrize("setting", [("grep.patternType", "fixed"), ("log.showSignature", "true")])
def test_a_setting_of_git_hides_no_release(released: Repository, setting: tuple[str, str]) -> None:
    """Whoever searches for fixed strings finds the same releases in a clone without tags."""
    wanted = found(released)
    released.git("tag", "--delete", "notarius-lower-0.1.0")
    released.git("config", *setting)
    assert found(released) == wanted


def test_releases_are_in_the_order_of_versions(released: Repository) -> None:
    """Numbers count as numbers, and the order in time counts for nothing."""
    for version in ("0.10.0", "0.9.0", "0.2.0"):
        released.commit(f"Release notarius-lower {version}")
    assert list(found(released)) == ["0.1.0", "0.2.0", "0.9.0", "0.10.0"]


@pytest.mark.parametrize(
    "message",
    [
        "Release notarius-lower 0.2",
        "Release notarius-lower 0.2.0 again",
        "Revert Release notarius-lower 0.2.0",
        "Release notarius-lowermost 0.2.0",
        "Release notarius-upper 0.2.0",
        "release notarius-lower 0.2.0",
        "Tell\n\nRelease notarius-lower 0.2.0",
    ],
)
def test_only_the_exact_subject_is_a_release(released: Repository, message: str) -> None:
    """Whoever writes about a release makes none."""
    released.commit(message)
    assert list(found(released)) == ["0.1.0"]


@pytest.mark.parametrize("name", ["notarius-lower-0.2", "notarius-lower-0.2.0rc1", "lower-0.2.0"])
def test_only_the_exact_tag_is_a_release(released: Repository, name: str) -> None:
    """Tags of other kinds may stand beside."""
    released.git("tag", name)
    assert list(found(released)) == ["0.1.0"]


def test_a_package_that_was_never_released_has_none(begun: Repository) -> None:
    """It is no error, as an unknown name is none."""
    assert releases("lower", begun.root) == []


def test_git_is_asked_about_this_tree(
    released: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a hook, git's own variables name the tree that the hook is about."""
    released.git("init", "--quiet", str(tmp_path / "other"))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other" / ".git"))
    assert list(found(released)) == ["0.1.0"]


def test_a_release_is_laid_out_as_it_was(released: Repository, tmp_path: Path) -> None:
    """Every byte of the package is that of the commit, with what a build of it reads."""
    (release,) = releases("lower", released.root)
    released.write("packages/lower/src/notarius/lower/later.py", "")
    released.replace("packages/lower/pyproject.toml", "Made up", "Changed")
    released.commit()
    folder = unpack(release, tmp_path / "out", released.root)
    assert folder == tmp_path / "out" / "packages" / "lower"
    names = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    listed = released.git("ls-tree", "-r", "--name-only", f"{release.commit}:packages/lower")
    assert names == set(listed.splitlines())
    assert "src/notarius/lower/__init__.py" in names
    for name in names:
        committed = released.git("show", f"{release.commit}:packages/lower/{name}")
        assert (folder / name).read_text("utf-8").strip() == committed
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [".gitignore", "packages"]


def test_a_commit_without_the_package_is_told(begun: Repository, tmp_path: Path) -> None:
    """Nothing is laid out for a package that was not there yet."""
    release = Release(package="newer", version="0.1.0", commit=begun.git("rev-parse", "HEAD"))
    with pytest.raises(GitError, match="has no packages/newer"):
        unpack(release, tmp_path / "out", begun.root)
    assert not (tmp_path / "out").exists()


def test_a_tree_without_git_is_told(begun: Repository, tmp_path: Path) -> None:
    """An unpacked archive, or one that lies in somebody else's repository, has no releases here."""
    (tmp_path / "empty").mkdir()
    with pytest.raises(GitError, match="no git repository with a commit"):
        releases("lower", tmp_path / "empty")
    with pytest.raises(GitError, match="lies in that of"):
        releases("lower", begun.root / "packages")


def test_a_machine_without_git_is_told(begun: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names what is missing."""
    monkeypatch.setenv("PATH", str(begun.root))
    with pytest.raises(GitError, match="git is needed"):
        releases("lower", begun.root)


def test_a_shallow_clone_is_known(released: Repository, tmp_path: Path) -> None:
    """It has fewer releases, perhaps, and can be told from a whole one."""
    address = released.root.as_uri()
    released.git("clone", "--quiet", "--depth", "1", "--no-tags", address, str(tmp_path / "clone"))
    assert (is_shallow(tmp_path / "clone"), is_shallow(released.root)) == (True, False)
    assert releases("lower", tmp_path / "clone") == []
    assert [one.version for one in releases("upper", tmp_path / "clone")] == ["0.1.0"]
