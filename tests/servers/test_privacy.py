"""No key, address, body or text of a model in what is raised, logged or printed."""

import json
import logging
import socket
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias

import pytest

from notarius.attempts import CancelToken
from notarius.attempts.testing import JsonObjectContract
from notarius.contracts import AttemptCause, Message, NoReplyError, ProducerRequest, Role
from notarius.llmruntime import BlockingBackend, StructuredProducer
from notarius.llmruntime import _openai as module
from notarius.llmruntime.openai import parse_envelope

pytestmark = pytest.mark.allow_hosts(["127.0.0.1"])
Server: TypeAlias = Any  # the fixture's class can't be imported
CANARY = "QUETZALCOATLUS"
"""Stands in the key, the address, the prompt, every header, every body and every reply."""
TEXT = f'{{"a": "{CANARY}"}}'


def is_ours(filename: str) -> bool:
    """Whether a frame is of our packages: the clone may be called notarius too."""
    tests = Path(__file__).parents[1]
    return "/notarius/" in filename and not Path(filename).is_relative_to(tests)


def everything_about(error: BaseException) -> Iterator[str]:
    """Yield what can be seen of an error and of all errors behind it, suppressed or not."""
    frames = traceback.TracebackException.from_exception(error, capture_locals=True)
    yield "".join(traceback.format_exception(error))
    yield repr((error, error.args, vars(error)))
    # With the local variables of our own functions, as debuggers and pretty tracebacks show them.
    for frame in frames.stack:
        if is_ours(frame.filename):
            yield f"{frame.name}: {frame.locals}"
    # What the errors of JSON and of codecs carry.
    for name in ("doc", "object", "request", "response", "body"):
        yield repr(getattr(error, name, None))
    for behind in (error.__cause__, error.__context__):
        if behind is not None:
            yield from everything_about(behind)


def test_such_a_leak_would_be_found() -> None:
    """The check below sees what hides in the attributes of a suppressed error."""

    def parse() -> None:
        try:
            json.loads(CANARY)
        except ValueError:
            raise RuntimeError from None

    with pytest.raises(RuntimeError) as caught:
        parse()
    assert any(CANARY in seen for seen in everything_about(caught.value))


def failing_steps(say: SimpleNamespace) -> dict[str, list[Any]]:
    """Return what a server may do for a call to fail."""
    body = f'{{"error": {{"message": "{CANARY}"}}}}'.encode()
    marked = {"X-Request-Id": CANARY, "Server": CANARY}
    return {
        **{
            str(status): [say.http(status, body, **marked)] * 3
            for status in (302, 400, 401, 404, 429, 500)
        },
        "wait": [say.http(429, body, **{"Retry-After": CANARY})],
        "no JSON": [say.http(200, f"<html>{CANARY}".encode(), **marked)],
        "cut JSON": [say.http(200, b'{"choices": [{"%s' % CANARY.encode())],
        "no UTF-8": [say.http(200, CANARY.encode() + b"\xff")],
        "no choices": [say.http(200, f'{{"{CANARY}": 1}}'.encode())],
        "no content": [say.http(200, f'{{"choices": ["{CANARY}"]}}'.encode())],
        "parts": [say.chat([CANARY])],
        "reason": [say.chat(TEXT, [CANARY])],
        "too long": [say.http(200, CANARY.encode() * 1000)],
        "no gzip": [say.http(200, CANARY.encode(), **{"Content-Encoding": "gzip"})],
        "cut": [lambda connection: connection.sendall(say.http(200, b"", Length="9") + b"x")],
        "half": [lambda c: c.sendall(say.http(200, CANARY.encode(), **{"Content-Length": "999"}))],
        "no HTTP": [lambda connection: connection.sendall(CANARY.encode() + b"\r\n\r\n")],
        "circle": [say.http(307, b"", Location=f"/{CANARY}")] * 30,
    }


NAMES = [*failing_steps(SimpleNamespace(http=lambda *_, **__: b"", chat=lambda *_: b""))]


@pytest.fixture
def connect_marked(connect: Callable[..., BlockingBackend], server: Server) -> BlockingBackend:
    """Open a backend whose address and key are marked."""
    address = server.origin.replace("//", f"//{CANARY}:{CANARY}@")
    return connect(base_url=f"{address}/{CANARY}", api_key=f"sk-{CANARY}", model=CANARY)


REQUEST = ProducerRequest(
    messages=(Message(role=Role.USER, content=CANARY),), number=1, cause=AttemptCause.INITIAL
)


@pytest.mark.parametrize("name", [*NAMES, "deadline", "cancel", "nobody"])
def test_an_error_says_nothing_of_what_was_sent_and_received(
    connect_marked: BlockingBackend,
    server: Server,
    say: SimpleNamespace,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    """Not in its text, its attributes, its traceback, nor in any error behind it."""
    monkeypatch.setattr(module, "ENVELOPE_MAX_BYTES", 5000)
    token = CancelToken()

    def hold(connection: socket.socket) -> None:
        if name == "cancel":
            token.cancel()
        server.hold(connection)

    server.plays(*failing_steps(say).get(name, [hold]))
    if name == "nobody":
        server.close()
    call_time = 0.2 if name == "deadline" else None
    request = ProducerRequest(
        messages=REQUEST.messages, number=1, cause=REQUEST.cause, timeout_s=call_time
    )
    with pytest.raises(NoReplyError) as caught:
        StructuredProducer(connect_marked).produce(
            request, contract=JsonObjectContract(), cancellation=token
        )
    seen = list(everything_about(caught.value))
    assert len(seen) > 5
    assert [text for text in seen if CANARY in text] == []


@pytest.mark.parametrize("body", [b"", CANARY.encode(), CANARY.encode() + b"\xff", b"[" * 100_000])
def test_parsing_says_nothing_of_the_body(body: bytes) -> None:
    """The public parser raises alone: an error of JSON, which holds all of it, is not behind."""
    with pytest.raises(NoReplyError) as caught:
        parse_envelope(body)
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)
    assert [text for text in everything_about(caught.value) if CANARY in text] == []


def test_our_own_loggers_say_nothing(
    connect_marked: BlockingBackend,
    server: Server,
    say: SimpleNamespace,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A good call and a failed one leave no text in the log at DEBUG."""
    caplog.set_level(logging.DEBUG, "notarius")
    server.plays(say.chat(TEXT), say.http(401, TEXT.encode()))
    producer = StructuredProducer(connect_marked)
    arguments: dict[str, Any] = {"contract": JsonObjectContract(), "cancellation": CancelToken()}
    produced = producer.produce(REQUEST, **arguments)
    with pytest.raises(NoReplyError):
        producer.produce(REQUEST, **arguments)
    ours = [r.getMessage() for r in caplog.records if r.name.startswith("notarius")]
    assert CANARY not in repr((ours, produced, producer, connect_marked))


@pytest.mark.parametrize("outcome", ["accepted", "failed"])
def test_the_command_logs_no_key_prompt_or_reply(
    notarius: Callable[..., SimpleNamespace],
    server: Server,
    say: SimpleNamespace,
    monkeypatch: pytest.MonkeyPatch,
    outcome: str,
) -> None:
    """NOTARIUS_LOG=DEBUG is our own log: the libraries' logs hold addresses and headers."""
    monkeypatch.setenv("NOTARIUS_LOG", "DEBUG")
    monkeypatch.setenv("OPENAI_API_KEY", f"sk-{CANARY}")
    reply = f'{{"duplicate_groups": [], "note": "{CANARY}"}}'
    failed = say.http(500, CANARY.encode(), **{"X-Request-Id": CANARY})
    server.plays(*[failed] * 2 if outcome == "failed" else [say.chat("no JSON"), say.chat(reply)])
    address = server.origin.replace("//", f"//{CANARY}:{CANARY}@")
    options = ["--base-url", f"{address}/{CANARY}", "--transport-retries", "1"]
    got = notarius(*options, url=False)
    assert got.status == (4 if outcome == "failed" else 0)
    assert len(server.requests) == 2
    logged = [line for line in got.err.splitlines() if line.startswith(("DEBUG", "INFO"))]
    assert logged
    assert all(line.split()[1].startswith("notarius") for line in logged)
    written = "".join(path.read_text() for path in got.folder.iterdir() if "regis" not in path.name)
    for private in (CANARY, "Percival", server.origin):
        assert private not in got.err + got.out + written
