"""How long to search, how to damage a document, how to weigh what a parser takes, and a server."""

import contextlib
import gc
import json
import math
import os
import re
import socketserver
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, TypeAlias

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

Answer: TypeAlias = Callable[[str, bytes], bytes]

# Short in the gate, as long as one likes by hand: NOTARIUS_FUZZ_EXAMPLES=20000. The files are
# written anew in each example, so that it does not matter if a test's fixtures are not.
settings.register_profile(
    "hardness",
    settings.get_profile("notarius"),
    max_examples=int(os.environ.get("NOTARIUS_FUZZ_EXAMPLES", "100")),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

# What a terminal obeys instead of shows: C0 but for line feeds, DEL, C1, and direction marks.
OBEYED = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
# Pieces that mean something to one of the formats, or are hard on whoever measures text.
PIECES = (
    b"", b"\x00", b"\xff", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\xf0\x9f\x90\x89", b"\xc2\x9b",
    b"\n", b'"', b"\\", b'\\"', b"\\ud800", b"\\u0000", b"[", b"]", b"{", b"}", b",", b":", b"=",
    b"'''", b"[" * 200, b'{"":' * 200, b"[[", b"9" * 25, b"9" * 4400, b"-0", b"1e999", b"NaN",
    b"inf", b"null", b"true", b"#", b"\x1b]0;x\x07", b"../", b"/", b"a." * 30,
)  # fmt: skip
SPAN = 1 << 20


def _damaged(document: bytes) -> SearchStrategy[bytes]:
    """Return the document with up to four places cut, doubled or overwritten, or cut off."""
    edit = st.tuples(
        st.integers(0, SPAN), st.integers(0, 40), st.sampled_from(PIECES) | st.binary(max_size=6)
    )

    def apply(drawn: tuple[list[tuple[int, int, bytes]], int]) -> bytes:
        edits, end = drawn
        data = document
        for place, length, piece in edits:
            at = place % (len(data) + 1)
            data = data[:at] + piece + data[at + length :]
        return data[: end % (len(data) + 1)] if end < SPAN // 4 else data

    return st.tuples(st.lists(edit, min_size=1, max_size=4), st.integers(0, SPAN)).map(apply)


@pytest.fixture(scope="session")
def damaged() -> Callable[[bytes], SearchStrategy[bytes]]:
    """Make a strategy of damaged copies of a document."""
    return _damaged


_FED: Final[dict[str, list[int]]] = {}


@pytest.fixture(scope="session")
def fed() -> Callable[[str, bytes | str], None]:
    """Count what was made up for a reader, and its bytes; the sum stands at the end of a run."""

    def count(reader: str, data: bytes | str) -> None:
        size = len(data if isinstance(data, bytes) else data.encode("utf-8", "surrogatepass"))
        cases, total = _FED.get(reader, [0, 0])
        _FED[reader] = [cases + 1, total + size]

    return count


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how much was fed to which reader."""
    if not _FED:
        return
    each = [f"{reader} {cases:,}/{size:,}" for reader, (cases, size) in sorted(_FED.items())]
    cases, size = (sum(column) for column in zip(*_FED.values(), strict=True))
    terminalreporter.write_line(
        f"FUZZED: {cases:,} cases, {size:,} bytes (cases/bytes of each: {', '.join(each)})"
    )


@pytest.fixture(scope="session")
def obeyed() -> Callable[[str], list[str]]:
    """List the characters of a text that a terminal would obey."""
    return OBEYED.findall


@pytest.fixture(scope="session")
def work_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for all examples of a test run."""
    return tmp_path_factory.mktemp("hardness")


def _seconds(work: Callable[[], object], times: int) -> float:
    """Return the processor time of the fastest of some runs, without the collector's."""
    collects = gc.isenabled()
    gc.disable()
    try:
        took = []
        for _ in range(times):
            before = time.process_time()
            work()
            took.append(time.process_time() - before)
        return min(took)
    finally:
        if collects:
            gc.enable()


@pytest.fixture(scope="session")
def grows() -> Callable[..., float]:
    """Tell how many times longer work on eight times as much takes: 8 is linear, 64 quadratic.

    `make` returns the work on so much. What takes less than a twentieth of a second is as good as
    linear, and a second for the small one is as good as for ever.
    """

    def measure(make: Callable[[int], Callable[[], object]], size: int) -> float:
        small = make(size)
        if _seconds(small, 1) > 1:
            return math.inf
        took = _seconds(make(8 * size), 2)
        return 8.0 if took < 0.05 else took / max(_seconds(small, 3), 0.002)

    return measure


@pytest.fixture(scope="session")
def peak() -> Callable[[Callable[[], object]], SimpleNamespace]:
    """Return what some work returns, and the most bytes that it had allocated at once."""

    def measure(work: Callable[[], Any]) -> SimpleNamespace:
        tracemalloc.start()
        try:
            value = work()
            return SimpleNamespace(value=value, bytes=tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()

    return measure


_COMMAND = "import sys; from notarius.pipeline.cli import main; sys.exit(main())"


@pytest.fixture
def command(tmp_path: Path) -> Callable[..., SimpleNamespace]:
    """Run the command as a process of its own, in a folder of its own, with the most talkative log.

    `program` takes the place of the command, `variables` are added to the environment.
    """
    plain = {
        name: value
        for name, value in os.environ.items()
        if not name.upper().endswith("_PROXY") and not name.startswith(("OPENAI_", "NOTARIUS_LOG"))
    }

    def run(
        *arguments: object, program: str = _COMMAND, variables: dict[str, str] | None = None
    ) -> SimpleNamespace:
        done = subprocess.run(
            [sys.executable, "-c", program, *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            cwd=tmp_path,
            env=plain | {"NOTARIUS_LOG": "DEBUG"} | (variables or {}),
            timeout=300,
        )
        out, err = done.stdout.decode(), done.stderr.decode()
        return SimpleNamespace(status=done.returncode, out=out, err=err)

    return run


@pytest.fixture
def serve() -> Iterator[Callable[[Answer], SimpleNamespace]]:
    """Start a model server on loopback that answers each request with the bytes of a function.

    The function gets the headers and the body, and may take any time.
    """
    with contextlib.ExitStack() as opened:

        def start(answer: Answer) -> SimpleNamespace:
            asked: list[tuple[str, bytes]] = []

            class Handler(socketserver.StreamRequestHandler):
                def handle(self) -> None:
                    head = b""
                    while (line := self.rfile.readline()).strip():
                        head += line
                    size = re.search(rb"(?i)^content-length: (\d+)", head, re.MULTILINE)
                    body = self.rfile.read(int(size[1])) if size else b""
                    asked.append((head.decode("latin-1"), body))
                    with contextlib.suppress(OSError):
                        self.wfile.write(answer(*asked[-1]))

            server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
            server.daemon_threads = True
            opened.enter_context(server)
            threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
            opened.callback(server.shutdown)
            return SimpleNamespace(host=f"127.0.0.1:{server.server_address[1]}", asked=asked)

        yield start


@pytest.fixture(scope="session")
def http() -> Callable[..., bytes]:
    """Write the bytes of a response, the connection closed after it."""

    def write(body: object, status: str = "200 OK", headers: str = "") -> bytes:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        head = f"HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {len(data)}\r\n{headers}"
        return head.encode("latin-1") + b"\r\n" + data

    return write


@pytest.fixture(scope="session")
def chat(http: Callable[..., bytes]) -> Callable[..., bytes]:
    """Write the bytes of a chat completion with this text."""

    def write(text: str, **usage: int) -> bytes:
        choice = {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        return http({"choices": [choice], "usage": usage})

    return write
