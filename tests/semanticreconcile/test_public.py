import types
from importlib.metadata import PackageNotFoundError, version

import msgspec
import pytest

import notarius.semanticreconcile
from notarius.contracts import Value
from notarius.semanticreconcile import Listed, ProposedGroup

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


@pytest.mark.parametrize(
    "value",
    [
        Listed(name="Canary", aliases=("Canary",), description="Canary"),
        ProposedGroup(candidate_ids=("Canary",), canonical_id="Canary"),
    ],
)
def test_no_view_shows_what_a_candidate_or_a_model_says(value: Value) -> None:
    """Texts of candidates and ids that a model wrote stand in no `repr` and no debug view."""
    assert "Canary" not in f"{value!r} {value.debug_view()}"


def test_the_version_is_that_of_the_installed_package() -> None:
    """`__version__` is read from the metadata."""
    try:
        expected = version("notarius-semanticreconcile")
    except PackageNotFoundError:
        pytest.skip("imported from a source tree, which has no metadata")
    assert notarius.semanticreconcile.__version__ == expected


def test_an_unknown_name_is_an_error() -> None:
    """The lazy version does not make every name of the package exist."""
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = notarius.semanticreconcile.no_such_name
