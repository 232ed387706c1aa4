"""llama.cpp in this process, as far as that can be tested without a model; and what is imported."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias

import pytest

from notarius.attempts import CancelToken
from notarius.contracts import ContractError
from notarius.llmruntime import BlockingBackend, ChatCall, Sampling
from notarius.llmruntime.llama import CONTEXT_TOKENS, AsyncLlamaBackend

pytestmark = pytest.mark.allow_hosts(["127.0.0.1"])
Server: TypeAlias = Any  # the fixture's class can't be imported
Run = Callable[..., SimpleNamespace]
GARBAGE = {
    "empty": b"",
    "text": b"no model",
    "zeros": bytes(4096),
    "cut off": b"GGUF\x03\x00\x00\x00",
    "huge counts": b"GGUF\x03\x00\x00\x00" + b"\xff" * 7 + b"\x7f" + b"\xff" * 7 + b"\x7f",
}


def python(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a process of its own: what it imports or crashes is its own affair."""
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_bad_model_file_is_bad_usage(tmp_path: Path) -> None:
    """Whatever llama.cpp thinks of a file, the process survives and the command says so."""
    source = tmp_path / "in.jsonl"
    source.write_text("".join(f'{{"source_id": "{name}", "name": "{name}"}}\n' for name in "ab"))
    program = (
        "import json, sys\n"
        "from notarius.pipeline.cli import main\n"
        "arguments, files = json.loads(sys.argv[1])\n"
        "print(json.dumps([main([*arguments, '--model', f'llama:{f}']) for f in files]))\n"
    )
    files = []
    for number, content in enumerate(GARBAGE.values()):
        files.append(str(tmp_path / f"{number}.gguf"))
        Path(files[-1]).write_bytes(content)
    out = tmp_path / "out"
    arguments = ["reconcile", "--registry", "npc", str(source), "--out", str(out), "--quiet"]
    done = python(program, json.dumps([arguments, files]))
    assert (done.returncode, json.loads(done.stdout)) == (0, [2] * len(files))
    assert "Traceback" not in done.stderr
    assert [line[:19] for line in done.stderr.splitlines()] == ["error: model llama:"] * len(files)
    assert not list(out.iterdir())


@pytest.mark.parametrize("which", ["missing.gguf", "."])
def test_a_model_file_that_is_not_there_is_bad_usage(notarius: Run, which: str) -> None:
    """A file that does not exist and a folder are told before anything is loaded."""
    got = notarius(model=f"llama:{which}", url=False)
    assert (got.status, got.folder.exists()) == (2, False)
    assert which in got.err


def test_loading_garbage_is_the_callers_mistake(tmp_path: Path) -> None:
    """What C++ threw is not chained, and the message does not repeat it."""
    file = tmp_path / "bad.gguf"
    file.write_bytes(b"GGUF no")
    with pytest.raises(ContractError) as caught:
        AsyncLlamaBackend(file)
    assert str(tmp_path) not in str(caught.value)
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)


@pytest.fixture
def loaded(server: Server, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Put a scripted server in the place of llama.cpp, and keep the parameters that it got."""
    parameters: list[Any] = []

    def load(given: Any) -> SimpleNamespace:  # noqa: ANN401 - xllamacpp has no types
        parameters.append(given)
        answered = SimpleNamespace(listening_address=server.origin, answers=0)

        def handle_metrics() -> None:
            assert given.endpoint_metrics  # else the answer does not come from its loop
            answered.answers += 1

        answered.handle_metrics = handle_metrics
        return answered

    monkeypatch.setattr("xllamacpp.Server", load)
    return parameters


def test_the_model_in_this_process_is_spoken_to_as_a_server(
    loaded: list[Any],
    server: Server,
    make_server: Callable[[], Any],
    say: SimpleNamespace,
    make_call: Callable[..., ChatCall],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On loopback, with a key made for this process, and past any proxy of the environment."""
    proxy = make_server()
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, proxy.origin)
    server.plays(say.chat("local"))
    backend = AsyncLlamaBackend(
        Path("dir/tiny.gguf"), sampling=Sampling(seed=1, max_tokens=9), threads=1
    )
    with BlockingBackend(backend) as blocking:
        reply = blocking.complete(make_call(), cancellation=CancelToken())
    assert proxy.requests == []
    assert reply.text == "local"
    (given,), (asked,) = loaded, server.requests
    assert (given.model.path, given.n_ctx, given.port) == ("dir/tiny.gguf", CONTEXT_TOKENS, 0)
    assert given.hostnames == ["127.0.0.1"]
    (key,) = given.api_keys
    assert len(key) > 30
    assert (asked.path, asked.headers["authorization"]) == (
        "/v1/chat/completions",
        f"Bearer {key}",
    )
    assert (asked.body["model"], asked.body["max_tokens"]) == ("tiny.gguf", 9)
    AsyncLlamaBackend(Path("x"))
    assert loaded[1].api_keys != [key]


@pytest.mark.usefixtures("loaded")
def test_a_server_has_answered_before_it_can_be_dropped() -> None:
    """Dropping one whose loop does not run yet would hang for ever."""
    assert AsyncLlamaBackend(Path("x"))._server.answers == 1


@pytest.mark.parametrize("module_name", ["notarius.llmruntime", "notarius.pipeline.cli"])
def test_a_client_is_imported_only_where_it_is_used(module_name: str) -> None:
    """The extras are extra: neither their packages nor what they need are imported without use."""
    program = (
        f"import sys, {module_name}\n"
        "from notarius.llmruntime import BlockingBackend\n"
        "print(sorted({'openai', 'httpx2', 'pydantic', 'xllamacpp'} & sys.modules.keys()))\n"
    )
    done = python(program)
    assert (done.stdout, done.stderr) == ("[]\n", "")
