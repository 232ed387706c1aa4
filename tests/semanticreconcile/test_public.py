import types

import msgspec
import pytest

import notarius.semanticreconcile

STRUCTS = [
    value
    for name in notarius.semanticreconcile.__all__
    if isinstance(value := getattr(notarius.semanticreconcile, name), type)
    and issubclass(value, msgspec.Struct)
]


def test_all_lists_what_the_package_exports() -> None:
    """`__all__` names exactly what the package offers, each name once."""
    public = {
        name
        for name, value in vars(notarius.semanticreconcile).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }
    assert set(notarius.semanticreconcile.__all__) == public
    assert len(notarius.semanticreconcile.__all__) == len(public)


@pytest.mark.parametrize("struct", STRUCTS)
def test_public_structs_are_frozen_and_keyword_only(struct: type[msgspec.Struct]) -> None:
    """No caller can change a value, or depend on the order of its fields."""
    assert struct.__struct_config__.frozen
    with pytest.raises(TypeError, match="positional"):
        struct("x")


def test_an_unknown_name_is_an_error() -> None:
    """The lazy version does not make every name of the package exist."""
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = notarius.semanticreconcile.no_such_name
