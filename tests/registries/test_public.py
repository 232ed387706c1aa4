import types
from importlib.metadata import PackageNotFoundError, version

import msgspec
import pytest
from syrupy.assertion import SnapshotAssertion

import notarius.registries
from notarius.contracts import canonical_json
from notarius.registries import (
    Coinage,
    Currency,
    ItemCandidate,
    ItemEntry,
    ItemNormalizer,
    LocationCandidate,
    LocationEntry,
    MarkRules,
    NpcCandidate,
    NpcEntry,
    NpcNormalizer,
    Registry,
    _currency,
    _distinct,
    _entities,
)

STRUCTS = [
    value
    for module in (_currency, _distinct, _entities)
    for value in vars(module).values()
    if isinstance(value, type)
    and issubclass(value, msgspec.Struct)
    and value.__module__ == module.__name__
]


def is_prose(key: str, value: object) -> bool:
    """Whether this is a description; a property of that name is none."""
    return key == "description" and isinstance(value, str)


def without_prose(schema: object) -> object:
    """Return a JSON schema without its descriptions, which are docstrings."""
    if isinstance(schema, dict):
        return {k: without_prose(v) for k, v in schema.items() if not is_prose(k, v)}
    return [without_prose(item) for item in schema] if isinstance(schema, list) else schema


def test_all_lists_what_the_package_exports() -> None:
    """`__all__` names exactly what the package offers, each name once."""
    public = {
        name
        for name, value in vars(notarius.registries).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }
    assert set(notarius.registries.__all__) == public
    assert len(notarius.registries.__all__) == len(public)


def test_an_unknown_name_is_an_error() -> None:
    """The lazy version does not make every name of the package exist."""
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = notarius.registries.no_such_name


def test_the_version_is_that_of_the_installed_package() -> None:
    """`__version__` is read from the metadata."""
    try:
        expected = version("notarius-registries")
    except PackageNotFoundError:
        pytest.skip("imported from a source tree, which has no metadata")
    assert notarius.registries.__version__ == expected


@pytest.mark.parametrize("struct", STRUCTS)
def test_structs_are_frozen_and_keyword_only(struct: type[msgspec.Struct]) -> None:
    """Nobody can change a value, or depend on the order of its fields."""
    assert struct.__struct_config__.frozen
    with pytest.raises(TypeError, match="positional"):
        struct("x")


@pytest.mark.parametrize(
    "struct",
    [
        NpcCandidate,
        ItemCandidate,
        LocationCandidate,
        pytest.param(Registry[NpcEntry], id="NpcRegistry"),
        pytest.param(Registry[ItemEntry], id="ItemRegistry"),
        pytest.param(Registry[LocationEntry], id="LocationRegistry"),
        Coinage,
        Currency,
        MarkRules,
    ],
)
def test_public_structs_keep_their_shape(struct: object, snapshot: SnapshotAssertion) -> None:
    """A changed field of a public struct is a change of the package's interface."""
    assert without_prose(msgspec.json.schema(struct)) == snapshot


def test_a_registry_is_written_as_it_is(snapshot: SnapshotAssertion) -> None:
    """An encoded registry is a file format that other tools rely on."""
    people = [
        NpcCandidate(
            source_id="e012-npc-0003",
            name="Percival de Rolo",
            aliases=("Percy",),
            description="a gunslinger",
            evidence=("«Percy!»",),
            extra={"b": [1, None], "a": {"n": 10**30}},
        ),
        NpcCandidate(source_id="e012-npc-0007", name="Keyleth"),
    ]
    things = [
        ItemCandidate(source_id="e1", name="100 gp"),
        ItemCandidate(source_id="e2", name="rope", extra={}),
    ]
    registries = [NpcNormalizer(people).separate(), ItemNormalizer(things).separate()]
    assert [canonical_json(registry).decode() for registry in registries] == snapshot


def test_a_written_registry_can_be_read_again() -> None:
    """A registry file decodes to the registry that was written."""
    things = [ItemCandidate(source_id="e1", name="100 gp", extra={"n": 10**30, "f": 0.1})]
    registry = ItemNormalizer(things).separate()
    assert msgspec.json.decode(canonical_json(registry), type=Registry[ItemEntry]) == registry
