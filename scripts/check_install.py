"""Check an environment with packages installed from wheels: `check_install.py DIST PACKAGE…`.

Run by the environment's own Python, which needs `packaging` (pytest brings it).
"""

import sys
import zipfile
from importlib.metadata import Distribution, distribution, distributions
from importlib.util import find_spec
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

# These four are the reusable core: whoever installs one gets msgspec and nothing more.
CORE = {"contracts", "attempts", "semanticreconcile", "registries"}
PREFIX = "notarius-"


def closure(name: str) -> set[str]:
    """Return the distributions that one needs at run time, itself included."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        current = canonicalize_name(waiting.pop())
        if current in found:
            continue
        found.add(current)
        needs = [Requirement(line) for line in distribution(current).requires or ()]
        waiting += [n.name for n in needs if not n.marker or n.marker.evaluate({"extra": ""})]
    return found


def stale_files(installed: Distribution, dist: Path) -> list[str]:
    """Return the files whose installed bytes are not those of the wheel in `dist`.

    An installer's cache can hold an older wheel of the same version.
    """
    (wheel,) = dist.glob(f"{installed.name.replace('-', '_')}-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        members = [name for name in archive.namelist() if not name.endswith("/RECORD")]
        return [
            name
            for name in members
            if Path(str(installed.locate_file(name))).read_bytes() != archive.read(name)
        ]


def problems(dist: Path, packages: tuple[str, ...]) -> list[str]:
    """Say what is wrong with this environment."""
    installed = {d.name: d for d in distributions() if d.name.startswith(PREFIX)}
    declared = set[str]().union(*(closure(PREFIX + package) for package in packages))
    found = [f"{name} is installed but not declared" for name in installed.keys() - declared]
    for name, one in installed.items():
        found += [f"{name}: not the built wheel: {file}" for file in stale_files(one, dist)]
        spec = find_spec(name.replace("-", "."))
        if spec is None or "site-packages" not in Path(spec.origin or "").parts:
            found.append(f"{name} is not imported from site-packages")
    for package in CORE.intersection(packages):
        extra = {n for n in closure(PREFIX + package) if not n.startswith(PREFIX)} - {"msgspec"}
        found += [f"{PREFIX}{package} brings {name}" for name in sorted(extra)]
    return found


def main(dist: str, *packages: str) -> int:
    """Print every problem; return the exit status."""
    found = problems(Path(dist), packages)
    print("\n".join(found) or f"installed as built: {', '.join(packages)}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
