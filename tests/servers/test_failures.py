"""Servers that refuse, break or lie: each ends in one kind of `ProviderError`, and quickly."""

import datetime as dt
import gzip
import json
import socket
import threading
from collections.abc import Callable
from email.utils import format_datetime
from types import SimpleNamespace
from typing import Any, TypeAlias

import pytest

from notarius.attempts import CancelToken
from notarius.contracts import ContractError, ProviderError, ProviderErrorKind, Reply
from notarius.llmruntime import _openai as module
from notarius.llmruntime.openai import AsyncOpenAIBackend

pytestmark = pytest.mark.allow_hosts(["127.0.0.1"])
Server: TypeAlias = Any  # the fixture's class can't be imported
Ask = Callable[..., Reply]
Fail = Callable[..., ProviderError]
KB = 1024


def sends(*parts: bytes) -> Callable[[socket.socket], None]:
    """Send exactly this and hang up."""

    def step(connection: socket.socket) -> None:
        for part in parts:
            connection.sendall(part)

    return step


@pytest.fixture
def _small_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ENVELOPE_MAX_BYTES", 64 * KB)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (302, ProviderErrorKind.BAD_REQUEST),
        (400, ProviderErrorKind.BAD_REQUEST),
        (401, ProviderErrorKind.DENIED),
        (403, ProviderErrorKind.DENIED),
        (404, ProviderErrorKind.NOT_FOUND),
        (405, ProviderErrorKind.BAD_REQUEST),
        (408, ProviderErrorKind.TIMED_OUT),
        (409, ProviderErrorKind.BAD_REQUEST),
        (413, ProviderErrorKind.BAD_REQUEST),
        (422, ProviderErrorKind.BAD_REQUEST),
        (429, ProviderErrorKind.RATE_LIMITED),
        (500, ProviderErrorKind.SERVER_ERROR),
        (501, ProviderErrorKind.BAD_REQUEST),
        (503, ProviderErrorKind.SERVER_ERROR),
        (529, ProviderErrorKind.SERVER_ERROR),
    ],
)
def test_each_status_is_one_kind(
    fail: Fail, say: SimpleNamespace, server: Server, status: int, kind: ProviderErrorKind
) -> None:
    """The kind and the status tell what happened; one call is one try of each kind of output."""
    error = fail(*[say.http(status, b'{"error": {"message": "no"}}')] * 3)
    assert (error.kind, error.status) == (kind, status)
    assert len(server.requests) == (3 if kind is ProviderErrorKind.BAD_REQUEST else 1)


@pytest.mark.parametrize("status", [204, 206])
def test_a_success_without_a_completion_is_a_bad_envelope(
    fail: Fail, say: SimpleNamespace, status: int
) -> None:
    """Success is told by the body, not by the status alone."""
    assert fail(say.http(status, b"")).kind is ProviderErrorKind.BAD_ENVELOPE


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("7", 7.0),
        ("0", 0.0),
        ("1.5", 1.5),
        ("-3", 0.0),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
        ("", None),
        ("soon", None),
        ("nan", None),
        ("inf", None),
        ("1e999", None),
        ("Wed, 99 Foo 2015", None),
        ("Wed, 21 Oct 99999999999999999999 07:28:00 GMT", None),
        ("Wed, 21 Oct 2015 07:28:00 +99999999999999999999", None),
        ("\xff", None),
    ],
)
@pytest.mark.parametrize("status", [429, 503])
def test_the_wait_that_a_server_asks_for(
    fail: Fail, say: SimpleNamespace, status: int, value: str, seconds: float | None
) -> None:
    """Seconds and dates are understood, a past one is 0, and nonsense is no wish."""
    error = fail(say.http(status, b"", **{"Retry-After": value}))
    assert (error.status, error.retry_after_s) == (status, seconds)


def test_the_wait_until_a_date(fail: Fail, say: SimpleNamespace) -> None:
    """A date in the future is the time until then, also in another zone."""
    for zone in (dt.UTC, dt.timezone(dt.timedelta(hours=-5))):
        at = dt.datetime.now(tz=zone) + dt.timedelta(seconds=100)
        wait = fail(say.http(429, b"", **{"Retry-After": format_datetime(at)})).retry_after_s
        assert wait is not None
        assert 80 < wait <= 100


HALF = b'HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{"choices": ['
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-",
        b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n",
        HALF,
        CHUNKED + b"5\r\n{}   \r\n",
        CHUNKED + b"no number\r\n",
        b"SSH-2.0-OpenSSH_9.9\r\n",
        b"\x16\x03\x01\x00\x00",
    ],
)
def test_a_connection_that_breaks_is_a_server_that_is_not_reached(fail: Fail, sent: bytes) -> None:
    """Half an answer is none, wherever it ends, and what is no HTTP is none either."""
    assert fail(sends(sent)).kind is ProviderErrorKind.UNREACHABLE


def test_a_port_where_nobody_listens(fail: Fail, server: Server) -> None:
    """No server is a server that is not reached."""
    server.close()
    assert fail().kind is ProviderErrorKind.UNREACHABLE


def test_a_connection_that_was_closed_between_calls_is_opened_again(
    connect: Callable[..., Any], make_call: Callable[..., Any], server: Server, say: SimpleNamespace
) -> None:
    """A server may close an idle connection; the next call is not harmed by it."""
    closed = threading.Event()

    def answers_and_closes(connection: socket.socket) -> None:
        connection.sendall(say.chat("first"))
        connection.shutdown(socket.SHUT_RDWR)
        closed.set()

    server.plays(answers_and_closes, say.chat("second"))
    backend = connect()
    texts = []
    for _ in range(2):
        texts.append(backend.complete(make_call(), cancellation=CancelToken()).text)
        assert closed.wait(15)
    assert texts == ["first", "second"]


@pytest.mark.parametrize(
    "address",
    [
        "nowhere",
        "localhost:8080/v1",
        "ftp://127.0.0.1/v1",
        "http://",
        "http://[::1",
        "http://127.0.0.1:port/v1",
        "http://127.0.0.1:65536/v1",
        "http://a\nb/",
        "http://127.0.0.1:1/\ud800",
    ],
)
def test_an_address_that_is_none_is_the_callers_mistake(address: str) -> None:
    """It is refused before any call."""
    with pytest.raises(ContractError):
        AsyncOpenAIBackend("tiny", base_url=address)


def test_a_model_whose_name_is_no_text_is_the_callers_mistake() -> None:
    """A name that JSON can't hold is refused before any call."""
    with pytest.raises(ContractError):
        AsyncOpenAIBackend("tiny\udcff")


@pytest.mark.parametrize("end", [":port/", "/\n", "/\ud800", ":65536/"])
def test_an_address_that_is_refused_is_not_repeated(end: str) -> None:
    """It may hold a password."""
    with pytest.raises(ContractError) as caught:
        AsyncOpenAIBackend("tiny", base_url=f"http://me:secret@host{end}")
    assert "secret" not in repr((caught.value, caught.value.__cause__, caught.value.__context__))


@pytest.mark.parametrize("key", ["sk-secret\n", "sk-sécret", "sk-\ud800", "sk secret\x00"])
def test_a_key_that_can_not_be_sent_is_the_callers_mistake(key: str) -> None:
    """A key that no header can hold is refused at once, without being repeated."""
    with pytest.raises(ContractError) as caught:
        AsyncOpenAIBackend("tiny", api_key=key)
    assert "secret" not in repr((caught.value, caught.value.__cause__, caught.value.__context__))


@pytest.mark.usefixtures("_small_cap")
def test_a_body_over_the_limit_is_not_read_on(fail: Fail, server: Server) -> None:
    """An endless body ends at the limit, and the connection with it."""

    def endless(connection: socket.socket) -> None:
        connection.sendall(CHUNKED)
        try:
            while True:
                connection.sendall(b"2000\r\n" + b" " * 0x2000 + b"\r\n")
        except OSError:
            server.hung_up.set()

    assert fail(endless).kind is ProviderErrorKind.BAD_ENVELOPE
    assert server.hung_up.wait(15)


@pytest.mark.usefixtures("_small_cap")
@pytest.mark.parametrize("size", [64 * KB, 64 * KB + 1])
def test_the_limit_counts_bytes_after_decompression(
    ask: Ask, fail: Fail, say: SimpleNamespace, size: int
) -> None:
    """A body of exactly the limit is read, one byte more is not, however small it was packed."""
    body = json.dumps(say.envelope("{}")).encode().ljust(size)
    packed = say.http(200, gzip.compress(body), **{"Content-Encoding": "gzip"})
    assert len(packed) < KB
    if size > 64 * KB:
        assert fail(packed).kind is ProviderErrorKind.BAD_ENVELOPE
    else:
        assert ask(packed).text == "{}"


@pytest.mark.parametrize("status", [401, 503])
def test_the_body_of_an_error_is_not_read(
    fail: Fail, server: Server, say: SimpleNamespace, status: int
) -> None:
    """Its status says all: an endless, broken or packed body of an error is of no matter."""
    error = fail(lambda connection: endless_error(connection, server, say, status))
    assert error.status == status
    assert server.hung_up.wait(15)
    bomb = say.http(status, b"\x1f\x8bno gzip", **{"Content-Encoding": "gzip"})
    assert fail(bomb).status == status
    cut = say.http(status, b"", **{"Content-Length": "100"})
    assert fail(sends(cut)).status == status


def endless_error(
    connection: socket.socket, server: Server, say: SimpleNamespace, status: int
) -> None:
    """Send the headers of an error and then a body without end."""
    try:
        connection.sendall(say.http(status, b"", **{"Content-Length": str(10**12)}))
        while True:
            connection.sendall(b" " * KB)
    except OSError:
        server.hung_up.set()


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "gzip, gzip"])
def test_a_body_that_can_not_be_unpacked_is_a_bad_envelope(
    fail: Fail, say: SimpleNamespace, encoding: str
) -> None:
    """A server that says gzip and sends something else sent no reply."""
    good = json.dumps(say.envelope("{}")).encode()
    error = fail(say.http(200, good, **{"Content-Encoding": encoding}))
    assert error.kind is ProviderErrorKind.BAD_ENVELOPE


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_to_another_origin_gets_no_key(
    ask: Ask, make_server: Callable[[], Any], say: SimpleNamespace, status: int
) -> None:
    """Wherever a server sends us, the key stays with the server that it was given for."""
    other = make_server()
    other.plays(say.chat("elsewhere"))
    away = say.http(status, b"", Location=f"{other.origin}/v1/chat/completions")
    assert ask(away, api_key="sk-secret").text == "elsewhere"
    assert "sk-secret" not in repr(other.requests)


def test_redirects_in_a_circle_end(fail: Fail, server: Server, say: SimpleNamespace) -> None:
    """A server that sends us round is not reached."""
    again = say.http(307, b"", Location="/v1/chat/completions")
    assert fail(*[again] * 30).kind is ProviderErrorKind.UNREACHABLE
    assert len(server.requests) < 30
