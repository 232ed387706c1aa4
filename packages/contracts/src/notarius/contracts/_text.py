"""Checks and measures of text, shared by every contract."""

import contextlib
import enum
import hashlib
import re
from typing import Final

from notarius.contracts._errors import ContractError
from notarius.contracts._limits import CODE_MAX_BYTES, COUNT_MAX

# At least one underscore, so that a code can never be an ordinary word of prose: it can be
# looked for in model-facing text without false alarms.
_CODE: Final = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)+")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
# C0 and C1 controls but line feed, line and paragraph separators, and the bidirectional controls
# that can make a terminal show something else than what is there.
_CONTROL: Final = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)


def has_lone_surrogate(text: str) -> bool:
    """Whether `text` holds half of a surrogate pair, and so is not valid Unicode."""
    return _SURROGATE.search(text) is not None


def encoded(text: str, what: str) -> bytes:
    """Return `text` in UTF-8.

    Raises `ContractError` if it is no plain `str` (a subclass could measure itself as it likes)
    or holds a lone surrogate.
    """
    if type(text) is not str:
        message = f"{what} must be text"
        raise ContractError(message)
    # Raised after the handler, not in it: a chained UnicodeEncodeError holds the text itself.
    with contextlib.suppress(UnicodeEncodeError):
        return text.encode()
    message = f"{what} holds a lone surrogate, which is not valid Unicode text"
    raise ContractError(message)


def sha256_hex(data: bytes) -> str:
    """Return the SHA-256 of `data` as 64 lower-case hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def require_prose(text: str, what: str, *, max_bytes: int) -> None:
    """Require visible text of at most `max_bytes` without controls (a line feed is fine)."""
    size = len(encoded(text, what))
    if not text.strip():
        message = f"{what} must not be blank"
        raise ContractError(message)
    if size > max_bytes:
        message = f"{what} has {size} bytes; at most {max_bytes} are allowed"
        raise ContractError(message)
    if _CONTROL.search(text):
        message = f"{what} holds a control character"
        raise ContractError(message)


def require_code(code: str, what: str) -> None:
    """Require a stable machine code: lower-case words joined by underscores, at least two."""
    plain = type(code) is str or isinstance(code, enum.StrEnum)
    if not plain or len(code) > CODE_MAX_BYTES or _CODE.fullmatch(code) is None:
        message = f"{what} must be two or more lower-case words joined by underscores"
        raise ContractError(message)


def require_sha256(digest: str, what: str) -> None:
    """Require 64 lower-case hexadecimal digits."""
    if type(digest) is not str or _SHA256.fullmatch(digest) is None:
        message = f"{what} must be a SHA-256 in 64 lower-case hexadecimal digits"
        raise ContractError(message)


def require_count(value: int | None, what: str, *, minimum: int = 0) -> None:
    """Require an `int` (no `bool`) from `minimum` to `COUNT_MAX`."""
    if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= COUNT_MAX:
        message = f"{what} must be a whole number from {minimum} to {COUNT_MAX}"
        raise ContractError(message)


def require_instance(value: object, kind: type, what: str) -> None:
    """Require a value of `kind`: a bare string, say, is no member of an enum."""
    if not isinstance(value, kind):
        message = f"{what} must be of the declared type"
        raise ContractError(message)


def require_tuple(
    value: object, kind: type | tuple[type, ...], what: str, *, max_items: int | None = None
) -> None:
    """Require a tuple (a list could change later) whose members are all of `kind`."""
    if not isinstance(value, tuple) or not all(isinstance(item, kind) for item in value):
        message = f"{what} must be a tuple of the declared type"
        raise ContractError(message)
    if max_items is not None and len(value) > max_items:
        message = f"{what} has {len(value)} members; at most {max_items} are allowed"
        raise ContractError(message)


def one_line(text: str) -> str:
    """Return `text` on one line: white space, controls and separators become single spaces."""
    cleaned = _CONTROL.sub(" ", text).encode("utf-8", "replace").decode()
    return " ".join(cleaned.split())


def cut(text: str, max_bytes: int) -> str:
    """Return `text`, or its longest start that fits `max_bytes` with an ellipsis at its end.

    A character is never split. `text` must be encodable; `max_bytes` must be at least 3, the
    size of the ellipsis.
    """
    data = text.encode()
    if len(data) <= max_bytes:
        return text
    return data[: max_bytes - 3].decode("utf-8", "ignore") + "…"
