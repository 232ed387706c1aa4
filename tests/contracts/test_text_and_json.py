import json
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from notarius.contracts import (
    ContractError,
    ProcessWarning,
    RepeatedKeyError,
    canonical_json,
    cut,
    one_line,
    policy_fingerprint,
    require_unique_keys,
)

ANY = st.text(st.characters(exclude_categories=()))  # lone surrogates and controls too
UNICODE = st.text(st.characters(exclude_categories=["Cs"]))
KEYS = st.text(st.sampled_from("ab\u00e9\U0001f409"), max_size=2)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | UNICODE,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
# JSON with the pairs of each object as a list, so that a key can stand there twice.
Pairs = tuple[str, list[tuple[str, object]]]
TREES = st.recursive(
    st.none() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | KEYS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(st.just("object"), st.lists(st.tuples(KEYS, inner), max_size=3))
    ),
    max_leaves=10,
)


@given(text=UNICODE, limit=st.integers(min_value=3, max_value=40))
def test_a_cut_fits_and_splits_no_character(text: str, limit: int) -> None:
    """What fits is kept; else the longest start that fits, whole characters and an ellipsis."""
    short = cut(text, limit)
    assert len(short.encode()) <= limit
    if len(text.encode()) <= limit:
        assert short == text
    else:
        kept = short.removesuffix("…")
        assert short == kept + "…"
        assert text.startswith(kept)
        assert len((text[: len(kept) + 1] + "…").encode()) > limit


@given(ANY)
def test_one_line_is_one_harmless_line(text: str) -> None:
    """No line end, control, direction override or lone surrogate is left, nor double spaces."""
    line = one_line(text)
    assert line.encode().decode() == line
    assert line == " ".join(line.split())
    assert len(line.splitlines()) <= 1
    assert one_line(line) == line
    if line:
        assert ProcessWarning(code="some_code", message=cut(line, 240), samples=(cut(line, 240),))


def test_one_line_keeps_the_words() -> None:
    """Ordinary text survives, whatever stood between the words."""
    assert one_line("  Zoë\r\n\u2028of\t\u202ethe\x07\x85North ") == "Zoë of the North"


@given(JSON)
def test_canonical_json_is_json_with_sorted_keys_and_no_spaces(value: object) -> None:
    """Equal content is equal bytes, and nothing of it is lost."""
    expected = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    encoded = canonical_json(value)
    assert json.loads(encoded) == json.loads(expected)
    assert canonical_json(_reversed(value)) == encoded


@given(st.dictionaries(KEYS, JSON, min_size=1))
def test_keys_are_sorted(value: dict[str, object]) -> None:
    """The keys of an object stand in one order, whatever the order of insertion."""
    keys = [key for key, _ in json.loads(canonical_json(value), object_pairs_hook=list)]
    assert keys == sorted(value)


@given(name=KEYS, content=JSON)
def test_the_order_of_keys_does_not_change_a_policy(name: str, content: object) -> None:
    """A fingerprint is that of the content; writing the same table in another order keeps it."""
    fingerprint = policy_fingerprint(name, content)
    assert fingerprint == policy_fingerprint(name, _reversed(content))
    prefix, _, digest = fingerprint.partition(":")
    assert (prefix, len(digest)) == ("sha256", 64)


@given(name=KEYS, other=KEYS, first=JSON, second=JSON)
def test_any_change_changes_a_policy(name: str, other: str, first: object, second: object) -> None:
    """Another name or any other content is another identity."""
    same = (name, canonical_json(first)) == (other, canonical_json(second))
    assert (policy_fingerprint(name, first) == policy_fingerprint(other, second)) is same
    wrapped = {"policy": first}
    assert policy_fingerprint(name, wrapped) != policy_fingerprint(name, first)


@given(content=st.dictionaries(KEYS, JSON, min_size=1), data=st.data())
def test_one_changed_leaf_changes_a_policy(content: dict[str, object], data: st.DataObject) -> None:
    """No part of a policy's content is left out of its fingerprint."""
    key = data.draw(st.sampled_from(sorted(content)))
    changed = content | {key: [content[key]]}
    less = {k: v for k, v in content.items() if k != key}
    prints = {policy_fingerprint("p", policy) for policy in (content, changed, less)}
    assert len(prints) == 3


@given(TREES)
def test_a_repeated_key_is_found_wherever_it_stands(tree: object) -> None:
    """Any object, however deep, that names a key twice is refused; no other JSON is."""
    text = _written(tree)
    for given_text in (text, text.encode()):
        if _repeats(tree):
            with pytest.raises(RepeatedKeyError) as caught:
                require_unique_keys(given_text)
            assert isinstance(caught.value, ContractError)
            assert caught.value.key in _keys(tree)
        else:
            require_unique_keys(given_text)


@pytest.mark.parametrize("text", ['{"a": 1, "\\u0061": 2}', '[{"b": {"a": 1, "a": 1}}]'])
def test_two_spellings_of_a_key_are_the_same_key(text: str) -> None:
    """An escape does not hide a repeated key, nor does an equal value excuse it."""
    with pytest.raises(RepeatedKeyError):
        require_unique_keys(text)


def test_a_long_number_is_no_repeated_key() -> None:
    """A number longer than Python turns into an `int` does not get in the way."""
    require_unique_keys('{"a": ' + "9" * 5000 + ', "b": NaN, "c": 1e999}')


def _reversed(value: object) -> object:
    """Return the same content with every object's keys in the opposite order."""
    if isinstance(value, dict):
        return {key: _reversed(value[key]) for key in reversed(value)}
    return [_reversed(item) for item in value] if isinstance(value, list) else value


def _pairs(tree: object) -> list[tuple[str, object]] | None:
    return cast("Pairs", tree)[1] if isinstance(tree, tuple) else None


def _written(tree: object) -> str:
    if (pairs := _pairs(tree)) is not None:
        return "{" + ",".join(f"{json.dumps(k)}:{_written(v)}" for k, v in pairs) + "}"
    if isinstance(tree, list):
        return "[" + ",".join(map(_written, tree)) + "]"
    return json.dumps(tree)


def _keys(tree: object) -> set[str]:
    if (pairs := _pairs(tree)) is not None:
        return {key for key, _ in pairs}.union(*(_keys(inner) for _, inner in pairs))
    return set().union(*map(_keys, tree)) if isinstance(tree, list) else set()


def _repeats(tree: object) -> bool:
    if (pairs := _pairs(tree)) is not None:
        keys = [key for key, _ in pairs]
        return len(keys) != len(set(keys)) or any(_repeats(inner) for _, inner in pairs)
    return isinstance(tree, list) and any(map(_repeats, tree))
