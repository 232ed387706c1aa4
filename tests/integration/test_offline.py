import socket
from pathlib import Path

import pytest

from notarius.pipeline import cli

NAMES = ["Lord Percival", "Percival", "Percy", "Mr. Bennet", "Mrs. Bennet"]


def test_these_tests_have_no_network() -> None:
    """A test that tried to reach a server would fail, not hang or pass by luck."""
    with pytest.warns(UserWarning, match="socket"), pytest.raises(RuntimeError):
        socket.create_connection(("127.0.0.1", 9), timeout=1)


@pytest.mark.parametrize("kind", ["npc", "item", "location"])
def test_the_default_run_touches_no_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """The built-in matcher opens no socket and looks up no name."""
    touched: list[str] = []
    for name in ("socket", "create_connection", "getaddrinfo"):
        monkeypatch.setattr(socket, name, lambda *_, **__: touched.append("network"))
    source = tmp_path / "candidates.jsonl"
    lines = [f'{{"source_id": "s{n}", "name": "{name}"}}\n' for n, name in enumerate(NAMES)]
    source.write_text("".join(lines))
    out = tmp_path / "out"
    assert cli.main(["reconcile", "--registry", kind, str(source), "--out", str(out)]) == 0
    assert (out / "registry.json").exists()
    assert touched == []
