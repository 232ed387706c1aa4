"""The shape of every public struct, as JSON Schema: a change here is a change for whoever pins us.

docs/compatibility.md says which changes are breaking.
"""

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from syrupy.assertion import SnapshotAssertion

import notarius
from notarius.contracts import canonical_json


def public_structs() -> Iterator[type[msgspec.Struct]]:
    """Yield every struct that a public module names in `__all__`, and that its functions return.

    Helpers for tests are left out: they hold exceptions and functions, which have no JSON.
    """
    for info in pkgutil.walk_packages(notarius.__path__, "notarius."):
        if any(part.startswith("_") or part == "testing" for part in info.name.split(".")):
            continue
        module = importlib.import_module(info.name)
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isfunction(value):
                value = inspect.get_annotations(value, eval_str=True).get("return")
            if inspect.isclass(value) and issubclass(value, msgspec.Struct):
                yield value


def as_text(kind: type) -> dict[str, str]:
    """Describe what msgspec has no schema for, which only Python callers pass."""
    return {"type": "string" if kind is Path else "python", "format": kind.__name__}


STRUCTS = list(dict.fromkeys(public_structs()))
# Of all together, so that what several of them hold stands here once.
SHAPES = msgspec.json.schema_components(STRUCTS, schema_hook=as_text)[1]


def without_prose(schema: Any) -> Any:  # noqa: ANN401 - JSON
    """Return a schema without docstrings, and with alternatives in an order of their own."""
    if isinstance(schema, list):
        return [without_prose(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {
        key: without_prose(value)
        for key, value in schema.items()
        if not (key in {"description", "title"} and isinstance(value, str))
    }
    # Their order means nothing, and versions of msgspec differ in it.
    if isinstance(kept.get("anyOf"), list):
        kept["anyOf"] = sorted(kept["anyOf"], key=canonical_json)
    return kept


def test_every_public_struct_has_a_shape() -> None:
    """No struct is left out, and two of one name would be told apart."""
    assert {struct.__name__ for struct in STRUCTS} <= {name.split("_")[0] for name in SHAPES}
    assert len(STRUCTS) > 50


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_a_public_struct_keeps_its_shape(name: str, snapshot: SnapshotAssertion) -> None:
    """Fields, their types, defaults and members of enums are what consumers rely on."""
    assert without_prose(SHAPES[name]) == snapshot
