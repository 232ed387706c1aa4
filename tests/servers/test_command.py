"""`notarius reconcile --model openai:NAME` from the options to the files and the exit status."""

import contextlib
import json
import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias

import pytest

from notarius.pipeline import RunSettings, cli, run_campaign

pytestmark = pytest.mark.allow_hosts(["127.0.0.1"])
Server: TypeAlias = Any  # the fixture's class can't be imported
Run = Callable[..., SimpleNamespace]
GROUPED = (
    '{"duplicate_groups": [{"name": "P", "candidate_ids": ["c1", "c2"], "canonical_id": "c1"}]}'
)
REFUSED = GROUPED.replace("c2", "c9")
USAGE = {"prompt_tokens": 100, "completion_tokens": 20}


def test_a_run_through_a_server(notarius: Run, server: Server, say: SimpleNamespace) -> None:
    """From candidates to a registry, with tokens and sampling in the receipt."""
    server.plays(say.chat(GROUPED, usage=USAGE))
    got = notarius("--format", "json")
    assert (got.status, json.loads(got.out)["outcome"]) == (0, "accepted")
    (entry,) = json.loads((got.folder / "registry.json").read_bytes())["entries"]
    assert entry["source_ids"] == ["Lord Percival", "Percival"]
    tokens = {"input_tokens": 100, "output_tokens": 20}
    assert (got.receipt["usage"], got.receipt["attempts"][0]["usage"]) == (tokens, tokens)
    assert got.receipt["model"] == "openai:tiny"
    (asked,) = server.requests
    sent = {name: asked.body[name] for name in ("temperature", "seed", "max_tokens")}
    assert got.receipt["sampling"] == sent
    assert asked.body["model"] == "tiny"
    assert "authorization" not in asked.headers


def test_a_correction_through_a_server(notarius: Run, server: Server, say: SimpleNamespace) -> None:
    """The second request is the first, the exact reply, and one correction, with another seed."""
    server.plays(say.chat(f"{REFUSED}\r\n", usage=USAGE), say.chat(GROUPED))
    got = notarius()
    assert got.status == 0
    first, second = (asked.body for asked in server.requests)
    assert second["messages"][:-2] == first["messages"]
    assert second["messages"][-2] == {"role": "assistant", "content": f"{REFUSED}\r\n"}
    assert second["messages"][-1]["role"] == "user"
    assert second["seed"] != first["seed"]
    assert {asked.connection for asked in server.requests} == {1}
    causes = [attempt["cause"] for attempt in got.receipt["attempts"]]
    assert causes == ["initial", "corrective_retry"]
    assert got.receipt["usage"] is None  # the second was not counted, so the sum is unknown


@pytest.mark.parametrize(
    ("environment", "options", "sent"),
    [
        ({}, [], None),
        ({"OPENAI_API_KEY": ""}, [], None),
        ({"OPENAI_API_KEY": "sk-default"}, [], "Bearer sk-default"),
        (
            {"OPENAI_API_KEY": "sk-default", "MY_KEY": "sk-mine"},
            ["--api-key-env", "MY_KEY"],
            "Bearer sk-mine",
        ),
        ({"OPENAI_API_KEY": "sk-default", "MY_KEY": ""}, ["--api-key-env", "MY_KEY"], None),
    ],
)
def test_where_the_key_comes_from(
    notarius: Run,
    server: Server,
    say: SimpleNamespace,
    monkeypatch: pytest.MonkeyPatch,
    environment: dict[str, str],
    options: list[str],
    sent: str | None,
) -> None:
    """The named variable, else OPENAI_API_KEY; an empty one is no key, and never the other's."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    server.plays(say.chat(GROUPED))
    got = notarius(*options)
    assert got.status == 0
    assert server.requests[0].headers.get("authorization") == sent


@pytest.mark.parametrize(
    ("options", "status", "sent"),
    [
        ([], 2, []),
        (["--api-key-env", "MY_KEY"], 0, ["Bearer sk-mine"]),
        (["--base-url"], 0, ["Bearer sk-default"]),
    ],
)
def test_the_server_of_a_campaign_gets_no_key_by_itself(
    server: Server,
    say: SimpleNamespace,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
    status: int,
    sent: list[str],
) -> None:
    """A folder of somebody else may name the server; who gets a key is said by the user."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-default")
    monkeypatch.setenv("MY_KEY", "sk-mine")
    names = "".join(f'{{"source_id": "{name}", "name": "{name}"}}\n' for name in ("Orla", "Venn"))
    (tmp_path / "npc.jsonl").write_text(names)
    address = f"{server.origin}/v1"
    (tmp_path / "notarius.toml").write_text(f'model = "openai:tiny"\nbase-url = "{address}"\n')
    server.plays(say.chat(GROUPED))
    given = [*options, address] if options == ["--base-url"] else options
    assert cli.main(["run", str(tmp_path), "--out", str(tmp_path / "out"), *given]) == status
    assert [asked.headers.get("authorization") for asked in server.requests] == sent


def test_a_key_that_is_there_later_is_not_sent_where_a_file_says(
    server: Server, say: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was looked at when the run began is not what a worker, or a moment later, holds."""
    names = "".join(f'{{"source_id": "{name}", "name": "{name}"}}\n' for name in ("Orla", "Venn"))
    (tmp_path / "npc.jsonl").write_text(names)
    address = f"{server.origin}/v1"
    (tmp_path / "notarius.toml").write_text(f'model = "openai:tiny"\nbase-url = "{address}"\n')
    server.plays(say.chat(GROUPED))
    watcher = SimpleNamespace(
        planned=lambda _parts: monkeypatch.setenv("OPENAI_API_KEY", "sk-default"),
        asking=lambda _part, _request: None,
        settled=lambda _settled: None,
    )
    run_campaign(RunSettings(campaign=tmp_path, out=tmp_path / "out"), watcher=watcher)
    assert os.environ["OPENAI_API_KEY"] == "sk-default"
    assert [asked.headers.get("authorization") for asked in server.requests] == [None]


@pytest.mark.parametrize(
    ("status", "requests", "message"),
    [(401, 1, "credentials"), (404, 1, "model"), (400, 3, "invalid"), (503, 3, "failed")],
)
def test_a_server_that_refuses_is_status_4(
    notarius: Run, server: Server, say: SimpleNamespace, status: int, requests: int, message: str
) -> None:
    """What may pass is tried again within the transport budget, what may not is final at once."""
    server.plays(*[say.http(status, b"{}", **{"Retry-After": "0"})] * 9)
    got = notarius("--transport-retries", "2", "--terminal", "fallback")
    assert (got.status, len(server.requests)) == (4, requests)
    assert got.err.count("\n") == 1
    assert message in got.err
    assert got.receipt["outcome"] == "failed"
    spent = got.receipt["budgets"]["transport_retries"]["spent"]
    assert spent == (2 if status == 503 else 0)
    assert not (got.folder / "registry.json").exists()


def test_a_server_that_is_not_there_is_status_4(notarius: Run, server: Server) -> None:
    """After the transport budget, with the number of tries in the receipt."""
    server.close()
    got = notarius("--transport-retries", "1")
    assert (got.status, got.receipt["outcome"]) == (4, "failed")
    assert got.receipt["budgets"]["transport_retries"]["spent"] == 1


def test_a_busy_server_is_asked_again(notarius: Run, server: Server, say: SimpleNamespace) -> None:
    """A run survives a failure that passes, and no message to the model tells of it."""
    busy = say.http(429, b"{}", **{"Retry-After": "0"})
    server.plays(busy, lambda connection: connection.close(), say.chat(GROUPED))
    got = notarius("--transport-retries", "2")
    assert (got.status, len(server.requests)) == (0, 3)
    bodies = [asked.body for asked in server.requests]
    assert all(body["messages"] == bodies[0]["messages"] for body in bodies)


def test_a_deadline_ends_a_slow_server(notarius: Run, server: Server) -> None:
    """The time of the whole operation bounds the one call that uses it up."""
    server.plays(server.drip)
    got = notarius("--deadline", "0.3")
    assert (got.status, got.receipt["outcome"]) == (4, "failed")
    assert server.hung_up.wait(15)


@pytest.mark.parametrize(
    "options",
    [
        ["--api-key-env", "NOT_SET"],
        ["--base-url", "localhost:8080/v1"],
        ["--base-url", "http://127.0.0.1:x/"],
    ],
)
def test_a_server_that_can_not_be_named_is_bad_usage(
    notarius: Run, server: Server, options: list[str]
) -> None:
    """A variable that is not set and an address that is none are status 2, and ask nobody."""
    got = notarius(*options)
    assert (got.status, got.out, server.requests) == (2, "", [])
    assert got.err.startswith("error: --")
    assert got.err.count("\n") == 1
    assert not got.folder.exists() or not list(got.folder.iterdir())


@pytest.mark.parametrize("key", ["sk-secret\n", "sk-s\u00e9cret-secret"])
def test_a_key_that_can_not_be_sent_is_bad_usage(
    notarius: Run, server: Server, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    """A line end in the variable is told, not sent, not printed, and no reason to try again."""
    monkeypatch.setenv("OPENAI_API_KEY", key)
    got = notarius()
    assert (got.status, server.requests) == (2, [])
    assert "secret" not in got.err


@pytest.mark.parametrize("kind", ["openai", "llama"])
def test_a_model_whose_name_is_no_text_is_bad_usage(
    notarius: Run, server: Server, tmp_path: Path, kind: str
) -> None:
    """An argument need not be UTF-8, but neither a server nor a receipt can take such a name."""
    name = os.fsdecode(os.fsencode(tmp_path / "model") + b"\xff")
    with contextlib.suppress(OSError):  # some file systems refuse it
        Path(name).touch()
    got = notarius(model=f"{kind}:{name}", url=kind == "openai")
    assert (got.status, got.folder.exists(), server.requests) == (2, False, [])


@pytest.mark.parametrize(
    ("model", "package"), [("openai:tiny", "openai"), ("llama:{}", "xllamacpp")]
)
def test_a_missing_extra_is_told_with_how_to_install_it(
    notarius: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    model: str,
    package: str,
) -> None:
    """Without its packages a model is status 2 and one line with the pip command."""
    for name in [name for name in sys.modules if name.startswith("notarius.llmruntime.")]:
        if name.rpartition(".")[2] in {"openai", "_openai", "llama", "_llama"}:
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    file = tmp_path / "model.gguf"
    file.write_bytes(b"GGUF")
    got = notarius(model=model.format(file), url=False)
    assert got.status == 2
    assert f"pip install 'notarius-pipeline[{model.partition(':')[0]}]'" in got.err
    assert got.err.count("\n") == 1


@pytest.mark.skipif(os.name != "posix", reason="sends a signal to this process")
def test_an_interrupt_ends_the_request(notarius: Run, server: Server) -> None:
    """Ctrl-C during a call is status 130, and the server is not left working."""

    def interrupts(connection: socket.socket) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        server.hold(connection)

    server.plays(interrupts)
    got = notarius()
    assert (got.status, got.receipt["outcome"]) == (130, "cancelled")
    assert server.hung_up.wait(15)
