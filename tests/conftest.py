"""Shared by all tests. It imports no notarius package: each wheel is tested without the others."""

import os
import signal
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).parents[1]
SHARED_DATA = Path(os.environ.get("NOTARIUS_SHARED_DATA") or ROOT.parent / "shared" / "data")
_MISSED = pytest.StashKey[set[str]]()

# The same examples on every run and machine: the gate must not fail by chance. Search
# wider by hand with NOTARIUS_MAX_EXAMPLES=5000 (still the same 5000 each time).
settings.register_profile(
    "notarius",
    derandomize=True,
    deadline=None,
    max_examples=int(os.environ.get("NOTARIUS_MAX_EXAMPLES", "50")),
)
settings.load_profile("notarius")


def pytest_configure(config: pytest.Config) -> None:
    """Refuse to test the source tree where a wheel is meant to be tested."""
    config.stash[_MISSED] = set()
    # A shell's background job, and all that it starts, is deaf to Ctrl-C, which is tested here.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if "NOTARIUS_TEST_INSTALLED" not in os.environ:
        return
    for folder in sorted((ROOT / "packages").iterdir()):
        spec = find_spec(f"notarius.{folder.name}")
        if spec and "site-packages" not in Path(spec.origin or "").parts:
            message = f"notarius.{folder.name} would come from {spec.origin}, not from a wheel"
            raise pytest.UsageError(message)


@pytest.fixture(scope="session")
def shared_data(request: pytest.FixtureRequest) -> Path:
    """The folder of labelled data; a test that needs it is skipped where it is not laid out."""
    if not SHARED_DATA.is_dir():
        request.config.stash[_MISSED].add(str(SHARED_DATA))
        pytest.skip(f"no labelled data at {SHARED_DATA}; set NOTARIUS_SHARED_DATA")
    return SHARED_DATA


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say loudly that the tests on labelled data did not run."""
    for missed in config.stash[_MISSED]:
        terminalreporter.write_line(
            f"NOT RUN: tests on labelled data. No folder {missed}; set NOTARIUS_SHARED_DATA.",
            yellow=True,
            bold=True,
        )
