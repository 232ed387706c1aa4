"""What a package may import besides itself; import-linter checks the notarius layers too."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGES = Path(__file__).parents[2] / "packages"
NAMES = sorted(path.parent.name for path in PACKAGES.glob("*/pyproject.toml"))
CORE = ("attempts", "contracts", "registries", "semanticreconcile")
# Where a distribution is not imported under its own name.
IMPORT_NAMES = {"llama-cpp-python": "llama_cpp"}


def declared(package: str, *, optional: bool) -> set[str]:
    """Return the import names of what a package's pyproject.toml declares."""
    text = (PACKAGES / package / "pyproject.toml").read_text(encoding="utf-8")
    project = tomllib.loads(text)["project"]
    needs = list(project["dependencies"])
    if optional:
        needs += [n for extra in project.get("optional-dependencies", {}).values() for n in extra]
    names = [re.split(r"[^\w.-]", need, maxsplit=1)[0] for need in needs]
    return {
        IMPORT_NAMES.get(n, n.replace("notarius-", "notarius.").replace("-", "_")) for n in names
    }


def imported(tree: ast.AST) -> Iterator[str]:
    """Yield the owner of everything that a module imports, wherever it does so."""
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            parts = name.split(".")
            yield ".".join(parts[: 2 if parts[0] == "notarius" else 1])


@pytest.mark.parametrize("package", NAMES)
def test_a_package_declares_what_it_imports(package: str) -> None:
    """A package imports the standard library, itself and what it declares, nothing else."""
    allowed = declared(package, optional=True) | {f"notarius.{package}"}
    modules = sorted((PACKAGES / package / "src").rglob("*.py"))
    assert modules
    for path in modules:
        owners = set(imported(ast.parse(path.read_text(encoding="utf-8"))))
        assert owners - allowed - sys.stdlib_module_names == set(), path.name


@pytest.mark.parametrize("package", CORE)
def test_a_core_package_needs_msgspec_alone(package: str) -> None:
    """Whoever installs a core package gets msgspec and lower layers; tests may want hypothesis."""
    needed, wanted = (declared(package, optional=optional) for optional in (False, True))
    assert {name for name in needed if not name.startswith("notarius.")} <= {"msgspec"}
    assert wanted - needed <= {"hypothesis"}
    for path in sorted((PACKAGES / package / "src").rglob("*.py")):
        owners = set(imported(ast.parse(path.read_text(encoding="utf-8"))))
        assert "hypothesis" not in owners or path.match("testing/strategies.py")


@pytest.mark.parametrize("package", NAMES)
def test_the_namespace_folder_is_bare(package: str) -> None:
    """`notarius` is a namespace of six wheels: no package puts a file of its own there."""
    namespace = PACKAGES / package / "src" / "notarius"
    assert [path.name for path in namespace.parent.iterdir()] == ["notarius"]
    assert [path.name for path in namespace.iterdir()] == [package]
