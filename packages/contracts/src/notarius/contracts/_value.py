"""The base of all contract values: frozen, keyword-only, and silent about private text."""

import enum
from collections.abc import Iterator
from typing import ClassVar, Self

import msgspec

from notarius.contracts._text import sha256_hex


class Value(msgspec.Struct, frozen=True, kw_only=True):
    """A frozen value whose `repr` and debug view show private fields by length and digest only.

    Checks stand in `__post_init__`, which msgspec runs on construction, on decoding, on
    `msgspec.structs.replace`, and when a copy or a pickle is rebuilt.
    """

    PRIVATE: ClassVar[frozenset[str]] = frozenset()
    """Names of the fields whose content is never shown."""

    def debug_view(self) -> dict[str, object]:
        """Return the fields as plain data; private text as `{"bytes": …, "sha256": …}`."""
        return {name: _view(shown) for name, shown in self._shown()}

    def validate(self) -> None:
        """Run every check again, also those of nested values.

        Raises `ContractError` if one does not hold (possible only after a forced change).
        """
        self.__post_init__()
        for name in self.__struct_fields__:
            _validate(getattr(self, name))

    def __post_init__(self) -> None:
        """Check the fields; the base has none."""

    def __copy__(self) -> Self:
        """Rebuild with every check; the copy that msgspec makes runs none."""
        return msgspec.structs.replace(self)

    def __repr__(self) -> str:
        """Show private fields by length and digest."""
        fields = ", ".join(f"{name}={shown!r}" for name, shown in self._shown())
        return f"{type(self).__name__}({fields})"

    def __rich_repr__(self) -> list[tuple[str, object]]:
        """Show the same to rich, whose pretty tracebacks would print every field otherwise."""
        return list(self._shown())

    def _shown(self) -> Iterator[tuple[str, object]]:
        for name in self.__struct_fields__:
            field = getattr(self, name)
            yield name, Hidden(field) if name in self.PRIVATE and field is not None else field


class Hidden:
    """Stands for a private field: knows length and digest, keeps no text."""

    __slots__ = ("digest", "kind", "size")

    def __init__(self, content: object) -> None:
        """Measure `content`; anything but text is known by its type alone."""
        self.kind = type(content).__name__
        self.size: int | None = None
        self.digest: str | None = None
        if isinstance(content, str):
            data = content.encode("utf-8", "surrogatepass")
            self.size = len(data)
            self.digest = sha256_hex(data)

    def __repr__(self) -> str:
        """Show length and the first digits of the digest."""
        if self.digest is None:
            return f"<{self.kind}>"
        return f"<{self.size} bytes, sha256 {self.digest[:12]}…>"

    def view(self) -> object:
        """Return length and digest as plain data."""
        if self.digest is None:
            return {"type": self.kind}
        return {"bytes": self.size, "sha256": self.digest}


def _view(shown: object) -> object:
    match shown:
        case Hidden():
            return shown.view()
        case Value():
            return shown.debug_view()
        case tuple() | list():
            return [_view(item) for item in shown]
        case enum.Enum():
            return shown.value
        case None | bool() | int() | float() | str():
            return shown
        case _:
            return {"type": type(shown).__name__}


def _validate(field: object) -> None:
    if isinstance(field, Value):
        field.validate()
    elif isinstance(field, tuple):
        for item in field:
            _validate(item)
