import ast
import inspect
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType

import msgspec
import pytest

from notarius import attempts
from notarius.attempts import testing

MODULES = pytest.mark.parametrize("module", [attempts, testing], ids=lambda m: m.__name__)


@MODULES
def test_all_lists_exactly_what_is_exported(module: ModuleType) -> None:
    """A name is public if and only if `__all__` lists it."""
    tree = ast.parse(Path(inspect.getfile(module)).read_text(encoding="utf-8"))
    imported = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert len(module.__all__) == len(set(module.__all__))
    assert set(module.__all__) == {name for name in imported if not name.startswith("_")}
    assert all(hasattr(module, name) for name in module.__all__)


def test_the_version_is_that_of_the_installed_package() -> None:
    """`__version__` is read from the metadata, and no other name is invented."""
    with pytest.raises(AttributeError):
        attempts.no_such_name  # noqa: B018 - the access is the test
    try:
        expected = version("notarius-attempts")
    except PackageNotFoundError:
        pytest.skip("imported from a source tree, which has no metadata")
    assert attempts.__version__ == expected


def test_the_package_says_that_it_is_typed() -> None:
    """A type checker of a downstream package reads the types of this one."""
    assert (Path(inspect.getfile(attempts)).parent / "py.typed").is_file()


@MODULES
def test_every_public_struct_is_frozen_and_keyword_only(module: ModuleType) -> None:
    """A value that crossed a boundary can't be changed, and its fields are named."""
    public = [getattr(module, name) for name in module.__all__]
    for struct in public:
        if inspect.isclass(struct) and issubclass(struct, msgspec.Struct):
            assert struct.__struct_config__.frozen
            kinds = {p.kind for p in inspect.signature(struct).parameters.values()}
            assert kinds == {inspect.Parameter.KEYWORD_ONLY}


def test_both_drivers_take_the_same_options() -> None:
    """`run` and `arun` differ in the kind of producer alone."""
    sync, asynchronous = (inspect.signature(driver) for driver in (attempts.run, attempts.arun))
    assert inspect.iscoroutinefunction(attempts.arun)
    kinds = [
        {n: (p.kind, p.default) for n, p in s.parameters.items()} for s in (sync, asynchronous)
    ]
    assert kinds[0] == kinds[1]
