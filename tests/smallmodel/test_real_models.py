"""What must hold with any model, however bad its answers are: the invariants, not its wit."""

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from notarius.contracts import GUIDANCE_MAX_BYTES
from notarius.pipeline import ExitStatus, cli

ROOT = Path(__file__).parents[2]
FILES = {
    "npc": "crd3_c1_kraghammer",
    "item": "coins_and_trade_goods",
    "location": "litbank_dracula",
}
LISTED = 16
RETRIES = 2


@pytest.fixture(params=["in process", "served"])
def options(
    request: pytest.FixtureRequest,
    model: str,
    model_file: Callable[[str], Path],
    serve: Callable[[str], str],
) -> list[str]:
    """Return the command's options for one way to run a model."""
    if request.param == "served":
        return ["--model", f"openai:{model}", "--base-url", serve(model)]
    return ["--model", f"llama:{model_file(model)}"]


@pytest.mark.allow_hosts(["127.0.0.1"])
@pytest.mark.parametrize("model", ["smol", "qwen"])
@pytest.mark.parametrize("registry", FILES)
def test_the_invariants_hold_with_a_real_model(
    registry: str, options: list[str], shared_data: Path, tmp_path: Path
) -> None:
    """Nothing is lost, texts are exact, budgets and bounds are kept, one warning at most."""
    records = _candidates(shared_data / "registry" / registry / f"{FILES[registry]}.jsonl")
    source = tmp_path / "in.jsonl"
    source.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    out, raw = tmp_path / "out", tmp_path / "raw"
    command = ["reconcile", "--registry", registry, str(source), "--out", str(out), *options]
    command += ["--normalize-retries", str(RETRIES), "--debug-exchange", str(raw), "--quiet"]
    assert cli.main(command) == ExitStatus.DONE

    receipt = _read(out / "receipt.json")
    entries = _read(out / "registry.json")["entries"]
    held = [source_id for entry in entries for source_id in entry["source_ids"]]
    assert sorted(held) == sorted(record["source_id"] for record in records)
    evidence = {text for entry in entries for text in entry["evidence"]}
    assert evidence == {text for record in records for text in record["evidence"]}
    assert len(_read(out / "warnings.json")["warnings"]) == (receipt["outcome"] == "fell_back")

    attempts = receipt["attempts"]
    assert 1 <= len(attempts) <= RETRIES + 1
    calls = _calls(raw)
    original = calls[0][0]
    for attempt in attempts:
        made = [calls.pop(0) for _ in range(1 + attempt["repairs"])]
        sent, reply = made[0][0], made[-1][1]
        assert hashlib.sha256(reply).hexdigest() == attempt["response_sha256"]
        assert sent[: len(original)] == original
        assert len(sent) - len(original) in {0, 2}
        assert len(sent) == attempt["request_messages"]
        if attempt["cause"] == "corrective_retry":
            before = attempts[attempt["number"] - 2]
            answer, correction = (message["content"].encode() for message in sent[-2:])
            assert hashlib.sha256(answer).hexdigest() == before["response_sha256"]
            assert hashlib.sha256(correction).hexdigest() == attempt["guidance_sha256"]
            assert len(correction) == attempt["guidance_bytes"] <= GUIDANCE_MAX_BYTES
        assert attempt["usage"]["output_tokens"] > 0
    assert not calls


@pytest.mark.allow_hosts(["127.0.0.1"])
def test_the_commands_that_a_newcomer_types_work(
    model_file: Callable[[str], Path], serve: Callable[[str], str], tmp_path: Path
) -> None:
    """Each `$ notarius` line of the page's section gives a registry of the shipped examples."""
    section = (ROOT / "docs" / "llm-runtime.md").read_text("utf-8").split("### Try it")[1]
    commands = re.findall(r"^\$ (notarius .*)$", section, re.MULTILINE)
    assert {"llama:", "openai:"} == {
        kind for command in commands for kind in ("llama:", "openai:") if kind in command
    }
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    given = {"MODEL": str(model_file("qwen")), "ADDRESS": serve("qwen"), "PATH": programs}
    for command in commands:
        done = subprocess.run(
            ["/bin/sh", "-c", command],
            capture_output=True,
            check=False,
            cwd=tmp_path,
            env=os.environ | given,
        )
        assert done.returncode == ExitStatus.DONE, done.stderr
        entries = _read(tmp_path / "out" / "item" / "registry.json")["entries"]
        held = [source_id for entry in entries for source_id in entry["source_ids"]]
        lines = (ROOT / "examples" / "item.jsonl").read_text("utf-8").splitlines()
        assert sorted(held) == sorted(json.loads(line)["source_id"] for line in lines)


def _candidates(path: Path) -> list[dict[str, Any]]:
    """Return some candidates of a labelled list, spread over it, without the truth."""
    lines = path.read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines[:: max(1, len(lines) // LISTED)][:LISTED]]
    for record in records:
        del record["entity"]
    return records


def _read(path: Path) -> Any:  # noqa: ANN401 - JSON
    return json.loads(path.read_text(encoding="utf-8"))


def _calls(folder: Path) -> list[tuple[list[dict[str, str]], bytes]]:
    """Return the messages and the exact reply of each call, in order."""
    requests = sorted(folder.glob("call-*.request.json"))
    return [
        (
            _read(path)["messages"],
            path.with_name(path.name.replace("request.json", "response.txt")).read_bytes(),
        )
        for path in requests
    ]
