"""A model server on loopback that plays a script, misbehaves, and keeps what it was asked."""

import contextlib
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from notarius.attempts import CancelToken
from notarius.contracts import Message, ProviderError, Reply, Role
from notarius.llmruntime import BlockingBackend, ChatCall
from notarius.llmruntime.openai import AsyncOpenAIBackend
from notarius.pipeline import cli

LONG_S = 15.0
"""No wait in these tests is longer; each one that ends so late fails."""
SCHEMA = '{"type":"object","properties":{"gadget":{"type":"string"}},"required":["gadget"]}'


@dataclass(frozen=True)
class Asked:
    """One request as it came, and the number of the connection that it came on."""

    method: str
    path: str
    headers: dict[str, str]
    data: bytes
    connection: int

    @property
    def body(self) -> Any:  # noqa: ANN401 - whatever JSON holds
        """Return the decoded JSON."""
        return json.loads(self.data)


class Server:
    """Answers each request with the next step: the bytes of a response, or a function of a socket.

    After bytes the connection is kept; after a function it is closed.
    """

    def __init__(self) -> None:
        """Listen on a free port."""
        self.requests: list[Asked] = []
        self.asked = threading.Event()
        self.hung_up = threading.Event()
        self._steps: list[Any] = []
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.origin = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._accepting = threading.Thread(target=self._accept)
        self._accepting.start()

    def plays(self, *steps: Any) -> None:  # noqa: ANN401 - bytes or functions
        """Add steps to the script."""
        self._steps.extend(steps)

    def close(self) -> None:
        """End every connection and every thread."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._accepting.join(LONG_S)
        for connection in self._open:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(LONG_S)

    def hold(self, connection: socket.socket) -> None:
        """Answer nothing, and wait until the client hangs up."""
        with contextlib.suppress(ConnectionError):
            if connection.recv(1):
                return
        self.hung_up.set()

    def drip(self, connection: socket.socket) -> None:
        """Send a body of a million bytes, one at a time, until the client hangs up."""
        try:
            connection.sendall(http(200, b"", **{"Content-Length": "1000000"}))
            for _ in range(1000):
                connection.sendall(b" ")
                time.sleep(0.02)
        except OSError:
            self.hung_up.set()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                connection.settimeout(LONG_S)
                self._open.append(connection)
                number = len(self._open)
                thread = threading.Thread(target=self._serve, args=(connection, number))
                self._threads.append(thread)
                thread.start()

    def _serve(self, connection: socket.socket, number: int) -> None:
        with connection, contextlib.suppress(OSError), connection.makefile("rb") as incoming:
            while first := incoming.readline():
                method, path, _ = first.decode().split(" ")
                headers = {}
                while line := incoming.readline().decode("latin-1").strip():
                    name, _, value = line.partition(":")
                    headers[name.lower()] = value.strip()
                data = incoming.read(int(headers.get("content-length", 0)))
                self.requests.append(Asked(method, path, headers, data, number))
                step = self._steps.pop(0) if self._steps else http(418, b"no step is left")
                self.asked.set()
                if callable(step):
                    step(connection)
                    return
                connection.sendall(step)


def http(status: int, body: bytes, /, **headers: str) -> bytes:
    """Return the bytes of a response; a header `None` is left out."""
    fields = {"Content-Type": "application/json", "Content-Length": str(len(body))} | headers
    lines = [f"HTTP/1.1 {status} Whatever", *(f"{name}: {text}" for name, text in fields.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def envelope(content: str | None = "{}", finish_reason: str | None = "stop", **more: Any) -> Any:  # noqa: ANN401 - JSON
    """Return a chat completion; `message` adds to the message, all else to the envelope."""
    message = {"role": "assistant", "content": content, **more.pop("message", {})}
    choice = {"index": 0, "message": message, "finish_reason": finish_reason}
    return {"id": "chatcmpl-1", "object": "chat.completion", "choices": [choice], **more}


def chat(content: str | None = "{}", finish_reason: str | None = "stop", **more: Any) -> bytes:  # noqa: ANN401 - JSON
    """Return the bytes of a good response with such a chat completion."""
    return http(200, json.dumps(envelope(content, finish_reason, **more)).encode())


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No key, address or proxy of whoever runs the tests."""
    for name in os.environ:
        if name.upper().endswith("_PROXY") or name.startswith(("OPENAI_", "NOTARIUS_LOG")):
            monkeypatch.delenv(name)


@pytest.fixture
def make_server() -> Iterator[Callable[[], Server]]:
    """Start servers, and close them at the end."""
    servers: list[Server] = []

    def make() -> Server:
        servers.append(Server())
        return servers[-1]

    yield make
    for server in servers:
        server.close()


@pytest.fixture
def server(make_server: Callable[[], Server]) -> Server:
    """One server."""
    return make_server()


@pytest.fixture(scope="session")
def say() -> SimpleNamespace:
    """The ways to write a response."""
    return SimpleNamespace(http=http, chat=chat, envelope=envelope)


@pytest.fixture(scope="session")
def make_call() -> Callable[..., ChatCall]:
    """Make a call of two messages."""

    def make(**options: Any) -> ChatCall:  # noqa: ANN401 - any field
        messages = (
            Message(role=Role.SYSTEM, content="Be brief."),
            Message(role=Role.USER, content="Which gadget?\r\n  e\u0301 \N{DRAGON} \u2028"),
        )
        given = {"messages": messages, "schema_name": "gadget", "schema_json": SCHEMA}
        return ChatCall(**given | options)

    return make


@pytest.fixture
def connect(server: Server) -> Iterator[Callable[..., BlockingBackend]]:
    """Open blocking backends for the server; close them at the end."""
    with contextlib.ExitStack() as opened:

        def connect(model: str = "tiny", **options: Any) -> BlockingBackend:  # noqa: ANN401 - as above
            backend = AsyncOpenAIBackend(model, **{"base_url": f"{server.origin}/v1"} | options)
            return opened.enter_context(BlockingBackend(backend))

        yield connect


@pytest.fixture
def ask(
    server: Server, connect: Callable[..., BlockingBackend], make_call: Callable[..., ChatCall]
) -> Callable[..., Reply]:
    """Make one call of a server that plays these steps."""

    def ask(*steps: Any, timeout_s: float | None = LONG_S, **options: Any) -> Reply:  # noqa: ANN401 - bytes or functions
        server.plays(*steps)
        backend = connect(**options)
        return backend.complete(make_call(timeout_s=timeout_s), cancellation=CancelToken())

    return ask


@pytest.fixture
def fail(ask: Callable[..., Reply]) -> Callable[..., ProviderError]:
    """Make one call that must end in a `ProviderError`, and return it."""

    def fail(*steps: Any, **options: Any) -> ProviderError:  # noqa: ANN401 - as above
        with pytest.raises(ProviderError) as caught:
            ask(*steps, **options)
        return caught.value

    return fail


@pytest.fixture
def notarius(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[..., SimpleNamespace]:
    """Run `notarius reconcile` in this process over two candidates and the server."""

    def command(*options: str, model: str = "openai:tiny", url: bool = True) -> SimpleNamespace:
        source, out = tmp_path / "in.jsonl", tmp_path / "out"
        names = ("Lord Percival", "Percival")
        source.write_text(
            "".join(f'{{"source_id": "{name}", "name": "{name}"}}\n' for name in names)
        )
        arguments = ["reconcile", "--registry", "npc", str(source), "--out", str(out)]
        arguments += ["--model", model, *(["--base-url", f"{server.origin}/v1"] if url else [])]
        status = cli.main([*arguments, *options])
        said = capsys.readouterr()
        receipt = out / "receipt.json"
        return SimpleNamespace(
            status=status,
            out=said.out,
            err=said.err,
            folder=out,
            receipt=json.loads(receipt.read_bytes()) if receipt.exists() else None,
        )

    return command
