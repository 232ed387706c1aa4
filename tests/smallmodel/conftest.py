"""Real small models, in this process and behind a server. Run by the nox session `smallmodel`."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def model_file() -> Callable[[str], Path]:
    """Return the path of a model; the session fetches both before the tests, which are offline."""

    def find(name: str) -> Path:
        listed = os.environ.get(f"NOTARIUS_MODEL_{name.upper()}")
        if listed is None:
            pytest.skip(f"no model {name}; run the nox session `smallmodel`")
        return Path(listed)

    return find


@pytest.fixture
def serve(model_file: Callable[[str], Path]) -> Iterator[Callable[[str], str]]:
    """Serve a model in a process of its own; return its base URL."""
    running: list[subprocess.Popen[str]] = []

    def start(name: str) -> str:
        server = subprocess.Popen(
            [sys.executable, str(ROOT / "benchmarks" / "serve.py"), str(model_file(name))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        running.append(server)
        assert server.stdout is not None
        return server.stdout.readline().strip()

    yield start
    for server in running:
        server.communicate("", timeout=60)
