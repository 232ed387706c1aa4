import ast
import inspect
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from notarius import contracts

MODULE = Path(inspect.getfile(contracts))
CLASSES = [item for item in vars(contracts).values() if inspect.isclass(item)]
STRUCTS = [item for item in CLASSES if issubclass(item, contracts.Value)]
ERRORS = [item for item in CLASSES if issubclass(item, Exception)]

struct = pytest.mark.parametrize("struct", STRUCTS, ids=lambda item: item.__name__)


def test_all_lists_exactly_what_is_exported() -> None:
    """A name is public if and only if `__all__` lists it."""
    tree = ast.parse(MODULE.read_text(encoding="utf-8"))
    imported = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert len(contracts.__all__) == len(set(contracts.__all__))
    assert set(contracts.__all__) == {name for name in imported if not name.startswith("_")}
    assert all(hasattr(contracts, name) for name in contracts.__all__)


def test_the_version_is_that_of_the_installed_package() -> None:
    """`__version__` is read from the metadata, and no other name is invented."""
    with pytest.raises(AttributeError):
        contracts.no_such_name  # noqa: B018 - the access is the test
    try:
        expected = version("notarius-contracts")
    except PackageNotFoundError:
        pytest.skip("imported from a source tree, which has no metadata")
    assert contracts.__version__ == expected


def test_the_package_says_that_it_is_typed() -> None:
    """A type checker of a downstream package reads the types of this one."""
    assert (MODULE.parent / "py.typed").is_file()


@struct
def test_every_public_struct_is_frozen_and_keyword_only(struct: type[contracts.Value]) -> None:
    """A value that crossed a boundary can't be changed, and its fields are named."""
    assert struct.__struct_config__.frozen
    signature = inspect.signature(struct)
    assert {p.kind for p in signature.parameters.values()} <= {inspect.Parameter.KEYWORD_ONLY}


@struct
def test_no_field_of_a_public_struct_can_be_set(
    struct: type[contracts.Value], make: Callable[[type, str], contracts.Value]
) -> None:
    """Assigning to a field, or to a new one, fails."""
    value = make(struct, "text")
    for name in (*struct.__struct_fields__, "a_new_field"):
        with pytest.raises(AttributeError):
            setattr(value, name, None)


@struct
def test_private_names_are_fields(struct: type[contracts.Value]) -> None:
    """A misspelt private field would be shown; every name in `PRIVATE` is a field."""
    assert set(struct.__struct_fields__) >= struct.PRIVATE


@pytest.mark.parametrize("error", ERRORS, ids=lambda item: item.__name__)
def test_every_error_of_ours_has_one_base(error: type[Exception]) -> None:
    """A caller can catch all that notarius raises on purpose in one clause."""
    assert issubclass(error, contracts.NotariusError)


def test_blame_is_in_the_type() -> None:
    """A caller's mistake is a `ValueError`; no other class of blame is caught with it."""
    assert issubclass(contracts.ContractError, ValueError)
    others = [e for e in ERRORS if not issubclass(e, contracts.ContractError)]
    assert contracts.InvariantError in others
    assert not any(issubclass(error, ValueError) for error in others)


def test_codes_and_defects_can_be_told_from_prose() -> None:
    """Each structural defect is a legal code, so that it can be stored as one."""
    for defect in contracts.StructuralDefect:
        assert contracts.IssueCount(category=defect.value, count=1)
