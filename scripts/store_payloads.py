"""Store what the version in the tree writes, for later ones to read: `store_payloads.py PACKAGE`.

Writes tests/pins/payloads/PACKAGE/VERSION/: each public value as JSON, under the name of its type,
and for the pipeline a campaign with all that a run leaves behind. What a released version wrote is
never written again. It runs the source tree, and needs what the packages need from outside.
"""

import shutil
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
# The tree's own code, never what happens to be installed.
sys.path[:0] = [str(ROOT), *map(str, sorted(ROOT.glob("packages/*/src")))]

from scripts.payloads import MAKERS, store  # noqa: E402 - after the path is set
from scripts.releases import releases  # noqa: E402 - after the path is set

PAYLOADS: Final = ROOT / "tests" / "pins" / "payloads"


def main(package: str) -> None:
    """Store the payloads of the version in the tree, unless that is released."""
    if package not in MAKERS:
        sys.exit(f"there is no package {package}; there are {', '.join(MAKERS)}")
    text = (ROOT / "packages" / package / "pyproject.toml").read_text(encoding="utf-8")
    place = PAYLOADS / package / tomllib.loads(text)["project"]["version"]
    if place.exists() and any(one.version == place.name for one in releases(package)):
        sys.exit(f"{place}: is what the released version wrote, and stays as it is")
    with tempfile.TemporaryDirectory() as scratch:
        made = Path(scratch, "made")
        made.mkdir()
        store(package, made)
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(made, place)
    print(f"{place.relative_to(ROOT)}: {sum(path.is_file() for path in place.rglob('*'))} files")


if __name__ == "__main__":
    if len(sys.argv) != 2:  # noqa: PLR2004 - itself and the package
        sys.exit("usage: store_payloads.py PACKAGE")
    main(sys.argv[1])
