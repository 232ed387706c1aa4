"""One command releases one package: as a whole, or not at all."""

import hashlib
import shlex
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = sorted(path.parent.name for path in ROOT.glob("packages/*/pyproject.toml"))
LOWER, UPPER = "packages/lower/pyproject.toml", "packages/upper/pyproject.toml"

Repository: TypeAlias = Any  # it stands in conftest.py, from which nothing can be imported
Change: TypeAlias = Callable[[Repository], None]


def digests(folder: Path) -> dict[str, str]:
    """The files of a folder by their digests."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def take_greet_away(here: Repository, package: str) -> None:
    """Remove a function that the last release has."""
    here.write(f"packages/{package}/src/notarius/{package}/__init__.py", "__all__ = []\n")
    here.commit()


# ---------------------------------------------------------------- what a release is


def test_a_first_release_is_the_version_in_the_tree(begun: Repository, tmp_path: Path) -> None:
    """It is one commit and one annotated tag, the changelog made of fragments, and no upload."""
    before = begun.git("rev-parse", "HEAD")
    _ignore(begun, "*.json")  # the payloads belong to it, whatever somebody's git ignores
    begun.git("clone", "--quiet", "--bare", ".", str(tmp_path / "remote"))
    begun.git("remote", "add", "origin", str(tmp_path / "remote"))
    remote = begun.git("ls-remote", "origin")
    said = begun.release("lower", "0.1.0")
    assert begun.git("log", "--format=%s", f"{before}..main") == "Release notarius-lower 0.1.0"
    assert begun.git("rev-parse", "notarius-lower-0.1.0^{commit}") == begun.git("rev-parse", "main")
    assert begun.git("cat-file", "-t", "notarius-lower-0.1.0") == "tag"
    assert begun.git("show", "--name-status", "--format=", "HEAD").split() == [
        *("M", "packages/lower/CHANGELOG.md", "D", "packages/lower/changelog.d/+first.added.md"),
        *("A", "tests/pins/payloads/lower/0.1.0/Value.json"),
    ]
    assert begun.read("packages/lower/CHANGELOG.md") == (
        "# Changelog of notarius-lower\n\nNewest first.\n\n"
        "<!-- towncrier release notes start -->\n\n"
        "## 0.1.0, 2026-12-24\n\n### Added\n\n- The lower package.\n"
    )
    assert begun.git("ls-remote", "origin") == remote
    assert begun.git("status", "--short") == ""
    assert len(begun.git("worktree", "list").splitlines()) == 1
    assert said.splitlines()[-1] == (
        "Next: git push origin main notarius-lower-0.1.0 && twine upload "
        "build/release/notarius_lower-0.1.0-py3-none-any.whl "
        "build/release/notarius_lower-0.1.0.tar.gz"
    )


def test_a_wheel_and_an_sdist_are_left_of_it(released: Repository) -> None:
    """They are of the released version, and the sdist has the changelog but no fragment."""
    folder = released.root / "build" / "release"
    assert sorted(digests(folder)) == [
        "notarius_lower-0.1.0-py3-none-any.whl",
        "notarius_lower-0.1.0.tar.gz",
        "notarius_upper-0.1.0-py3-none-any.whl",
        "notarius_upper-0.1.0.tar.gz",
    ]
    with zipfile.ZipFile(folder / "notarius_upper-0.1.0-py3-none-any.whl") as wheel:
        metadata = wheel.read("notarius_upper-0.1.0.dist-info/METADATA").decode()
    assert "\nVersion: 0.1.0\n" in metadata
    with tarfile.open(folder / "notarius_upper-0.1.0.tar.gz") as sdist:
        names = {name.removeprefix("notarius_upper-0.1.0/") for name in sdist.getnames()}
        changelog = sdist.extractfile("notarius_upper-0.1.0/CHANGELOG.md")
        assert changelog is not None
        assert b"## 0.1.0, 2026-12-24" in changelog.read()
    assert names == {
        *(".gitignore", "CHANGELOG.md", "LICENSE", "PKG-INFO", "README.md", "pyproject.toml"),
        *("src/notarius/upper/__init__.py", "src/notarius/upper/py.typed"),
    }


def test_the_caller_has_no_part_in_the_bytes(released: Repository, tmp_path: Path) -> None:
    """Whoever checks out the tag and builds gets the same files, whatever the time is there."""
    other = tmp_path / "other"
    released.git("clone", "--quiet", "--branch", "notarius-lower-0.1.0", ".", str(other))
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(tmp_path / "dist"), "."],
        cwd=other / "packages" / "lower",
        check=True,
        capture_output=True,
    )
    kept = digests(released.root / "build" / "release")
    assert digests(tmp_path / "dist").items() <= kept.items()


def test_a_later_release_stands_above_the_earlier_one(released: Repository) -> None:
    """The version is raised in pyproject.toml, kinds have headings, and nothing old is lost."""
    released.git("branch", "--move", "main", "it's;b")
    released.tell("lower", "fixed", "A list of *two*\nlines.")
    released.tell("lower", "added", "A new thing.")
    said = released.release("lower", "patch")
    assert shlex.split(said.splitlines()[-1])[:5] == ["Next:", "git", "push", "origin", "it's;b"]
    assert tomllib.loads(released.read(LOWER))["project"]["version"] == "0.1.1"
    assert released.read("packages/lower/CHANGELOG.md").partition(" start -->\n\n")[2] == (
        "## 0.1.1, 2026-12-24\n\n"
        "### Added\n\n- A new thing.\n\n"
        "### Fixed\n\n- A list of *two*\n  lines.\n\n\n"
        "## 0.1.0, 2026-12-24\n\n### Added\n\n- The lower package.\n"
    )
    assert not (released.root / "packages/lower/changelog.d").exists()
    assert "0.1.0" in released.read(UPPER)


def test_a_dry_run_does_everything_and_keeps_nothing(released: Repository) -> None:
    """Changelog, changed files and artefacts are shown; the tree, branches and tags stay."""
    take_greet_away(released, "upper")
    released.tell("upper", "breaking", "The old way is gone.")
    before = released.state()
    said = released.release("upper", "minor", "--dry-run")
    assert released.state() == before
    assert "## 0.2.0, 2026-12-24\n\n### Breaking\n\n- The old way is gone." in said
    assert "packages/upper/pyproject.toml" in said
    assert "notarius_upper-0.2.0-py3-none-any.whl" in said
    assert "Mind that" not in said


@pytest.mark.parametrize(
    ("package", "before"), [("contracts", ["contracts"]), ("pipeline", PACKAGES)]
)
def test_this_repository_can_be_released_from(
    real: Repository, package: str, before: list[str]
) -> None:
    """A dry run of a real package's next version, of the lowest and of the highest layer."""
    for name in before:
        metadata = tomllib.loads(real.read(f"packages/{name}/pyproject.toml"))["project"]
        real.commit(f"Release notarius-{name} {metadata['version']}")
    # What is told so far may ask for a larger release.
    shutil.rmtree(real.root / f"packages/{package}/changelog.d", ignore_errors=True)
    real.tell(package, "fixed")
    said = real.release(package, "patch", "--dry-run")
    assert "- Something is new." in said
    assert f"tests/pins/payloads/{package}/" in said
    assert "Dry run: nothing of it is kept" in said


# ---------------------------------------------------------------- which version


@pytest.mark.parametrize(
    ("wanted", "version"),
    [("patch", "0.1.1"), ("minor", "0.2.0"), ("major", "1.0.0"), ("0.4.2", "0.4.2")],
)
def test_a_version_is_named_or_counted(released: Repository, wanted: str, version: str) -> None:
    """`patch`, `minor` and `major` raise one number of the last release and clear those after."""
    released.tell("upper", "fixed")
    assert released.plan("upper", wanted) == version


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ("0.1.0", "0.1.0 is not newer than 0.1.0, which is released"),
        ("0.0.9", "0.0.9 is not newer than 0.1.0"),
        ("0.2", "'0.2' is no version"),
        ("0.2.0rc1", "'0.2.0rc1' is no version"),
        ("v0.2.0", "'v0.2.0' is no version"),
        ("00.2.0", "'00.2.0' is no version"),
    ],
)
def test_a_version_must_be_a_newer_one(released: Repository, wanted: str, why: str) -> None:
    """Three numbers, and more than the last release."""
    released.tell("upper", "fixed")
    assert why in released.refusal("upper", wanted)


def test_a_first_version_is_named(begun: Repository) -> None:
    """Where there is nothing to count from, nothing is guessed."""
    why = begun.refusal("lower", "minor")
    assert "never released: name its first version, as in 0.1.0" in why


def test_no_version_goes_below_the_tree(released: Repository) -> None:
    """A version that pyproject.toml announces already is not undercut."""
    released.replace(LOWER, '"0.1.0"', '"0.1.5"')
    released.tell("lower", "fixed")
    assert "0.1.1 is older than 0.1.5" in released.refusal("lower", "patch")
    assert released.plan("lower", "0.1.5") == "0.1.5"


@pytest.mark.parametrize(
    ("last", "kind", "too_small", "enough"),
    [
        ("0.1.0", "breaking", "patch", "minor"),
        ("0.1.0", "deprecated", None, "patch"),
        ("0.1.0", "added", None, "patch"),
        ("1.2.3", "breaking", "minor", "major"),
        ("1.2.3", "deprecated", "patch", "minor"),
        ("1.2.3", "added", "patch", "minor"),
        ("1.2.3", "changed", "patch", "minor"),
        ("1.2.3", "fixed", None, "patch"),
        ("1.2.3", "misc", None, "patch"),
    ],
)
def test_a_release_is_as_large_as_its_fragments_say(
    released: Repository, last: str, kind: str, too_small: str | None, enough: str
) -> None:
    """Below 1.0 a patch release breaks nothing; from 1.0 on it adds nothing either."""
    released.replace(UPPER, 'version = "0.1.0"', f'version = "{last}"')
    released.commit(f"Release notarius-upper {last}")
    released.tell("upper", "fixed")
    released.tell("upper", kind)
    if too_small:
        why = released.refusal("upper", too_small)
        assert f"packages/upper/changelog.d/+something.{kind}.md tells of a change" in why
        assert f"a {enough} release after {last}" in why
    assert released.plan("upper", enough) > last


def test_a_break_that_nobody_told_of_is_found_in_the_code(released: Repository) -> None:
    """The API is compared with that of the last release, whatever the fragments say."""
    take_greet_away(released, "upper")
    released.tell("upper", "fixed")
    why = released.refusal("upper", "patch")
    assert "notarius.upper.greet: is gone: breaks who pins 0.1.0" in why


def test_what_was_accepted_leaves_with_the_release(released: Repository) -> None:
    """Against the new release it is no change, and would be an error from then on."""
    for name in ("lower", "upper"):
        take_greet_away(released, name)
    accepted = [
        f'[{name}]\n"notarius.{name}.greet: is gone" = "Nobody [greets]."\n\n'
        for name in ("lower", "upper")
    ]
    released.write("tests/pins/accepted.toml", "# Some.\n\n" + "".join(accepted))
    released.tell("lower", "fixed")
    released.release("lower", "patch")
    assert released.read("tests/pins/accepted.toml") == "# Some.\n\n" + accepted[1]


# ---------------------------------------------------------------- siblings


def test_no_sibling_is_left_behind(released: Repository) -> None:
    """A version outside a sibling's range is refused, with both ways out; each of them works."""
    released.tell("lower", "added")
    why = released.refusal("lower", "minor")
    assert f"{UPPER} requires notarius-lower>=0.1,<0.2, which leaves out 0.2.0" in why
    assert "widen that range before, and release notarius-upper next, or make this a smaller" in why
    assert released.plan("lower", "patch") == "0.1.1"
    released.replace(UPPER, "<0.2", "<0.3")
    released.tell("upper", "changed", "Works with notarius-lower 0.2, too.")
    # Whether upper needs what lower has not released, only a person knows.
    assert "Mind that lower has changes" in released.release("upper", "patch", "--dry-run")
    assert "Mind that" not in released.release("lower", "minor")
    assert released.plan("upper", "patch") == "0.1.1"


def test_who_lives_in_the_examples_is_asked_too(released: Repository) -> None:
    """The example of a downstream repository has a range that a release must fit."""
    released.write(
        "examples/downstream/pyproject.toml",
        '[project]\nname = "factionbook"\ndependencies = ["notarius-upper>=0.1,<0.2"]\n',
    )
    released.tell("upper", "added")
    why = released.refusal("upper", "minor")
    assert "examples/downstream/pyproject.toml requires notarius-upper>=0.1,<0.2" in why
    assert "widen that range before, or make this a smaller release" in why


def test_the_lowest_layer_is_released_first(begun: Repository) -> None:
    """A wheel that requires what nobody can get is not made."""
    why = begun.refusal("upper", "0.1.0")
    assert f"{UPPER} requires notarius-lower>=0.1,<0.2, and no such version is released" in why
    assert "release lower first" in why


def test_a_range_admits_the_tree_that_was_tested(released: Repository) -> None:
    """What the tests ran against is what the wheel requires."""
    released.replace(UPPER, "<0.2", "<0.1.0")
    released.tell("upper", "fixed")
    assert "leaves out 0.1.0, the version in packages/lower" in released.refusal("upper", "patch")


def test_extras_require_siblings_as_well(begun: Repository) -> None:
    """A range in an extra counts, and an extra that names the package itself is no sibling."""
    begun.replace(
        UPPER,
        "[tool.hatch.build.targets.wheel]",
        '[project.optional-dependencies]\none = ["notarius-lower<0.1.1"]\n'
        'all = ["notarius-upper[one]"]\n\n[tool.hatch.build.targets.wheel]',
    )
    begun.commit()
    assert "notarius-lower<0.1.1, which leaves out 0.1.1" in begun.refusal("lower", "0.1.1")
    begun.commit("Release notarius-lower 0.1.0")
    assert begun.plan("upper", "0.1.0") == "0.1.0"


# ---------------------------------------------------------------- refusals


def _changed(here: Repository) -> None:
    here.write("packages/lower/README.md", "# Changed\n")


def _added(here: Repository) -> None:
    here.git("config", "status.showUntrackedFiles", "no")
    here.write("packages/lower/changelog.d/+more.fixed.md", "More.\n")


def _staged(here: Repository) -> None:
    _changed(here)
    here.git("add", "--all")


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        (_changed, "M packages/lower/README.md"),
        (_added, "?? packages/lower/changelog.d/+more.fixed.md"),
        (_staged, "M  packages/lower/README.md"),
    ],
)
@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_a_tree_with_changes_is_not_released(
    begun: Repository, change: Change, shown: str, more: tuple[str, ...]
) -> None:
    """What is released is what is committed, so that nothing is forgotten."""
    change(begun)
    why = begun.refusal("lower", "0.1.0", *more)
    assert "commit these changes first" in why
    assert shown in why


def test_an_unknown_package_is_told_with_the_known_ones(begun: Repository) -> None:
    """A typing error is found by reading the message."""
    assert begun.refusal("lowr", "0.1.0") == "there is no package 'lowr'; there are lower, upper"


def test_there_is_something_to_tell(released: Repository) -> None:
    """No fragment, no release; one of the kind `misc` is enough."""
    why = released.refusal("lower", "patch")
    assert "packages/lower/changelog.d/ has no fragment" in why
    assert "misc" in why
    released.tell("lower", "misc", "Nothing that a user sees.")
    assert released.plan("lower", "patch") == "0.1.1"


def test_a_detached_head_is_not_released(begun: Repository) -> None:
    """The commit would be on no branch."""
    begun.git("checkout", "--quiet", "--detach")
    assert "HEAD is detached" in begun.refusal("lower", "0.1.0")


def test_a_shallow_clone_is_not_released(released: Repository, tmp_path: Path) -> None:
    """A release that it does not have could be made again."""
    released.tell("lower", "fixed")
    address = released.root.as_uri()
    released.git("clone", "--quiet", "--depth", "1", "--no-tags", address, str(tmp_path / "clone"))
    shallow = type(released)(tmp_path / "clone")
    assert "git fetch --unshallow --tags" in shallow.refusal("lower", "0.1.0")


def test_a_tree_without_git_is_not_released(begun: Repository) -> None:
    """An unpacked archive has no history, and says so."""
    (begun.root / ".git").rename(begun.root.parent / "elsewhere")
    assert "is no git repository with a commit" in begun.refusal("lower", "0.1.0")


@pytest.mark.parametrize("arguments", [(), ("lower",), ("lower", "0.1.0", "--date", "Monday")])
def test_a_command_that_can_not_be_read_is_told_how_to_write_it(
    begun: Repository, arguments: tuple[str, ...]
) -> None:
    """Usage errors have a status of their own."""
    done = begun.run(*arguments)
    assert done.returncode == 2
    assert "usage: release" in done.stderr


# ---------------------------------------------------------------- fragments


def test_the_fragments_of_this_repository_are_right() -> None:
    """Each has a kind that is known, belongs to a package, and says something."""
    done = subprocess.run(
        [sys.executable, "-m", "scripts.release", "--check"],
        cwd=ROOT,
        capture_output=True,
        check=False,
        text=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("path", "text", "why"),
    [
        ("packages/upper/changelog.d/+some.novelty.md", "New.\n", "KIND one of breaking, depr"),
        ("packages/upper/changelog.d/some.added.md", "New.\n", "+SHORT-TITLE.KIND.md"),
        ("packages/upper/changelog.d/+some.added.rst", "New.\n", "+SHORT-TITLE.KIND.md"),
        ("packages/upper/changelog.d/+some.added", "New.\n", "+SHORT-TITLE.KIND.md"),
        ("packages/upper/changelog.d/README.md", "New.\n", "+SHORT-TITLE.KIND.md"),
        ("packages/upper/changelog.d/+a.added.md/+b.added.md", "New.\n", "+SHORT-TITLE.KIND.md"),
        ("packages/upper/changelog.d/+some.added.md", " \n", "+some.added.md is empty"),
        ("packages/uper/changelog.d/+some.added.md", "New.\n", "packages/uper/changelog.d belongs"),
        ("changelog.d/+some.added.md", "New.\n", "changelog.d belongs to no package"),
        ("packages/upper/CHANGELOG.md", "# Changelog\n", "lacks the line <!-- towncrier release"),
    ],
)
def test_a_fragment_that_would_be_left_out_is_told(
    begun: Repository, path: str, text: str, why: str
) -> None:
    """Towncrier passes over what it does not know; here it stops every release, and the check."""
    begun.write(path, text)
    begun.commit()
    assert why in begun.refusal("lower", "0.1.0")
    done = begun.run("--check")
    assert done.returncode == 1
    assert why in done.stderr


def test_a_fragment_that_git_ignores_is_not_released(begun: Repository) -> None:
    """It would be counted in the folder, and be missing in the changelog."""
    _ignore(begun, "+more*")
    begun.write("packages/lower/changelog.d/+more.fixed.md", "It is right.\n")
    why = begun.refusal("lower", "0.1.0")
    assert "`git add --force`" in why
    assert why.endswith("\npackages/lower/changelog.d/+more.fixed.md")


def test_a_fragment_is_in_no_sdist(begun: Repository, tmp_path: Path) -> None:
    """What is built between two releases has none either; the check of the built files tells."""
    begun.replace(LOWER, '"CHANGELOG.md"]', '"CHANGELOG.md", "changelog.d"]')
    python = (sys.executable, "-m", "build", "--no-isolation", "--outdir", str(tmp_path / "dist"))
    subprocess.run([*python, "packages/lower"], cwd=begun.root, check=True, capture_output=True)
    done = subprocess.run(
        [sys.executable, "scripts/check_wheels.py", str(tmp_path / "dist"), "lower"],
        cwd=begun.root,
        capture_output=True,
        check=False,
        text=True,
    )
    assert done.returncode == 1
    assert "not for the sdist: changelog.d/+first.added.md" in done.stdout


# ---------------------------------------------------------------- all or nothing


def _no_readme(here: Repository) -> None:
    (here.root / "packages/lower/README.md").unlink()
    here.commit()


def _no_licence(here: Repository) -> None:
    (here.root / "packages/lower/LICENSE").unlink()
    here.commit()


def _empty_readme(here: Repository) -> None:
    here.write("packages/lower/README.md", "")
    here.commit()


def _two_versions(here: Repository) -> None:
    here.write("packages/lower/pyproject.toml", here.read(LOWER) + '[tool.x]\nversion = "1"\n')
    here.commit()


def _no_author(here: Repository) -> None:
    here.git("config", "user.useConfigOnly", "true")
    here.env = {name: text for name, text in here.env.items() if not name.startswith("GIT_A")}


def _refusing_hook(here: Repository) -> None:
    _hook(here, "echo No, never. >&2; exit 1")


def _commit_meanwhile(here: Repository) -> None:
    _hook(
        here,
        f"unset GIT_DIR GIT_INDEX_FILE GIT_WORK_TREE; cd '{here.root}' && "
        "git commit --quiet --no-verify --allow-empty --message Meanwhile",
    )


def _renaming_hook(here: Repository) -> None:
    _hook(here, 'sed -i "1s/^/X-1: /" "$1"', "commit-msg")


def _failing_checkout(here: Repository) -> None:
    _hook(here, "exit 1", "post-checkout")


def _no_folder(here: Repository) -> None:
    here.write("build/release", "no folder")


def _ignored_in_the_way(here: Repository) -> None:
    _ignore(here, "Value.json")
    here.write("tests/pins/payloads/lower/0.1.0/Value.json", "somebody's")
    here.write("build/release/notarius_lower-0.1.0.tar.gz", "somebody's")


def _ignore(here: Repository, pattern: str) -> None:
    here.write(".git/info/exclude", f"{pattern}\n")


def _hook(here: Repository, script: str, name: str = "pre-commit") -> None:
    path = here.root / ".git" / "hooks" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def _other_bytes(here: Repository) -> None:
    """Build the name of the folder that is built in into the sdist."""
    here.write(
        "packages/lower/hatch_build.py",
        "from pathlib import Path\n"
        "from hatchling.builders.hooks.plugin.interface import BuildHookInterface\n"
        "class Place(BuildHookInterface):\n"
        "    def initialize(self, version, build_data):\n"
        "        Path(self.root, 'src/notarius/lower/place.txt').write_text(self.root)\n",
    )
    here.write(LOWER, here.read(LOWER) + "\n[tool.hatch.build.targets.sdist.hooks.custom]\n")
    here.commit()


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (_two_versions, "has 2 lines `version"),
        (_no_author, "git commit failed"),
        (_refusing_hook, "No, never."),
        (_no_readme, "README.md"),
        (_other_bytes, "a second build gives other bytes: notarius_lower-0.1.0"),
        (_no_licence, "licenses/LICENSE"),
        (_empty_readme, "twine check --strict"),
        (_renaming_hook, "'X-1: Release notarius-lower 0.1.0' of the subject"),
        (_failing_checkout, "git worktree failed"),
        (_no_folder, "build/release can't be written to"),
        (_ignored_in_the_way, "lower/0.1.0/Value.json"),
    ],
)
def test_a_failure_leaves_nothing(begun: Repository, spoil: Change, why: str) -> None:
    """Whatever step fails, the folder, its branch, its tags and the artefacts are as before."""
    spoil(begun)
    assert why in begun.refusal("lower", "0.1.0")
    assert begun.git("tag") == ""


def test_what_is_committed_meanwhile_is_not_lost(begun: Repository) -> None:
    """A branch that moved on while the release was made stays where it is."""
    _commit_meanwhile(begun)
    done = begun.run("lower", "0.1.0")
    assert done.returncode == 1
    assert "git merge failed" in done.stderr
    assert begun.git("log", "-1", "--format=%s") == "Meanwhile"
    assert begun.git("tag") == ""
    assert begun.git("status", "--short") == ""
    assert not list(begun.root.glob("build/release/*"))


def test_another_branch_does_not_get_the_release(begun: Repository) -> None:
    """Whoever switches while it is made is told to switch back."""
    begun.git("branch", "other")
    _hook(begun, f"unset GIT_DIR GIT_INDEX_FILE; cd '{begun.root}' && git switch --quiet other")
    before = begun.git("for-each-ref")
    done = begun.run("lower", "0.1.0")
    assert done.returncode == 1
    assert "main was checked out when the release began, and now other is" in done.stderr
    assert begun.git("for-each-ref") == before


@pytest.mark.parametrize(("step", "made"), [("tag", False), ("merge", True)])
def test_an_interruption_leaves_no_half_release(
    begun: Repository, tmp_path: Path, step: str, *, made: bool
) -> None:
    """Ctrl-C before the branch moved on takes the tag back; after that, the release is whole."""
    wrapper = tmp_path / "bin" / "git"
    wrapper.parent.mkdir()
    wrapper.write_text(
        f"""#!/bin/sh
'{shutil.which("git")}' "$@" || exit
case " $* " in *" {step} --annotate "*|*" {step} --ff-only "*) kill -INT $PPID; sleep 9;; esac
"""
    )
    wrapper.chmod(0o755)
    before = begun.state()
    begun.env["PATH"] = f"{wrapper.parent}:{begun.env['PATH']}"
    done = begun.run("lower", "0.1.0")
    assert ("Committed as" in done.stdout) == made
    assert (done.returncode == 0) == made
    if not made:
        assert begun.state() == before
        return
    assert begun.git("rev-parse", "notarius-lower-0.1.0^{commit}") == begun.git("rev-parse", "main")
    assert begun.git("status", "--short") == ""
    assert len(digests(begun.root / "build" / "release")) == 2
