"""Check what is in the built wheels and sdists: usage `check_wheels.py DIST PACKAGE…`.

A stray `notarius/__init__.py` in one wheel breaks its siblings at run time, and a type
checker does not notice; so the members of every wheel are compared with the source tree.
"""

import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]


def only(dist: Path, pattern: str) -> Path:
    """Return the one file that matches."""
    found = sorted(dist.glob(pattern))
    if len(found) != 1:
        sys.exit(f"one {pattern} expected in {dist.name}/, found {len(found)}")
    return found[0]


def source_members(package: str) -> set[str]:
    """Return the members that a package's source tree calls for."""
    source = ROOT / "packages" / package / "src"
    files = (path for path in source.rglob("*") if path.is_file())
    return {str(f.relative_to(source)) for f in files if "__pycache__" not in f.parts}


def problems(dist: Path, package: str) -> list[str]:
    """Say what is wrong with one package's wheel and sdist."""
    wheel = only(dist, f"notarius_{package}-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        members = set(archive.namelist())
    info = "-".join(wheel.name.split("-")[:2]) + ".dist-info/"
    code = {member for member in members if not member.startswith(info)}
    expected = source_members(package)
    found = [f"not from the source tree: {name}" for name in sorted(code - expected)]
    found += [f"left out: {name}" for name in sorted(expected - code)]
    found += [
        f"outside notarius/{package}/: {name}"
        for name in sorted(code)
        if not name.startswith(f"notarius/{package}/")
    ]
    wanted = {f"notarius/{package}/__init__.py", f"notarius/{package}/py.typed"}
    found += [
        f"missing: {name}" for name in sorted((wanted | {f"{info}licenses/LICENSE"}) - members)
    ]
    sdist = only(dist, f"notarius_{package}-*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    found += [
        f"missing from the sdist: {name}"
        for name in sorted({"LICENSE", "README.md", "CHANGELOG.md", "pyproject.toml"} - names)
    ]
    # A fragment is for the next release, and no user's.
    found += [
        f"not for the sdist: {name}" for name in sorted(names) if name.startswith("changelog.d/")
    ]
    return [f"{wheel.name}: {problem}" for problem in found]


def main(dist: str, *packages: str) -> int:
    """Print every problem; return the exit status."""
    found = [problem for package in packages for problem in problems(Path(dist), package)]
    print("\n".join(found) or f"{len(packages)} wheels hold their own package and nothing else")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
