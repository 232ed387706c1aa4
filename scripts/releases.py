"""The releases of a package, as git has them.

A release is a commit with the subject `Release notarius-PACKAGE VERSION`, which has the tag
`notarius-PACKAGE-VERSION`. A clone may have come without tags, so the subject alone is enough.
"""

import io
import os
import re
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
VERSION: Final = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)")
"""What a version looks like: three numbers, and neither pre-releases nor anything else."""
# Set where a git hook calls: it would win over the folder that is asked about.
_OF_ANOTHER_TREE: Final = {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX"}


class GitError(Exception):
    """There is no git, no repository, or git refused; the message is for people."""


@dataclass(frozen=True, kw_only=True)
class Release:
    """One released version of one package, and the commit that it was built from."""

    package: str
    version: str
    commit: str


def subject(package: str, version: str) -> str:
    """Return the subject of the commit that releases a version."""
    return f"Release notarius-{package} {version}"


def tag(package: str, version: str) -> str:
    """Return the tag of a released version."""
    return f"notarius-{package}-{version}"


def numbers(version: str) -> tuple[int, int, int]:
    """Return what versions are compared by."""
    if (match := VERSION.fullmatch(version)) is None:
        raise ValueError(f"{version!r} is no version: three numbers are expected, as in 1.2.3")
    major, minor, patch = map(int, match.groups())
    return major, minor, patch


def environment() -> dict[str, str]:
    """Return the environment, without what makes git look at another tree than it is run in."""
    return {name: value for name, value in os.environ.items() if name not in _OF_ANOTHER_TREE}


def git(root: Path, *arguments: str, hooks: bool = True) -> bytes:
    """Run git in a folder and return what it prints."""
    without = () if hooks else ("-c", f"core.hooksPath={os.devnull}")
    try:
        done = subprocess.run(  # noqa: S603 - our own arguments
            ["git", *without, *arguments],  # noqa: S607 - whichever git the caller uses
            cwd=root,
            env={**environment(), "LC_ALL": "C"},
            capture_output=True,
            check=False,
        )
    except FileNotFoundError as error:
        raise GitError(f"git is needed: {error.strerror or error}") from error
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip()
        said = said or f"status {done.returncode}, and no reason given; a hook may have refused"
        raise GitError(f"git {arguments[0]} failed in {root}: {said}")
    return done.stdout


def _lines(root: Path, *arguments: str) -> list[str]:
    return git(root, *arguments).decode("utf-8", "replace").splitlines()


def require_repository(root: Path) -> None:
    """Raise `GitError` unless this folder is the top of a git repository with a commit."""
    try:
        (top,) = _lines(root, "rev-parse", "--show-toplevel")
        git(root, "rev-parse", "--verify", "HEAD^{commit}")
    except GitError as error:
        message = f"{root} is no git repository with a commit; releases are read from git: {error}"
        raise GitError(message) from error
    if Path(top).resolve() != root.resolve():
        raise GitError(f"{root} is no git repository of its own: it lies in that of {top}")


def is_shallow(root: Path = ROOT) -> bool:
    """Tell whether this clone lacks old commits, so that a release may be missing in it."""
    return _lines(root, "rev-parse", "--is-shallow-repository") == ["true"]


def releases(package: str, root: Path = ROOT) -> list[Release]:
    """Return the releases of a package, oldest version first; a tag wins over a subject."""
    require_repository(root)
    found: dict[str, str] = {}
    # Newest first: of two commits with one subject the later counts.
    wanted = re.compile(rf"(\w+) {re.escape(subject(package, ''))}({VERSION.pattern})")
    pattern = f"--grep=^{subject(package, '')}"
    # Whatever is configured: no signatures in between, and the pattern is a regular expression.
    plain = ("--no-show-signature", "--basic-regexp")
    for line in _lines(root, "log", *plain, "--format=%H %s", pattern, "HEAD"):
        if match := wanted.fullmatch(line):
            found.setdefault(match[2], match[1])
    prefix = tag(package, "")
    for line in _lines(root, "tag", "--list", "--format=%(refname:strip=2)", f"{prefix}*"):
        version = line.removeprefix(prefix)
        if VERSION.fullmatch(version):
            (found[version],) = _lines(root, "rev-parse", f"refs/tags/{line}^{{commit}}")
    return [
        Release(package=package, version=version, commit=found[version])
        for version in sorted(found, key=numbers)
    ]


def unpack(release: Release, into: Path, root: Path = ROOT) -> Path:
    """Lay out a package's folder as it was released; return that folder.

    The root's `.gitignore` comes with it, since a build of the sdist reads it.
    """
    folder = f"packages/{release.package}"
    names = _lines(root, "ls-tree", "--name-only", release.commit, "--", folder, ".gitignore")
    if folder not in names:
        raise GitError(f"commit {release.commit} has no {folder}")
    # As committed: this machine's line ends and masks must not change what is built of it.
    plain = ("-c", "core.autocrlf=false", "-c", "tar.umask=0022")
    archive = git(root, *plain, "archive", "--format=tar", release.commit, "--", *names)
    into.mkdir(parents=True, exist_ok=True)
    with tarfile.open(fileobj=io.BytesIO(archive)) as members:
        members.extractall(into, filter="data")
    return into / folder
