import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from types import ModuleType

import msgspec
import pytest

import notarius

PACKAGES = (
    "attempts",
    "contracts",
    "llmruntime",
    "pipeline",
    "registries",
    "semanticreconcile",
)
# Public structs that may be changed or built by position: none, and it stays so.
LAX_STRUCTS: frozenset[str] = frozenset()


def public_modules() -> Iterator[str]:
    """Yield the name of every module that has no private part in its name."""
    for package in PACKAGES:
        name = f"notarius.{package}"
        yield name
        path = importlib.import_module(name).__path__
        for info in pkgutil.walk_packages(path, prefix=f"{name}."):
            if not any(part.startswith("_") for part in info.name.split(".")):
                yield info.name


MODULES = sorted(public_modules())


def own_names(module: ModuleType) -> set[str]:
    """Return the public names of a module; of a plain module those that it defines itself."""
    public = {
        name: value
        for name, value in vars(module).items()
        if not name.startswith("_") and not inspect.ismodule(value)
    }
    if hasattr(module, "__path__"):
        return set(public)
    return {
        name
        for name, value in public.items()
        if getattr(value, "__module__", module.__name__) == module.__name__
    }


def test_all_six_packages_are_looked_at() -> None:
    """No package escapes these checks."""
    found = {info.name for info in pkgutil.iter_modules(notarius.__path__)}
    assert found == set(PACKAGES)
    assert {"notarius.attempts.testing", "notarius.pipeline.cli"} <= set(MODULES)


@pytest.mark.parametrize("name", MODULES)
def test_all_names_what_is_exported(name: str) -> None:
    """`__all__` is sorted, complete for a package, and names nothing that is not there."""
    module = importlib.import_module(name)
    listed: list[str] = module.__all__
    assert len(set(listed)) == len(listed)
    assert [entry for entry in listed if not hasattr(module, entry)] == []
    if hasattr(module, "__path__"):
        assert set(listed) == own_names(module)
    else:
        assert set(listed) <= set(vars(module))


@pytest.mark.parametrize("name", MODULES)
def test_everything_public_is_explained(name: str) -> None:
    """Every public module, class and function, and each public method, has a docstring."""
    module = importlib.import_module(name)
    assert module.__doc__
    bare = []
    for entry in module.__all__:
        value = getattr(module, entry)
        if not (inspect.isclass(value) or inspect.isfunction(value)):
            continue
        members = vars(value).items() if inspect.isclass(value) else ()
        named = [(entry, value), *((f"{entry}.{key}", member) for key, member in members)]
        bare += [
            key
            for key, member in named
            if not key.rpartition(".")[2].startswith("_")
            and (inspect.isclass(member) or inspect.isfunction(member))
            and not member.__doc__
        ]
    assert bare == []


def public_structs() -> Iterator[type[msgspec.Struct]]:
    """Yield every public struct."""
    for name in MODULES:
        module = importlib.import_module(name)
        for entry in module.__all__:
            value = getattr(module, entry)
            if inspect.isclass(value) and issubclass(value, msgspec.Struct):
                yield value


def test_public_structs_are_frozen_and_keyword_only() -> None:
    """A value that crosses a package boundary can't change, and a field can be added."""
    structs = set(public_structs())
    assert len(structs) > 30
    lax = {
        struct.__qualname__
        for struct in structs
        if not struct.__struct_config__.frozen
        or any(
            parameter.kind is not inspect.Parameter.KEYWORD_ONLY
            for parameter in inspect.signature(struct).parameters.values()
        )
    }
    # Compared for equality, so that a name which is mended must leave the list.
    assert lax == LAX_STRUCTS


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_has_no_other_attributes(name: str) -> None:
    """A misspelt name of a package is an `AttributeError`, also past its lazy `__version__`."""
    module = importlib.import_module(f"notarius.{name}")
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = module.no_such_name
