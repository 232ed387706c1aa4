import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from notarius.contracts import StructuralDefect
from notarius.semanticreconcile import (
    RESPONSE_SCHEMA,
    Proposal,
    ProposedGroup,
    parse_proposal,
)

GROUP = '{"name": "Ada", "candidate_ids": ["c1", "c2"], "canonical_id": "c1"}'
REPLY = f'{{"duplicate_groups": [{GROUP}]}}'
ADA = Proposal(groups=(ProposedGroup(candidate_ids=("c1", "c2"), canonical_id="c1"),))


def group_with(change: str) -> str:
    """Return a reply whose only group has more text at its end."""
    return f'{{"duplicate_groups": [{GROUP[:-1]}, {change}}}]}}'


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(REPLY, id="plain"),
        pytest.param(f"\r\n\t {REPLY} \n", id="white space around"),
        pytest.param(REPLY.replace('"name": "Ada", ', ""), id="no name"),
        pytest.param(REPLY.replace("Ada", r"A\"d:a{\\"), id="a name like JSON"),
        pytest.param(REPLY.replace("name", r"n\u0061me"), id="an escaped key"),
        pytest.param(REPLY[:-1] + ', "note": {"a": [1, {"b": null}]}}', id="unknown key on top"),
        pytest.param(group_with('"why": {"name": 1}'), id="unknown key in a group"),
        pytest.param(REPLY[:-1] + f', "n": {"9" * 5_000}, "m": 1e999999}}', id="huge numbers"),
        pytest.param(REPLY[:-1] + ', "n": "\u2028\x7f\ufeff"}', id="odd characters in a string"),
    ],
)
def test_what_means_the_same_is_read_the_same(text: str) -> None:
    """Unknown keys, a missing name, white space and escapes change nothing."""
    assert parse_proposal(text) == ADA


@pytest.mark.parametrize(
    ("text", "defect"),
    [
        pytest.param("", "NOT_JSON", id="empty"),
        pytest.param("null", "WRONG_SHAPE", id="null"),
        pytest.param("There are no duplicates.", "NOT_JSON", id="prose"),
        pytest.param(f"```json\n{REPLY}\n```", "NOT_JSON", id="code fences"),
        pytest.param(f"\ufeff{REPLY}", "NOT_JSON", id="byte-order mark"),
        pytest.param(f"{REPLY} Done.", "NOT_JSON", id="trailing text"),
        pytest.param(REPLY + REPLY, "NOT_JSON", id="two objects"),
        pytest.param(f"{REPLY}\x00", "NOT_JSON", id="trailing NUL"),
        pytest.param(REPLY[:-1], "NOT_JSON", id="cut off"),
        pytest.param(REPLY[:-1] + ', "n": NaN}', "NOT_JSON", id="NaN"),
        pytest.param(REPLY[:-1] + r', "n": "\q"}', "NOT_JSON", id="bad escape in an unknown key"),
        pytest.param(REPLY[:-1] + r', "n": "\ud800"}', "NOT_JSON", id="lone surrogate escape"),
        pytest.param(REPLY.replace("Ada", r"\udfff"), "NOT_JSON", id="lone surrogate in a name"),
        pytest.param(REPLY.replace("Ada", "\ud800"), "NOT_TEXT", id="lone surrogate"),
        pytest.param('[{"entity": 1}]', "WRONG_SHAPE", id="bare list"),
        pytest.param(f"[{GROUP}]", "WRONG_SHAPE", id="bare list of groups"),
        pytest.param("{}", "WRONG_SHAPE", id="no key"),
        pytest.param(REPLY.replace("duplicate_groups", "groups"), "WRONG_SHAPE", id="renamed key"),
        pytest.param(REPLY.replace("_ids", "Ids"), "WRONG_SHAPE", id="renamed key in a group"),
        pytest.param(REPLY.replace('["c1", "c2"]', "[1, 2]"), "WRONG_SHAPE", id="numbers as ids"),
        pytest.param(REPLY.replace('["c1", "c2"]', '"c1"'), "WRONG_SHAPE", id="an id for a list"),
        pytest.param(REPLY.replace(': "c1"', ": null"), "WRONG_SHAPE", id="no canonical id"),
        pytest.param(REPLY.replace(': "c1"', ": 1"), "WRONG_SHAPE", id="number as canonical id"),
        pytest.param(REPLY.replace('"Ada"', "null"), "WRONG_SHAPE", id="null as a name"),
        pytest.param('{"duplicate_groups": null}', "WRONG_SHAPE", id="null for the groups"),
        pytest.param('{"duplicate_groups": {}}', "WRONG_SHAPE", id="an object for the groups"),
        pytest.param('{"duplicate_groups": [null]}', "WRONG_SHAPE", id="null as a group"),
        pytest.param(json.dumps(REPLY), "WRONG_SHAPE", id="a string that holds the answer"),
        pytest.param(json.dumps(RESPONSE_SCHEMA), "WRONG_SHAPE", id="the schema echoed"),
    ],
)
def test_whatever_is_not_the_declared_shape_is_structural(text: str, defect: str) -> None:
    """Nothing is repaired by guessing: another shape gives no proposal at all."""
    assert parse_proposal(text) is StructuralDefect[defect]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f'{{"duplicate_groups": [{GROUP}], "duplicate_groups": []}}', id="top"),
        pytest.param(f'{{"duplicate_groups": [], "duplicate_groups": [{GROUP}]}}', id="top again"),
        pytest.param(
            r'{"duplicate_groups": [], "duplicate_group\u0073": []}', id="in another writing"
        ),
        pytest.param(group_with('"candidate_ids": ["c1", "c2"]'), id="ids"),
        pytest.param(group_with('"canonical_id": "c1"'), id="canonical id"),
        pytest.param(group_with('"name": "Ada"'), id="name"),
        pytest.param(
            group_with('"canonical_id": "c1"').replace("Ada", "XX:XX" * 4), id="beside many colons"
        ),
        pytest.param(group_with('"why": 1, "why": 1'), id="unknown key of a group"),
        pytest.param(REPLY[:-1] + ', "x": 1, "x": 2}', id="unknown key on top"),
        pytest.param(REPLY[:-1] + ', "x": [[{"a": {"b": 1, "b": 1}}]]}', id="deep in unknown keys"),
        pytest.param(REPLY[:-1] + ', "x": {"": 1, "": 1}}', id="empty key"),
    ],
)
def test_a_repeated_key_is_structural_at_every_level(text: str) -> None:
    """A repeated key would silently drop what stood under the first one."""
    assert parse_proposal(text) is StructuralDefect.REPEATED_KEY


@pytest.mark.parametrize(("opened", "end"), [("[", "]"), ('{"a": ', "}")])
@pytest.mark.parametrize("before", ["", "[], " * 99, "{}, " * 99])
def test_brackets_may_be_open_up_to_a_limit(opened: str, end: str, before: str) -> None:
    """However many were closed before, so many may be open at once and not one more."""

    def nested(levels: int) -> str:
        # Two are open around: the reply's own and the list of what came before.
        deep = opened * (levels - 2) + "0" + end * (levels - 2)
        return f'{{"duplicate_groups": [], "x": [{before}{deep}]}}'

    assert parse_proposal(nested(64)) == Proposal(groups=())
    assert parse_proposal(nested(65)) is StructuralDefect.TOO_DEEP


@pytest.mark.parametrize("unit", ["[", '{"a":', '[{"a":'])
@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize(
    "start", ["", '{"x":', '{"duplicate_groups":', '{"duplicate_groups":[],"x":']
)
def test_a_million_levels_are_structural(start: str, unit: str, closed: bool) -> None:
    """Nesting beyond any limit is a defect of the reply, not a crash."""
    depth = 1_000_000
    end = "".join({"[": "]", "{": "}"}.get(c, "") for c in reversed(unit)) if closed else ""
    parsed = parse_proposal(start + unit * depth + "1" + end * depth + "}" * bool(start and closed))
    assert isinstance(parsed, StructuralDefect)


def naive(text: str) -> Proposal | None:
    """Return the proposal by the standard library alone, or None if any object repeats a key."""
    repeated = []

    def pairs(items: list[tuple[str, object]]) -> dict[str, object]:
        repeated.extend([1] * (len(items) - len(dict(items))))
        return dict(items)

    groups = json.loads(text, object_pairs_hook=pairs, parse_int=str)["duplicate_groups"]
    if repeated:
        return None
    return Proposal(
        groups=tuple(
            ProposedGroup(candidate_ids=tuple(g["candidate_ids"]), canonical_id=g["canonical_id"])
            for g in groups
        )
    )


# Literals full of what means something outside strings.
STRINGS = st.text('":,{}[]\\/ \n\x08é\U0001f409ac1').map(json.dumps) | st.sampled_from(
    ['""', '":"', r'"\\"', r'"\":"', r'"a\\\": {"', r'"\\\\"', r'"\u003a\u0022"', r'", \"name\": "']
)


def pair(name: str, value: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Return a pair of an object, its key in one of two writings."""
    keys = st.sampled_from([f'"{name}"', f'"\\u{ord(name[0]):04x}{name[1:]}"'])
    return st.tuples(keys, value).map(" :".join)


def objects(*pairs: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Return an object with these pairs in any order, sometimes one of them twice."""
    more: st.SearchStrategy[list[str]] = st.just([]) | st.one_of(*pairs).map(lambda one: [one])
    return (
        st.tuples(st.tuples(*pairs), more)
        .flatmap(lambda drawn: st.permutations([*drawn[0], *drawn[1]]))
        .map(lambda found: f"{{{' , '.join(filter(None, found))}}}")
    )


def arrays(items: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Return an array."""
    return st.lists(items, min_size=1, max_size=3).map(lambda found: f"[{','.join(found)}]")


NOTHING = st.just("")
FOREIGN = pair("x", STRINGS) | pair(
    "names",
    st.recursive(
        STRINGS | st.sampled_from(["1", "-0.5e9", "null", "9" * 30]),
        lambda inner: arrays(inner) | objects(pair("a", inner), pair("name", inner)),
        max_leaves=3,
    ),
)
OWN = (pair("candidate_ids", arrays(STRINGS)), pair("canonical_id", STRINGS))
GROUPS = arrays(objects(*OWN, NOTHING | pair("name", STRINGS)))
FOREIGN_GROUPS = arrays(objects(*OWN, pair("name", STRINGS), NOTHING | FOREIGN))
REPLIES = objects(pair("duplicate_groups", GROUPS)) | objects(
    pair("duplicate_groups", FOREIGN_GROUPS), NOTHING | FOREIGN
)


@given(REPLIES)
def test_counting_keys_agrees_with_looking_at_every_object(text: str) -> None:
    """A reply is refused for a repeated key exactly if an object of it has one; else it is kept."""
    expected = naive(text)
    assert parse_proposal(text) == (StructuralDefect.REPEATED_KEY if expected is None else expected)


@given(
    st.text(st.characters(exclude_categories=()))
    | st.tuples(REPLIES, st.integers(0, 200), st.integers(0, 3), st.text('{}[]":,\\u1 x')).map(
        lambda drawn: drawn[0][: drawn[1]] + drawn[3] + drawn[0][drawn[1] + drawn[2] :]
    )
)
@example('{"duplicate_groups":[],"\ud800":1}')
def test_any_text_has_an_answer(text: str) -> None:
    """No text raises, and what is taken for a proposal is what a strict reader finds in it."""
    parsed = parse_proposal(text)
    if isinstance(parsed, Proposal):
        assert parsed == naive(text)


def test_what_a_model_wrote_is_not_shown(canary: str) -> None:
    """A proposal is shown without the ids that the model wrote, which may be anything."""
    parsed = parse_proposal(REPLY.replace("c2", canary))
    assert isinstance(parsed, Proposal)
    assert canary in parsed.groups[0].candidate_ids
    assert canary not in repr(parsed) + str(parsed.debug_view())
