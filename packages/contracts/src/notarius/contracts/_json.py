"""JSON that is the same bytes for the same content, and a check that msgspec does not make."""

import hashlib
import json

import msgspec

from notarius.contracts._errors import ContractError

_ENCODER = msgspec.json.Encoder(order="sorted")


class RepeatedKeyError(ContractError):
    """A JSON object names one key twice; `key` is that key, which the message leaves out."""

    def __init__(self, key: str) -> None:
        """Keep the key for callers that may show it."""
        self.key = key
        super().__init__("a JSON object has the same key more than once")


def canonical_json(value: object) -> bytes:
    """Return `value` as JSON with sorted keys and no spaces: equal content is equal bytes."""
    return _ENCODER.encode(value)


def require_unique_keys(text: str | bytes) -> None:
    """Raise `RepeatedKeyError` if any object in a valid JSON text has a key twice.

    msgspec keeps the last of them silently, so that a repeated key would lose data.
    `text` must already be known to be valid JSON. Raises `RecursionError` on deep nesting.
    """
    json.loads(
        text,
        object_pairs_hook=_refuse_repeats,
        # Numbers are never needed here, and a very long one would be refused by `int`.
        parse_int=_ignore,
        parse_float=_ignore,
        parse_constant=_ignore,
    )


def _refuse_repeats(pairs: list[tuple[str, object]]) -> None:
    seen = set()
    for key, _ in pairs:
        if key in seen:
            raise RepeatedKeyError(key)
        seen.add(key)


def _ignore(_: str) -> None:
    return None


def policy_fingerprint(name: str, content: object) -> str:
    """Return the identity of a policy: `sha256:` and the digest of its name and whole content.

    `content` is anything that msgspec can encode as JSON. It should be the policy itself (its
    texts, tables, limits and behaviour on fixed probes), not a hand-kept version number: then a
    changed policy can't keep an old identity by mistake.
    """
    body = canonical_json({"content": content, "policy": name})
    return "sha256:" + hashlib.sha256(body).hexdigest()
