"""What a server says in a chat completion, and what it comes to."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias

import pytest

from notarius.attempts import CancelToken
from notarius.attempts.testing import JsonObjectContract
from notarius.contracts import (
    AttemptCause,
    FinishReason,
    Message,
    ModelCandidate,
    ProducerRequest,
    ProviderError,
    ProviderErrorKind,
    Reply,
    Role,
    StructuralDefect,
    StructuralFailure,
    Usage,
)
from notarius.llmruntime import BlockingBackend, StructuredProducer

pytestmark = pytest.mark.allow_hosts(["127.0.0.1"])
Server: TypeAlias = Any  # the fixture's class can't be imported
Ask = Callable[..., Reply]
Fail = Callable[..., ProviderError]
GROUPS = '{"duplicate_groups": []}'

RECORDED = Path(__file__).parent / "recorded"
"""What llama.cpp sent (the release in xllamacpp 2026.10.11549), but for the path of the model."""
LLAMA_CPP_THINKING = {
    "choices": [
        {
            "finish_reason": "stop",
            "index": 0,
            "message": {"role": "assistant", "reasoning_content": "Hm.", "content": GROUPS},
        }
    ],
    "object": "chat.completion",
    "usage": {"completion_tokens": 7, "prompt_tokens": 310, "total_tokens": 317},
}
# These two are written after what the projects say that they send.
OLLAMA = {
    "id": "chatcmpl-123",
    "object": "chat.completion",
    "created": 1790000000,
    "model": "llama3.2:1b",
    "system_fingerprint": "fp_ollama",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": GROUPS, "reasoning": "Hm."},
            "finish_reason": "stop",
        }
    ],
    "usage": {"prompt_tokens": 310, "completion_tokens": 7, "total_tokens": 317},
}
VLLM = {
    "id": "chatcmpl-3f2a9d",
    "object": "chat.completion",
    "created": 1790000000,
    "model": "Qwen/Qwen2.5-1.5B-Instruct",
    "choices": [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": GROUPS,
                "refusal": None,
                "annotations": None,
                "audio": None,
                "function_call": None,
                "tool_calls": [],
                "reasoning_content": None,
            },
            "logprobs": None,
            "finish_reason": "stop",
            "stop_reason": None,
            "token_ids": None,
        }
    ],
    "service_tier": None,
    "system_fingerprint": None,
    "usage": {
        "prompt_tokens": 310,
        "total_tokens": 317,
        "completion_tokens": 7,
        "prompt_tokens_details": None,
    },
    "prompt_logprobs": None,
    "prompt_token_ids": None,
    "kv_transfer_params": None,
}


@pytest.fixture
def judge(
    server: Server,
    connect: Callable[..., BlockingBackend],
) -> Callable[[bytes], ModelCandidate | StructuralFailure]:
    """Put one response through a producer."""

    def judge(response: bytes) -> ModelCandidate | StructuralFailure:
        server.plays(response)
        request = ProducerRequest(
            messages=(Message(role=Role.USER, content="hi"),), number=1, cause=AttemptCause.INITIAL
        )
        return (
            StructuredProducer(connect())
            .produce(request, contract=JsonObjectContract(), cancellation=CancelToken())
            .result
        )

    return judge


def test_what_llama_cpp_sent_is_read(ask: Ask, say: SimpleNamespace) -> None:
    """A recorded response of a real server gives its text to the byte, and its usage."""
    recorded = (RECORDED / "llama.cpp.json").read_bytes()
    assert ask(say.http(200, recorded)) == Reply(
        text='{\n  "cat": "Whiskers"\n}',
        finish_reason=FinishReason.STOP,
        usage=Usage(input_tokens=37, output_tokens=16),
    )


def test_what_llama_cpp_says_of_a_schema_that_it_does_not_know_is_no_end(
    server: Server, ask: Ask, say: SimpleNamespace
) -> None:
    """Its recorded refusal of a schema leads to a request that asks for less."""
    server.plays(say.http(400, (RECORDED / "llama.cpp.schema-refused.json").read_bytes()))
    assert ask(say.chat(GROUPS)).text == GROUPS


@pytest.mark.parametrize(
    "sent", [LLAMA_CPP_THINKING, OLLAMA, VLLM], ids=["llama.cpp", "ollama", "vllm"]
)
def test_what_known_servers_send_is_read(ask: Ask, say: SimpleNamespace, sent: object) -> None:
    """Extra fields are of no matter, and text of a thinking channel is not the reply."""
    assert ask(say.http(200, json.dumps(sent).encode())) == Reply(
        text=GROUPS,
        finish_reason=FinishReason.STOP,
        usage=Usage(input_tokens=310, output_tokens=7),
    )


@pytest.mark.parametrize("escaped", [True, False])
@pytest.mark.parametrize(
    "text",
    [
        "\r\n\t {} \r\n\n",
        '```json\n{"a": "\u2028 \u00a0 e\u0301 \N{DRAGON} \ufffd"}\n```',
        "a\x00b \x1b[31m \ufeff",
        " ",
    ],
)
def test_the_text_is_that_of_the_model(
    ask: Ask, say: SimpleNamespace, text: str, escaped: bool
) -> None:
    """White space, line ends, NUL and characters beyond the basic plane come through exactly."""
    body = json.dumps(say.envelope(text), ensure_ascii=escaped).encode()
    assert ask(say.http(200, body)).text == text


def test_a_byte_order_mark_and_white_space_around_an_envelope_are_nothing(
    ask: Ask, say: SimpleNamespace
) -> None:
    """Only what is inside the envelope counts."""
    body = json.dumps(say.envelope("{}")).encode()
    assert ask(say.http(200, b"\xef\xbb\xbf \r\n" + body + b"\n\n")).text == "{}"


@pytest.mark.parametrize("content_type", ["text/html; charset=latin-1", "text/event-stream", ""])
def test_the_content_type_is_of_no_matter(
    ask: Ask, say: SimpleNamespace, content_type: str
) -> None:
    """A completion is told by what it holds, in UTF-8, whatever its header claims."""
    body = json.dumps(say.envelope("é"), ensure_ascii=False).encode()
    assert ask(say.http(200, body, **{"Content-Type": content_type})).text == "é"


def test_a_compressed_body_is_read(ask: Ask, say: SimpleNamespace) -> None:
    """A gzip body holds the same completion."""
    body = gzip.compress(json.dumps(say.envelope("{}")).encode())
    assert ask(say.http(200, body, **{"Content-Encoding": "gzip"})).text == "{}"


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("stop", FinishReason.STOP),
        ("length", FinishReason.LENGTH),
        ("content_filter", FinishReason.REFUSAL),
        ("tool_calls", FinishReason.OTHER),
        ("", FinishReason.OTHER),
        (None, None),
    ],
)
def test_finish_reasons(
    ask: Ask, say: SimpleNamespace, reason: str | None, finish: FinishReason | None
) -> None:
    """A reason that nobody knows is another one; a reason that is not told is unknown."""
    assert ask(say.chat("{}", reason)).finish_reason is finish


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 3, "completion_tokens": 0}, (3, 0)),
        ({"prompt_tokens": 3}, (3, None)),
        ({"prompt_tokens": None, "completion_tokens": -1}, (None, None)),
        ({"prompt_tokens": "3", "completion_tokens": 4.0}, (None, None)),
        ({"prompt_tokens": 2**53 - 1, "completion_tokens": 2**53}, (2**53 - 1, None)),
        ({"prompt_tokens": 10**4299, "completion_tokens": 1}, (None, 1)),
        ({"prompt_tokens": True, "completion_tokens": [4]}, (None, None)),
        (None, (None, None)),
        ([3, 4], (None, None)),
        ("many", (None, None)),
    ],
)
def test_usage_that_is_not_told_in_numbers_is_unknown(
    ask: Ask, say: SimpleNamespace, usage: object, expected: tuple[int | None, int | None]
) -> None:
    """A count is a whole number from 0; everything else is unknown, never 0 and never an error."""
    got = ask(say.chat("{}", usage=usage)).usage
    assert (got.input_tokens, got.output_tokens) == expected


def test_usage_that_is_missing_is_unknown(ask: Ask, say: SimpleNamespace) -> None:
    """A server need not count."""
    assert ask(say.chat("{}")).usage == Usage()


@pytest.mark.parametrize(
    ("content", "more", "defect"),
    [
        (None, {"message": {"reasoning_content": '{"a": 1}'}}, StructuralDefect.EMPTY),
        ("", {"message": {"reasoning": '{"a": 1}'}}, StructuralDefect.EMPTY),
        (None, {"message": {"tool_calls": [{"id": "1"}]}}, StructuralDefect.EMPTY),
        (None, {"message": {"refusal": "I can not."}}, StructuralDefect.REFUSED),
        ("{}", {"message": {"refusal": "I can not."}}, StructuralDefect.REFUSED),
        ("{}", {"finish_reason": "content_filter"}, StructuralDefect.REFUSED),
        ("{}", {"finish_reason": "length"}, StructuralDefect.CUT_OFF),
        ('{"a": "\ud800"}', {}, StructuralDefect.NOT_TEXT),
        ("I think", {}, StructuralDefect.NOT_JSON),
    ],
)
def test_a_reply_that_is_no_candidate_is_a_structural_failure(
    judge: Callable[[bytes], Any],
    say: SimpleNamespace,
    content: str | None,
    more: dict[str, Any],
    defect: StructuralDefect,
) -> None:
    """Thinking is no reply, a refusal is told by its field too, a lone surrogate is no text."""
    assert judge(say.chat(content, **more)).defect is defect


def test_content_that_is_missing_is_an_empty_reply(
    judge: Callable[[bytes], Any], say: SimpleNamespace
) -> None:
    """Some servers leave the field out where the model only thought."""
    said = {"choices": [{"message": {"reasoning": "Hm."}}]}
    assert judge(say.http(200, json.dumps(said).encode())).defect is StructuralDefect.EMPTY


def test_an_empty_refusal_is_none(judge: Callable[[bytes], Any], say: SimpleNamespace) -> None:
    """A refusal field without text says that nothing was refused."""
    assert judge(say.chat("{}", message={"refusal": ""})) == ModelCandidate.of("{}")


BAD_ENVELOPES: dict[str, bytes] = {
    "nothing": b"",
    "no JSON": b"<html>Bad gateway</html>",
    "cut JSON": b'{"choices": [{"message": {"content": "x"',
    "two values": b'{"choices": []} {}',
    "no UTF-8": b'{"choices": [{"message": {"content": "\xff"}}]}',
    "endless nesting": b"[" * 200_000,
    "endless number": b"1" * 10_000,
    "list": b"[]",
    "number": b"1",
    "text": b'"choices"',
    "null": b"null",
    "error with status 200": b'{"error": {"message": "overloaded", "code": 503}}',
    "no choices": b'{"id": "1"}',
    "null choices": b'{"choices": null}',
    "empty choices": b'{"choices": []}',
    "choices object": b'{"choices": {"0": {}}}',
    "choices text": b'{"choices": "abc"}',
    "choice number": b'{"choices": [1]}',
    "no message": b'{"choices": [{"text": "{}"}]}',
    "null message": b'{"choices": [{"message": null}]}',
    "message text": b'{"choices": [{"message": "{}"}]}',
    "content number": b'{"choices": [{"message": {"content": 1}}]}',
    "content parts": b'{"choices": [{"message": {"content": [{"type": "text", "text": "{}"}]}}]}',
    "reason number": b'{"choices": [{"message": {"content": "{}"}, "finish_reason": 1}]}',
}


@pytest.mark.parametrize("body", BAD_ENVELOPES.values(), ids=BAD_ENVELOPES)
def test_what_is_no_completion_is_an_error_of_the_server(
    fail: Fail, say: SimpleNamespace, body: bytes
) -> None:
    """No guess is made at another shape, and nothing but a `ProviderError` comes out."""
    assert fail(say.http(200, body)).kind is ProviderErrorKind.BAD_ENVELOPE
