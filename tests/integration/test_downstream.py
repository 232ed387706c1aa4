"""The example of a repository that uses the wheels stays one: public names, and ranges that fit."""

import ast
import importlib
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "downstream"
SOURCES = sorted([*EXAMPLE.glob("src/**/*.py"), *EXAMPLE.glob("tests/**/*.py")])
PROJECT = tomllib.loads((EXAMPLE / "pyproject.toml").read_text("utf-8"))["project"]
RANGES = [
    need for need in map(Requirement, PROJECT["dependencies"]) if need.name.startswith("notarius-")
]


def imported(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield module and name of everything that is imported from notarius."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [(alias.name, "*") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [(node.module or "", alias.name) for alias in node.names]
        else:
            continue
        yield from (pair for pair in names if pair[0].partition(".")[0] == "notarius")


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_the_example_uses_public_names_alone(path: Path) -> None:
    """Each name comes from a public module that lists it, or is a public module of `testing`."""
    for module, name in imported(ast.parse(path.read_text("utf-8"))):
        assert not any(part.startswith("_") for part in module.split(".")), module
        if name not in importlib.import_module(module).__all__:
            assert importlib.import_module(f"{module}.{name}").__all__
            assert module.endswith(".testing")
            assert not name.startswith("_")


def test_the_example_is_looked_at() -> None:
    """Its sources are found, and they use four packages."""
    found = {
        ".".join(module.split(".")[:2])
        for path in SOURCES
        for module, _ in imported(ast.parse(path.read_text("utf-8")))
    }
    assert {name.replace(".", "-") for name in found} == {need.name for need in RANGES}
    assert len(found) == 4


@pytest.mark.parametrize("need", RANGES, ids=lambda need: need.name)
def test_the_example_takes_what_is_built_here(need: Requirement) -> None:
    """Its ranges are bounded on both sides and hold the version of this tree."""
    package = need.name.removeprefix("notarius-")
    text = (ROOT / "packages" / package / "pyproject.toml").read_text("utf-8")
    assert {spec.operator for spec in need.specifier} == {">=", "<"}
    assert need.specifier.contains(tomllib.loads(text)["project"]["version"])
