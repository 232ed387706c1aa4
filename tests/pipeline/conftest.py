"""Candidate files, scripted models, and the command run in this process."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from notarius.contracts import FinishReason, Reply
from notarius.pipeline import cli, reconcile

# Two of them are one person, and a title tells the last two apart.
PEOPLE = [
    {
        "source_id": "e1-1",
        "name": "Lord Percival",
        "aliases": ["Percy"],
        "description": "A gunslinger.",
        "evidence": ["Lord Percival fires."],
        "extra": {"session": 1},
    },
    {"source_id": "e2-1", "name": "Percival", "evidence": ["Percival laughs."]},
    {"source_id": "e2-2", "name": "Mr. Bennet"},
    {"source_id": "e3-1", "name": "Mrs. Bennet", "extra": {"session": 3}},
]


class ScriptedModel:
    """Plays a script as a backend, and keeps the calls that it was sent."""

    def __init__(self, steps: Iterable[Any]) -> None:
        """Take the script: texts, replies, exceptions, or functions that return one of these."""
        self._steps = iter(steps)
        self.calls: list[Any] = []
        self.made = 0

    def __call__(self, kind: object, candidates: object, normalizer: object) -> "ScriptedModel":
        """Be the factory too."""
        self.made += 1
        return self

    def complete(self, call: object, *, cancellation: object) -> Reply:
        """Play the next step."""
        self.calls.append(call)
        step = next(self._steps)
        answer = step() if callable(step) else step
        if isinstance(answer, BaseException):
            raise answer
        if isinstance(answer, str):
            return Reply(text=answer, finish_reason=FinishReason.STOP)
        return answer if isinstance(answer, Reply) else Reply(text="")

    def messages(self, number: int) -> list[tuple[str, str]]:
        """Return roles and contents of one call, counted from 1."""
        return [(m.role.value, m.content) for m in self.calls[number - 1].messages]


@pytest.fixture(autouse=True)
def _no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """No key of whoever runs the tests."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


@pytest.fixture
def candidate_file(tmp_path: Path) -> Callable[..., Path]:
    """Write a candidate file: records, or bytes as they are."""

    def write(content: bytes | list[dict[str, Any]] | None = None, name: str = "in.jsonl") -> Path:
        if not isinstance(content, bytes):
            records = PEOPLE if content is None else content
            content = "".join(json.dumps(record) + "\n" for record in records).encode()
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return write


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A folder for the output, not made yet."""
    return tmp_path / "out"


@pytest.fixture(scope="session")
def scripted() -> type[ScriptedModel]:
    """Make a backend that plays a script, and is its own factory."""
    return ScriptedModel


@pytest.fixture(scope="session")
def groups() -> Callable[..., str]:
    """Write a reply: one list of ids a group, the first of them canonical."""

    def write(*lists: list[str]) -> str:
        proposed = [{"name": "any", "candidate_ids": ids, "canonical_id": ids[0]} for ids in lists]
        return json.dumps({"duplicate_groups": proposed})

    return write


@pytest.fixture
def notarius(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., SimpleNamespace]:
    """Run `notarius reconcile` in this process, over a scripted model if one is given."""

    def command(
        source: Path,
        out: Path,
        *options: str,
        registry: str = "npc",
        model: ScriptedModel | None = None,
    ) -> SimpleNamespace:
        run: Callable[..., object] = reconcile

        def scripted_reconcile(settings: object, **named: object) -> object:
            return run(settings, **{**named, "backend": model})

        arguments = ["reconcile", "--registry", registry, str(source), "--out", str(out), *options]
        with monkeypatch.context() as patch:
            if model is not None:
                patch.setattr(cli, "reconcile", scripted_reconcile)
            status = cli.main(arguments)
        said = capsys.readouterr()
        return SimpleNamespace(status=status, out=said.out, err=said.err, model=model)

    return command


@pytest.fixture(scope="session")
def contents() -> Callable[[Path], dict[str, bytes] | None]:
    """Read all files of a folder by name; `None` if there is no folder."""

    def read(folder: Path) -> dict[str, bytes] | None:
        if not folder.is_dir():
            return None
        return {path.name: path.read_bytes() for path in folder.iterdir()}

    return read
