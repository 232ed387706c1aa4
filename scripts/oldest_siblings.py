"""Lay out a package's wheel with the oldest siblings that it admits: `-m scripts.oldest_siblings`.

Arguments are PACKAGE, the folder with the wheels of the tree, and a folder to lay them out in:
`constraints.txt` there binds each name to one of the wheels. Where that would be what the tree has
anyway, nothing is laid out, and why is printed.
"""

import hashlib
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from scripts.pins import project
from scripts.releases import ROOT, GitError, Release, git, releases, unpack

PREFIX: Final = "notarius-"


def ranges(project: Mapping[str, Any]) -> dict[str, SpecifierSet]:
    """Return which versions of which siblings a package admits, from its metadata."""
    needs = map(Requirement, project["dependencies"])
    return {n.name.removeprefix(PREFIX): n.specifier for n in needs if n.name.startswith(PREFIX)}


def project_of(package: str, release: Release | None, root: Path) -> dict[str, Any]:
    """Return the metadata of a package, as it was released or, without a release, in the tree."""
    if release is None:
        return project(package, root)
    text = git(root, "show", f"{release.commit}:packages/{package}/pyproject.toml").decode()
    found: dict[str, Any] = tomllib.loads(text)["project"]
    return found


def oldest(package: str, root: Path = ROOT) -> dict[str, Release | None]:
    """Return the oldest release of each sibling that the package, and the others, admit.

    It is `None` where no release is admitted: then there is only what the tree has.
    """
    chosen: dict[str, Release | None] = {}
    while True:
        admitted = ranges(project_of(package, None, root))
        for name, release in chosen.items():
            for needed, specifier in ranges(project_of(name, release, root)).items():
                admitted[needed] = admitted.get(needed, SpecifierSet()) & specifier
        again = {
            name: next((one for one in releases(name, root) if one.version in specifier), None)
            for name, specifier in admitted.items()
        }
        if again == chosen:
            return chosen
        chosen = again


def digest(wheel: Path) -> str:
    """Return the digest of a file."""
    return hashlib.sha256(wheel.read_bytes()).hexdigest()


def only(folder: Path, package: str) -> Path:
    """Return the one wheel of a package in a folder."""
    (wheel,) = folder.glob(f"notarius_{package}-*.whl")
    return wheel


def build(release: Release, into: Path, root: Path) -> Path:
    """Return the wheel of a release, built below a folder unless it is there already."""
    into = into / f"{release.package}-{release.version}"
    if into.exists():
        return only(into, release.package)
    with tempfile.TemporaryDirectory() as scratch:
        source = unpack(release, Path(scratch), root)
        command = [sys.executable, "-m", "build", "--wheel", "--no-isolation"]
        done = subprocess.run(  # noqa: S603 - our own tool
            [*command, "--outdir", str(into), str(source)],
            capture_output=True,
            check=False,
            text=True,
        )
    if done.returncode:
        sys.exit(f"notarius-{release.package} {release.version} can't be built:\n{done.stdout}")
    return only(into, release.package)


def lay_out(package: str, dist: Path, into: Path, root: Path = ROOT) -> str:
    """Lay out the wheels, unless they are those of the tree; say what was done."""
    chosen = oldest(package, root)
    if not chosen:
        return f"{PREFIX}{package} needs no sibling; its tests ran in wheel({package})"
    tree = f"its tests ran with the tree's siblings in wheel({package})"
    if not any(chosen.values()):
        return f"NOT TESTED: nothing is released that {package}'s ranges admit; {tree}"
    wheels = {package: only(dist, package)}
    for name, release in sorted(chosen.items()):
        built = into.parent / "released"
        wheels[name] = only(dist, name) if release is None else build(release, built, root)
    told = ", ".join(
        f"{name} {'of the tree, as none is released' if one is None else one.version}"
        for name, one in sorted(chosen.items())
    )
    if all(digest(wheel) == digest(only(dist, name)) for name, wheel in wheels.items()):
        return f"{PREFIX}{package}: the oldest it admits ({told}) are the tree's own; {tree}"
    into.mkdir(parents=True)
    copies = {name: Path(shutil.copy(wheel, into)) for name, wheel in wheels.items()}
    lines = (f"{PREFIX}{name} @ {wheel.as_uri()}\n" for name, wheel in sorted(copies.items()))
    (into / "constraints.txt").write_text("".join(lines), encoding="utf-8")
    return f"{PREFIX}{package} of the tree with {told}"


if __name__ == "__main__":
    if len(sys.argv) != 4:  # noqa: PLR2004 - itself, and three
        sys.exit("usage: oldest_siblings PACKAGE DIST FOLDER")
    try:
        print(lay_out(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]).resolve()))
    except GitError as error:
        sys.exit(f"NOT TESTED: {error}")
