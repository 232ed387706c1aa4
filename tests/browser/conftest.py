"""A report in headless Chromium. Run by the nox session `browser`."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# Nothing that a browser does of its own accord; playwright gives each a new empty profile.
QUIET = ["--disable-quic", "--disable-sync", "--disable-component-update"]
_MISSED = pytest.StashKey[bool]()


@pytest.fixture(scope="session")
def chromium(request: pytest.FixtureRequest) -> Iterator[Any]:
    """The system's Chromium; never one that is fetched."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="run the nox session `browser`")
    found = os.environ.get("NOTARIUS_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), "")
    if not found or not Path(found).exists():
        request.config.stash[_MISSED] = True
        pytest.skip("no Chromium; install it or set NOTARIUS_CHROMIUM")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=QUIET)
        yield browser
        browser.close()


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say loudly that the browser tests did not run."""
    if config.stash.get(_MISSED, False):
        terminalreporter.write_line(
            "NOT RUN: tests in a browser. No Chromium; install it or set NOTARIUS_CHROMIUM.",
            yellow=True,
            bold=True,
        )
