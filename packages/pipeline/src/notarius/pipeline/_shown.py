"""How numbers, names and pieces of files are written for a person, or into JSON."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from notarius.contracts import cut

_SHOWN_MAX_BYTES: Final = 60
_NAMED_MAX: Final = 4
_HALVES: Final = re.compile("[\ud800-\udfff]")


def visible(text: str) -> str:
    """Replace what a terminal would obey instead of show, and what can't be encoded."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def json_text(name: str | Path) -> str:
    """Return a path as JSON can hold it: its bytes need not be UTF-8."""
    return _HALVES.sub("\N{REPLACEMENT CHARACTER}", str(name))


def quoted(text: str) -> str:
    """Return a piece of a file as one visible word, not long."""
    return f"`{cut(visible(text[: _SHOWN_MAX_BYTES + 1]), _SHOWN_MAX_BYTES)}`"


def some(texts: Sequence[str]) -> str:
    """Return the first of these texts, and how many more there are."""
    named = ", ".join(quoted(text) for text in texts[:_NAMED_MAX])
    return named if len(texts) <= _NAMED_MAX else f"{named} and {len(texts) - _NAMED_MAX} more"


def counted(number: int, one: str, many: str) -> str:
    """Return a number with its noun."""
    return f"{number} {one if number == 1 else many}"
