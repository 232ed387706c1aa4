"""What a server is asked, byte for byte where it matters."""

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, TypeAlias

import pytest

from notarius.attempts import CancelToken
from notarius.contracts import ProviderError, ProviderErrorKind, Reply
from notarius.llmruntime import BlockingBackend, ChatCall, Sampling
from notarius.semanticreconcile import ReconciliationContract

pytestmark = pytest.mark.allow_hosts(["127.0.0.1"])
Server: TypeAlias = Any  # the fixture's class can't be imported
Ask = Callable[..., Reply]
Fail = Callable[..., ProviderError]
Connect = Callable[..., BlockingBackend]
MakeCall = Callable[..., ChatCall]


def mode_of(asked: Any) -> str:  # noqa: ANN401 - a recorded request
    """Return the kind of structured output that was asked for."""
    return str(asked.body.get("response_format", {"type": "plain"})["type"])


def test_a_call_is_sent_as_it_is(
    ask: Ask, server: Server, say: SimpleNamespace, make_call: MakeCall
) -> None:
    """Model, messages and schema are those of the call; nothing else is in the body."""
    ask(say.chat(), model="org/tiny:1b")
    (asked,) = server.requests
    assert (asked.method, asked.path) == ("POST", "/v1/chat/completions")
    call = make_call()
    assert asked.body == {
        "model": "org/tiny:1b",
        "messages": [{"role": m.role.value, "content": m.content} for m in call.messages],
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "gadget", "schema": json.loads(call.schema_json)},
        },
    }


@pytest.mark.parametrize(
    "given", [{"temperature": 0.0}, {"seed": 0}, {"max_tokens": 1}, {"temperature": 1.5, "seed": 7}]
)
def test_only_the_sampling_that_was_set_is_sent(
    ask: Ask, server: Server, say: SimpleNamespace, given: dict[str, Any]
) -> None:
    """A value that is not set is left to the server, and 0 is set."""
    ask(say.chat(), sampling=Sampling(**given))
    (asked,) = server.requests
    assert asked.body.keys() - {"model", "messages", "response_format"} == given.keys()
    assert {name: asked.body[name] for name in given} == given


def test_the_variation_of_a_call_moves_a_fixed_seed(
    connect: Connect, server: Server, say: SimpleNamespace, make_call: MakeCall
) -> None:
    """A retry is another draw where a seed is set, and no seed is made up where none is."""
    server.plays(*[say.chat()] * 4)
    for sampling in (Sampling(seed=5), Sampling()):
        for variation in (0, 1001):
            call = make_call(variation=variation)
            connect(sampling=sampling).complete(call, cancellation=CancelToken())
    assert [asked.body.get("seed") for asked in server.requests] == [5, 1006, None, None]


def test_the_schema_is_sent_in_the_order_of_the_contract(
    connect: Connect, server: Server, say: SimpleNamespace, make_call: MakeCall
) -> None:
    """Servers write properties in the order of the schema: the name comes before the ids."""
    server.plays(say.chat())
    contract = ReconciliationContract()
    call = make_call(schema_name=contract.name, schema_json=contract.schema_json)
    connect().complete(call, cancellation=CancelToken())
    sent = server.requests[0].body["response_format"]["json_schema"]
    assert sent["name"] == contract.name
    assert json.dumps(sent["schema"]) == json.dumps(json.loads(contract.schema_json))
    group = sent["schema"]["properties"]["duplicate_groups"]["items"]
    assert list(group["properties"]) == ["name", "candidate_ids", "canonical_id"]


@pytest.mark.parametrize("key", [None, ""])
def test_without_a_key_no_credentials_are_sent(
    ask: Ask, server: Server, say: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, key: str | None
) -> None:
    """A server that needs no key gets none, not even one that lies in the environment."""
    for name in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY"):
        monkeypatch.setenv(name, "sk-ambient")
    ask(say.chat(), api_key=key)
    assert "authorization" not in server.requests[0].headers
    assert "sk-ambient" not in repr(server.requests)


def test_a_key_is_sent_as_a_bearer_token(ask: Ask, server: Server, say: SimpleNamespace) -> None:
    """The key that was given is the one that is used, exactly."""
    ask(say.chat(), api_key="sk-Given_1.2+3/4=")
    assert server.requests[0].headers["authorization"] == "Bearer sk-Given_1.2+3/4="


@pytest.mark.parametrize("base", ["", "/", "/v1", "/v1/", "/proxy/team%20a/v1", "/proxy/v1/"])
def test_the_address_is_the_base_and_the_path_of_the_service(
    ask: Ask, server: Server, say: SimpleNamespace, base: str
) -> None:
    """A trailing slash and a prefix make no difference to what comes after."""
    ask(say.chat(), base_url=server.origin + base)
    assert server.requests[0].path == f"{base.rstrip('/')}/chat/completions"


def test_calls_share_a_connection(
    connect: Connect, server: Server, say: SimpleNamespace, make_call: MakeCall
) -> None:
    """Several calls of one backend need one TCP connection."""
    server.plays(*[say.chat()] * 3)
    backend = connect()
    for _ in range(3):
        backend.complete(make_call(), cancellation=CancelToken())
    assert [asked.connection for asked in server.requests] == [1, 1, 1]


@pytest.mark.parametrize("status", [400, 422, 501])
@pytest.mark.parametrize("refused", [0, 1, 2])
def test_a_kind_of_output_that_is_refused_is_replaced_by_a_weaker_one(
    connect: Connect,
    server: Server,
    say: SimpleNamespace,
    make_call: MakeCall,
    status: int,
    refused: int,
) -> None:
    """Schema, then any object, then plain text; what was taken is asked for from then on."""
    no = say.http(status, b'{"error": {"message": "response_format is not supported"}}')
    server.plays(*[no] * refused, say.chat("first"), say.chat("second"))
    backend = connect(sampling=Sampling(seed=3))
    texts = [backend.complete(make_call(), cancellation=CancelToken()).text for _ in range(2)]
    assert texts == ["first", "second"]
    kinds = ["json_schema", "json_object", "plain"]
    assert [mode_of(asked) for asked in server.requests] == [
        *kinds[: refused + 1],
        kinds[refused],
    ]
    bodies = [asked.body for asked in server.requests]
    assert all(body["messages"] == bodies[0]["messages"] for body in bodies)
    assert all(body["seed"] == bodies[0]["seed"] for body in bodies)


def test_a_server_that_refuses_everything_is_asked_for_the_strongest_again(
    connect: Connect, server: Server, say: SimpleNamespace, make_call: MakeCall
) -> None:
    """A request that is refused in every form was bad for another reason: nothing is learned."""
    no = say.http(400, b'{"error": {"message": "context too long"}}')
    backend = connect()
    server.plays(no, no, no, say.chat())
    with pytest.raises(ProviderError) as caught:
        backend.complete(make_call(), cancellation=CancelToken())
    assert caught.value.kind is ProviderErrorKind.BAD_REQUEST
    backend.complete(make_call(), cancellation=CancelToken())
    assert [mode_of(asked) for asked in server.requests] == [
        "json_schema",
        "json_object",
        "plain",
        "json_schema",
    ]


@pytest.mark.parametrize("status", [401, 404, 408, 429, 500, 503])
def test_only_a_refusal_of_the_request_weakens_it(
    fail: Fail, server: Server, say: SimpleNamespace, status: int
) -> None:
    """Other failures say nothing about the kind of output: they come out at once."""
    assert fail(say.http(status, b"{}")).status == status
    assert len(server.requests) == 1
