"""Which releases may break whoever has pinned a package: adr/0014."""

import tomllib
from pathlib import Path
from typing import Any

from scripts.releases import ROOT, numbers


def project(package: str, root: Path = ROOT) -> dict[str, Any]:
    """Return the metadata of a package in the tree."""
    text = (root / "packages" / package / "pyproject.toml").read_text(encoding="utf-8")
    found: dict[str, Any] = tomllib.loads(text)["project"]
    return found


def may_break(package: str, version: str, root: Path = ROOT) -> bool:
    """Whether the next release of a package may break who has pinned a released version.

    The version in the tree says so, or a fragment of the changelog, with which no smaller release
    can be made.
    """
    now, then = numbers(project(package, root)["version"]), numbers(version)
    telling = 1 if then[0] else 2
    fragments = (root / "packages" / package).glob("changelog.d/*.breaking.md")
    return now[:telling] > then[:telling] or any(fragments)
