import copy
import inspect
import pickle
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from notarius import contracts
from notarius.contracts import (
    Accepted,
    Cancelled,
    Failed,
    FellBack,
    Message,
    ModelCandidate,
    Prompt,
    Role,
    Value,
    canonical_json,
)

Make = Callable[[type[Value], str], Value]
STRUCTS = [v for v in vars(contracts).values() if inspect.isclass(v) and issubclass(v, Value)]
COMPONENTS = msgspec.json.schema_components(STRUCTS)[1]
OUTCOMES = (Accepted, FellBack, Failed, Cancelled)
TEXT = st.text(st.characters(exclude_categories=["Cs"]))

struct = pytest.mark.parametrize("struct", STRUCTS, ids=lambda item: item.__name__)


@pytest.mark.parametrize("name", sorted(COMPONENTS))
def test_the_schema_of_a_type_is_stable(name: str, snapshot: SnapshotAssertion) -> None:
    """Stored payloads and other tools rely on the shape of every public struct and enum."""
    schema = dict(COMPONENTS[name])
    fields = schema.pop("properties", {})
    for key in ("description", "title"):
        schema.pop(key, None)
    for shape in fields.values():
        if "anyOf" in shape:  # their order means nothing
            shape["anyOf"] = sorted(shape["anyOf"], key=canonical_json)
    assert {field: canonical_json(shape).decode() for field, shape in fields.items()} | {
        f"({key})": value for key, value in schema.items()
    } == snapshot


@struct
def test_the_encoding_of_a_struct_is_stable(
    struct: type[Value], make: Make, snapshot: SnapshotAssertion
) -> None:
    """The same value is the same bytes in every release."""
    assert canonical_json(make(struct, "Zoë\n {}")).decode() == snapshot


@struct
def test_every_way_there_and_back_gives_the_same_value(struct: type[Value], make: Make) -> None:
    """JSON, MessagePack, plain data, pickles and copies lose nothing."""
    value = make(struct, "  Zoë\n {} \U0001f409")
    assert msgspec.json.decode(msgspec.json.encode(value), type=struct) == value
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(value), type=struct) == value
    assert msgspec.convert(msgspec.to_builtins(value), struct) == value
    assert pickle.loads(pickle.dumps(value)) == value  # noqa: S301 - our own bytes
    assert copy.copy(value) == value
    assert copy.deepcopy(value) == value
    assert msgspec.structs.replace(value) == value
    value.validate()


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_an_outcome_says_which_it_is(outcome: type[Value], make: Make) -> None:
    """A stored outcome is decoded as the one of four that it was."""
    value = make(outcome, "text")
    union = Accepted[dict[str, str]] | FellBack[dict[str, str]] | Failed | Cancelled
    decoded: object = msgspec.json.decode(msgspec.json.encode(value), type=union)
    assert type(decoded) is outcome
    assert decoded == value


@given(text=TEXT, role=st.sampled_from(Role))
def test_any_unicode_survives_the_wire(text: str, role: Role) -> None:
    """White space, line ends and rare characters of a message come back as they were."""
    message = Message(role=role, content=text)
    for codec in (msgspec.json, msgspec.msgpack):
        assert codec.decode(codec.encode(message), type=Message).content == text


@given(st.lists(st.tuples(st.sampled_from(Role), TEXT), max_size=4), TEXT)
def test_conversations_that_differ_have_other_digests(
    head: list[tuple[Role, str]], last: str
) -> None:
    """Moving text between messages, or changing a role, changes the digest of a prompt."""
    first = tuple(Message(role=role, content=text) for role, text in head)
    prompt = Prompt(messages=(*first, Message(role=Role.USER, content=last)))
    again = Prompt(messages=(*first, Message(role=Role.USER, content=last)))
    longer = Prompt(messages=(*first, Message(role=Role.USER, content=last + "x")))
    split = Prompt(messages=(*prompt.messages, Message(role=Role.USER, content="")))
    renamed = Prompt(
        messages=(Message(role=Role.ASSISTANT, content="x"), *prompt.messages),
    )
    other = Prompt(messages=(Message(role=Role.SYSTEM, content="x"), *prompt.messages))
    assert prompt.sha256 == again.sha256
    assert len({p.sha256 for p in (prompt, longer, split, renamed, other)}) == 5


@given(TEXT.filter(str.strip))
def test_a_candidate_knows_the_bytes_of_its_text(text: str) -> None:
    """The size of a candidate is that of its UTF-8, and its digest is of the same bytes."""
    candidate = ModelCandidate.of(text)
    assert candidate.text == text
    assert candidate.size == len(text.encode())
    assert candidate.protocol == contracts.SINGLE_RESPONSE_V1
