"""Lets the reference show what a msgspec struct is made with: its fields, as keyword arguments.

Griffe reads the sources without importing them, and knows dataclasses, but no structs.
"""

from collections.abc import Iterator
from typing import Any

import griffe


def _is_struct(class_: griffe.Class) -> bool:
    return any(
        str(base).endswith("Struct") for one in (class_, *class_.mro()) for base in one.bases
    )


def _fields(class_: griffe.Class) -> list[griffe.Parameter]:
    """Return the fields that a class adds, in order; a `ClassVar` or a property is none."""
    return [
        griffe.Parameter(
            name,
            annotation=member.annotation,
            kind=griffe.ParameterKind.keyword_only,
            default=member.value,
        )
        for name, member in class_.members.items()
        if isinstance(member, griffe.Attribute)
        and member.annotation is not None
        and "instance-attribute" in member.labels
    ]


def _structs(found: griffe.Module | griffe.Class) -> Iterator[griffe.Class]:
    if isinstance(found, griffe.Class) and _is_struct(found):
        yield found
    for member in found.members.values():
        if isinstance(member, griffe.Module | griffe.Class):
            yield from _structs(member)


def _constructor(struct: griffe.Class) -> griffe.Function:
    lines = [*reversed(struct.mro()), struct]
    fields = {field.name: field for one in lines for field in _fields(one)}
    myself = griffe.Parameter("self", kind=griffe.ParameterKind.positional_or_keyword)
    return griffe.Function("__init__", parameters=griffe.Parameters(myself, *fields.values()))


class Structs(griffe.Extension):
    """Gives each struct the `__init__` that msgspec makes for it."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:  # noqa: ANN401 - griffe's signature
        """Complete the structs of a package, once all its classes are known."""
        structs = list(_structs(pkg))
        for struct in structs:
            struct.set_member("__init__", _constructor(struct))
        # What the signature shows is not shown once more, unless there is something to say of it.
        for struct in structs:
            for field in _fields(struct):
                if not struct.members[field.name].has_docstring:
                    struct.del_member(field.name)
