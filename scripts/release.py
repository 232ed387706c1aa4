"""Release one package: version, changelog, build, checks, commit and tag.

Usage: `python -m scripts.release PACKAGE VERSION|patch|minor|major [--dry-run]`, or with `--check`
alone to look at the changelog fragments. docs/releasing.md is the page for whoever releases.

All work is done in a git worktree of its own, away from the folder that is released from. What that
folder has at the end, it gets in one step; if anything fails before, it has nothing. Nothing is
uploaded or pushed.
"""

import argparse
import datetime as dt
import hashlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from scripts.pins import project
from scripts.releases import (
    ROOT,
    GitError,
    Release,
    environment,
    git,
    is_shallow,
    numbers,
    releases,
    require_repository,
    subject,
    tag,
    unpack,
)

ARTEFACTS: Final = ROOT / "build" / "release"
PROJECT: Final = "pyproject.toml"
FRAGMENTS: Final = "changelog.d"
MARKER: Final = "<!-- towncrier release notes start -->"
"""New sections are written below it; without it they would stand above the changelog's title."""
LEVELS: Final = ("patch", "minor", "major")
# What a kind of change asks for from 1.0 on; below, it is one level less. Others fit any release.
NEEDED: Final = {"breaking": "major", "deprecated": "minor", "added": "minor", "changed": "minor"}


class ReleaseError(Exception):
    """The release can't be made; the message says why, and what to do."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is to be released, on top of which commit."""

    package: str
    version: str
    last: str | None
    head: str
    branch: str
    date: str

    @property
    def folder(self) -> str:
        """The package's folder, from the root."""
        return f"packages/{self.package}"


# ---------------------------------------------------------------- reading the tree


def packages() -> list[str]:
    """Return the names of all packages."""
    return sorted(path.parent.name for path in ROOT.glob(f"packages/*/{PROJECT}"))


def load(path: Path) -> dict[str, Any]:
    """Read a TOML file."""
    return tomllib.loads(path.read_text(encoding="utf-8"))


def needs(metadata: dict[str, Any], package: str) -> Iterator[tuple[str, SpecifierSet]]:
    """Yield the requirements of a package, as they are written, and the ranges in them."""
    lists = [metadata.get("dependencies", []), *metadata.get("optional-dependencies", {}).values()]
    for line in (line for lines in lists for line in lines):
        need = Requirement(line)
        if need.name == f"notarius-{package}":
            yield line, need.specifier


def siblings(package: str) -> list[str]:
    """Return the names of the packages that one requires."""
    mine = project(package)
    return [name for name in packages() if name != package and any(needs(mine, name))]


def kinds() -> list[str]:
    """Return the kinds of fragments that towncrier is configured for."""
    towncrier = load(ROOT / PROJECT)["tool"]["towncrier"]
    return [kind["directory"] for kind in towncrier["type"]]


def current_branch() -> str:
    """Return the branch that is checked out; an empty string if there is none."""
    return git(ROOT, "branch", "--show-current").decode().strip()


def fragments(package: str) -> list[Path]:
    """Return the fragments of a package's next release."""
    return sorted((ROOT / "packages" / package / FRAGMENTS).glob("*"))


def fragment_problems() -> list[str]:
    """Say what towncrier would leave out, or put where nobody looks."""
    named = re.compile(rf"\+[a-z0-9-]+\.({'|'.join(kinds())})\.md")
    folders = [*ROOT.glob(FRAGMENTS), *sorted(ROOT.glob(f"packages/*/{FRAGMENTS}"))]
    found = [
        f"{folder.relative_to(ROOT)} belongs to no package; there are {', '.join(packages())}"
        for folder in folders
        if not (folder.parent.parent.name == "packages" and folder.parent.name in packages())
    ]
    for package in packages():
        changelog = ROOT / "packages" / package / "CHANGELOG.md"
        if f"\n{MARKER}\n" not in changelog.read_text(encoding="utf-8"):
            found.append(f"{changelog.relative_to(ROOT)} lacks the line {MARKER}")
        for fragment in fragments(package):
            place = fragment.relative_to(ROOT)
            if not named.fullmatch(fragment.name) or not fragment.is_file():
                found.append(
                    f"{place}: a fragment's name is +SHORT-TITLE.KIND.md, the title in small "
                    f"letters, digits and hyphens, KIND one of {', '.join(kinds())}"
                )
            elif not fragment.read_text(encoding="utf-8").strip():
                found.append(f"{place} is empty; it is to say what changes for a user")
    return found


# ---------------------------------------------------------------- what may be released


def next_version(package: str, wanted: str, last: str | None) -> str:
    """Return the version that is asked for, if it is newer than what there is."""
    here = project(package)["version"]
    if wanted not in LEVELS:
        try:
            new = numbers(wanted)
        except ValueError as error:
            raise ReleaseError(f"{error}; or say {', '.join(LEVELS)}") from None
    elif last is None:
        message = f"notarius-{package} was never released: name its first version, as in {here}"
        raise ReleaseError(message)
    else:
        major, minor, patch = numbers(last)
        new = {
            "major": (major + 1, 0, 0),
            "minor": (major, minor + 1, 0),
            "patch": (major, minor, patch + 1),
        }[wanted]
    version = ".".join(map(str, new))
    if last is not None and new <= numbers(last):
        raise ReleaseError(f"{version} is not newer than {last}, which is released")
    if new < numbers(here):
        raise ReleaseError(f"{version} is older than {here}, as packages/{package}/{PROJECT} says")
    return version


def check_level(package: str, version: str, last: str) -> None:
    """Refuse a release that is smaller than what its fragments tell."""
    old, new = numbers(last), numbers(version)
    given = next(2 - place for place in range(3) if old[place] != new[place])
    for fragment in fragments(package):
        kind = fragment.name.split(".")[-2]
        needed = LEVELS.index(NEEDED.get(kind, "patch"))
        if old[0] == 0:
            needed = max(needed - 1, 0)
        if given < needed:
            raise ReleaseError(
                f"{fragment.relative_to(ROOT)} tells of a change of the kind {kind}, which asks "
                f"for a {LEVELS[needed]} release after {last}; {version} is a {LEVELS[given]} one"
            )


def check_who_needs_it(package: str, version: str) -> None:
    """Refuse a version that somebody in this repository leaves out."""
    for folder in ("packages", "examples"):
        for path in sorted(ROOT.glob(f"{folder}/*/{PROJECT}")):
            metadata = load(path)["project"]
            for line, allowed in needs(metadata, package):
                if allowed.contains(version):
                    continue
                then = f", and release {metadata['name']} next" if folder == "packages" else ""
                raise ReleaseError(
                    f"{path.relative_to(ROOT)} requires {line}, which leaves out {version}. "
                    f"Either widen that range before{then}, or make this a smaller release"
                )


def check_what_it_needs(package: str) -> None:
    """Refuse to release what can't be installed, since a sibling is missing."""
    for sibling in siblings(package):
        here = project(sibling)["version"]
        for line, allowed in needs(project(package), sibling):
            if not allowed.contains(here):
                raise ReleaseError(
                    f"packages/{package}/{PROJECT} requires {line}, which leaves out {here}, "
                    f"the version in packages/{sibling}: mend the range"
                )
            known = [one.version for one in releases(sibling, ROOT)]
            if not any(map(allowed.contains, known)):
                raise ReleaseError(
                    f"packages/{package}/{PROJECT} requires {line}, and no such version is "
                    f"released: release {sibling} first"
                )


def plan(package: str, wanted: str, date: str) -> Plan:
    """Decide what is released, or raise `ReleaseError`."""
    require_repository(ROOT)
    if package not in packages():
        raise ReleaseError(f"there is no package {package!r}; there are {', '.join(packages())}")
    # Files that git does not know are shown whatever is configured: a fragment may be among them.
    if changed := git(ROOT, "status", "--porcelain", "--untracked-files").decode(errors="replace"):
        raise ReleaseError(f"commit these changes first, or put them aside:\n{changed.rstrip()}")
    # What is left that git does not know, it ignores; it would be missing in what is released.
    places = (f"{FRAGMENTS}/*", f"packages/*/{FRAGMENTS}/*")
    if ignored := git(ROOT, "ls-files", "--others", "--", *places).decode(errors="replace"):
        raise ReleaseError(
            f"git ignores these, so that they would not be released; delete them, or "
            f"`git add --force` and commit them:\n{ignored.rstrip()}"
        )
    branch = current_branch()
    if not branch:
        raise ReleaseError("HEAD is detached: check out the branch that is released from")
    if is_shallow(ROOT):
        raise ReleaseError(
            "this clone lacks old commits, which may be releases: `git fetch --unshallow --tags`"
        )
    if problems := fragment_problems():
        raise ReleaseError("\n".join(problems))
    if not fragments(package):
        raise ReleaseError(
            f"packages/{package}/{FRAGMENTS}/ has no fragment, so the changelog would say nothing; "
            f"write one, of the kind misc if no user will notice anything"
        )
    released = releases(package, ROOT)
    last = released[-1].version if released else None
    version = next_version(package, wanted, last)
    if last is not None:
        check_level(package, version, last)
    check_who_needs_it(package, version)
    check_what_it_needs(package)
    head = git(ROOT, "rev-parse", "HEAD").decode().strip()
    return Plan(
        package=package, version=version, last=last, head=head, branch=branch, date=date
    )  # fmt: skip


# ---------------------------------------------------------------- making it


@contextmanager
def worktree(head: str) -> Iterator[Path]:
    """Lay out a commit in a folder of its own, with room beside it; it is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="notarius-release-") as scratch:
        tree = Path(scratch).resolve() / "tree"
        try:
            git(ROOT, "worktree", "add", "--quiet", "--detach", str(tree), head)
            yield tree
        finally:
            # If git does not forget it now, it does when it tidies up: the folder is gone.
            with suppress(GitError):
                git(ROOT, "worktree", "remove", "--force", str(tree))


def run(tree: Path, *command: str) -> None:
    """Run a Python tool in the worktree; show what it says only if it fails."""
    # The dates in the artefacts are hatchling's own, whatever the caller's environment says.
    env = {name: value for name, value in environment().items() if name != "SOURCE_DATE_EPOCH"}
    done = subprocess.run(  # noqa: S603 - our own tools
        [sys.executable, *command],
        cwd=tree,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    if done.returncode:
        said = done.stdout.decode("utf-8", "replace").strip()
        raise ReleaseError(f"`python {' '.join(command)}` failed:\n{said}")


def write(tree: Path, made: Plan) -> str:
    """Write into the worktree what a release changes; return the changelog's new section."""
    path = tree / made.folder / PROJECT
    line = f'version = "{made.version}"'
    text, count = re.subn(r'(?m)^version = ".*"$', line, path.read_text(encoding="utf-8"))
    if count != 1:
        raise ReleaseError(f'{made.folder}/{PROJECT} has {count} lines `version = "…"`, not one')
    path.write_text(text, encoding="utf-8")
    run(
        tree,
        *("-m", "towncrier", "build", "--yes", "--config", PROJECT, "--dir", made.folder),
        *("--version", made.version, "--date", made.date),
    )
    # Whatever the fragments say: a change that breaks is found in the code, too.
    run(tree, "-m", "scripts.check_api")
    # What is accepted against the last release is no change against this one.
    accepted = tree / "tests" / "pins" / "accepted.toml"
    table = rf"(?ms)^\[{made.package}\]$.*?(?=^\[|\Z)"
    accepted.write_text(re.sub(table, "", accepted.read_text(encoding="utf-8")), encoding="utf-8")
    run(tree, "scripts/store_payloads.py", made.package)
    changelog = (tree / made.folder / "CHANGELOG.md").read_text(encoding="utf-8")
    return re.split(r"(?m)^(?=## )", changelog.partition(MARKER)[2])[1].strip()


def commit(tree: Path, made: Plan) -> str:
    """Commit what was written, in the worktree alone; return the commit."""
    git(tree, "add", "--all")
    payloads = f"tests/pins/payloads/{made.package}/{made.version}"
    if (tree / payloads).exists():
        # Whatever git is told to ignore on this machine.
        git(tree, "add", "--force", "--", payloads)
    wanted = subject(made.package, made.version)
    git(tree, "commit", "--quiet", "--message", wanted)
    got = git(tree, "log", "-1", "--no-show-signature", "--format=%s").decode(errors="replace")
    if got.strip() != wanted:
        raise ReleaseError(
            f"a hook or a setting of git made {got.strip()!r} of the subject {wanted!r}, by which "
            f"a release is found: let it leave such commits alone"
        )
    return git(tree, "rev-parse", "HEAD").decode().strip()


def build(tree: Path, made: Plan, identifier: str, scratch: Path) -> list[Path]:
    """Build the commit twice, check what came of it, and return the wheel and the sdist."""
    release = Release(package=made.package, version=made.version, commit=identifier)
    source = unpack(release, scratch / "source", ROOT)
    digests: list[dict[str, str]] = []
    for name, folder in (("dist", source), ("again", tree / made.folder)):
        out = scratch / name
        run(tree, "-m", "build", "--no-isolation", "--outdir", str(out), str(folder))
        digests.append({p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in out.iterdir()})
    if digests[0] != digests[1]:
        names = sorted({name for name, _ in digests[0].items() ^ digests[1].items()})
        raise ReleaseError(f"a second build gives other bytes: {', '.join(names)}")
    files = sorted((scratch / "dist").iterdir())
    run(tree, "scripts/check_wheels.py", str(scratch / "dist"), made.package)
    run(tree, "-m", "twine", "check", "--strict", *map(str, files))
    return files


def keep(made: Plan, identifier: str, files: list[Path]) -> list[Path]:
    """Put the tag, the commit and the artefacts in their places: all of them, or none."""
    if (branch := current_branch()) != made.branch:
        raise ReleaseError(
            f"{made.branch} was checked out when the release began, and now "
            f"{branch or 'no branch'} is: `git switch {shlex.quote(made.branch)}` and begin again"
        )
    place = ARTEFACTS.relative_to(ROOT)
    with ExitStack() as staged:
        try:
            ARTEFACTS.mkdir(parents=True, exist_ok=True)
            near = Path(staged.enter_context(tempfile.TemporaryDirectory(dir=ARTEFACTS)))
            copies = [shutil.copyfile(path, near / path.name) for path in files]
        except OSError as error:
            message = f"{place} can't be written to: {error.strerror or error}"
            raise ReleaseError(message) from error
        name = tag(made.package, made.version)
        message = f"notarius-{made.package} {made.version}"
        try:
            git(ROOT, "tag", "--annotate", "--message", message, name, identifier)
            # Between the files and the branch no hook may take its time, or stop.
            step = ("merge", "--ff-only", "--no-overwrite-ignore", "--quiet", identifier)
            git(ROOT, *step, hooks=False)
        except BaseException:
            # Interrupted after the branch moved on, the release is made.
            if not points(f"refs/heads/{made.branch}", identifier):
                if points(f"refs/tags/{name}", identifier):
                    git(ROOT, "tag", "--delete", name)
                raise
        return [path.replace(ARTEFACTS / path.name) for path in copies]


def points(reference: str, identifier: str) -> bool:
    """Tell whether a branch or a tag is there, and leads to a commit."""
    try:
        found = git(ROOT, "rev-parse", "--verify", f"{reference}^{{commit}}")
    except GitError:
        return False
    return found.decode().strip() == identifier


def release(made: Plan, *, dry_run: bool) -> None:
    """Make the release in a worktree; keep it unless this is a dry run."""
    after = made.last or "no release"
    print(f"notarius-{made.package} {made.version}, after {after}\n", flush=True)
    with worktree(made.head) as tree:
        section = write(tree, made)
        identifier = commit(tree, made)
        files = build(tree, made, identifier, tree.parent)
        stat = git(tree, "show", "--stat", "--format=", identifier).decode("utf-8", "replace")
        print(f"{section}\n\n{stat}")
        print(f"Built twice with the same bytes, and checked: {', '.join(p.name for p in files)}")
        for sibling in siblings(made.package):
            if fragments(sibling):
                print(f"Mind that {sibling} has changes that are not released")
        if dry_run:
            print("Dry run: nothing of it is kept")
            return
        kept = keep(made, identifier, files)
    name = tag(made.package, made.version)
    print(f"Committed as {identifier[:12]} with the tag {name}; nothing has left this machine")
    shown = " ".join(str(path.relative_to(ROOT)) for path in kept)
    branch = shlex.quote(made.branch)
    print(f"Next: git push origin {branch} {name} && twine upload {shown}")


def main(arguments: list[str]) -> None:
    """Read the command line and do what it says."""
    parser = argparse.ArgumentParser(prog="release", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("package", nargs="?", help="as in packages/PACKAGE")
    parser.add_argument("version", nargs="?", help=f"as 1.2.3, or {', '.join(LEVELS)}")
    parser.add_argument("--dry-run", action="store_true", help="do everything, keep nothing")
    parser.add_argument("--check", action="store_true", help="only check all packages' fragments")
    parser.add_argument(
        "--date",
        type=dt.date.fromisoformat,
        default=dt.datetime.now(dt.UTC).date(),
        help="for the changelog; today in UTC if it is not given",
    )
    options = parser.parse_args(arguments)
    if options.check:
        sys.exit("\n".join(fragment_problems()) or None)
    if options.package is None or options.version is None:
        parser.error("a package and a version are needed")
    try:
        made = plan(options.package, options.version, options.date.isoformat())
        release(made, dry_run=options.dry_run)
    except (ReleaseError, GitError) as error:
        sys.exit(f"Nothing is released: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
