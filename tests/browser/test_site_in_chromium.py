"""The built documentation in a real browser: on a phone, in the dark, and without the network."""

import functools
import http.server
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sync_api = pytest.importorskip("playwright.sync_api", reason="run the nox session `browser`")

pytestmark = pytest.mark.allow_hosts(["127.0.0.1"])

SITE = Path(__file__).parents[2] / "build" / "site"
# One of each kind.
PAGES = [
    "index.html",
    "tutorial.html",
    "how-to/one-wheel.html",
    "pipeline.html",
    "reference/contracts.html",
    "packages/attempts/index.html",
    "architecture.html",
    "small-models.html",
    "performance.html",
    "SECURITY.html",
    "adr/index.html",
    "adr/0001-module-retry-correction.html",
    "source/scripts/mutation.py.html",
]
Open = Callable[..., Any]
# What is wider than the page, and can't be scrolled by itself.
TOO_WIDE = """() => [...document.querySelectorAll(".md-content *")]
  .filter((one) => one.getClientRects().length)
  .filter((one) => one.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
  .filter((one) => {
    for (let at = one; at; at = at.parentElement)
      if (["auto", "scroll"].includes(getComputedStyle(at).overflowX)) return false;
    return true;
  })
  .map((one) => one.tagName + " " + one.textContent.slice(0, 40))"""


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        pass


@pytest.fixture
def origin() -> Iterator[str]:
    """A server of the site on this machine."""
    assert SITE.is_dir(), "build the site first: scripts/test -s docs"
    handler = functools.partial(_Quiet, directory=str(SITE))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.fixture
def open_page(chromium: Any, origin: str) -> Iterator[Open]:  # noqa: ANN401 - playwright's
    """Open a page; at the end nothing was complained of, and nothing came from elsewhere."""
    contexts, said, asked, failed = [], [], [], []

    def answered(response: Any) -> None:  # noqa: ANN401 - playwright's
        if not response.ok:
            failed.append(response.url)

    def open_page(name: str, **options: Any) -> Any:  # noqa: ANN401 - playwright's
        context = chromium.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.on("requestfailed", lambda request: failed.append(request.url))
        page.on("response", answered)
        page.goto(origin + name)
        page.wait_for_load_state("networkidle")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert said == []
    assert failed == []
    assert [url for url in asked if not url.startswith((origin, "data:", "blob:"))] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_pages_fit_and_load_nothing_else(open_page: Open, scheme: str, width: int) -> None:
    """No page scrolls sideways or asks another host, on a phone or a screen, in either scheme."""
    for name in PAGES:
        page = open_page(name, color_scheme=scheme, viewport={"width": width, "height": 740})
        shown = page.evaluate("document.documentElement.clientWidth")
        assert page.evaluate("document.documentElement.scrollWidth") <= shown, name
        assert page.evaluate(TOO_WIDE) == [], name
        pictures = page.locator("img").all()
        assert all(one.evaluate("e => e.complete && e.naturalWidth > 0") for one in pictures), name


def test_the_scheme_of_the_system_is_followed(open_page: Open) -> None:
    """Who has set their machine to dark gets a dark page, and the other way round."""
    grounds = {
        scheme: open_page("index.html", color_scheme=scheme).evaluate(
            "getComputedStyle(document.body).backgroundColor.match(/[0-9]+/g).map(Number)"
        )
        for scheme in ("light", "dark")
    }
    assert sum(grounds["light"]) > 600
    assert sum(grounds["dark"]) < 150


def test_the_search_leads_to_a_page(open_page: Open) -> None:
    """A word is found, and the hit leads to where it stands."""
    page = open_page("index.html")
    page.keyboard.press("Control+k")
    page.keyboard.type("dragonmarks")
    hit = page.get_by_role("option", name="Add a coin").first
    sync_api.expect(hit).to_be_visible()
    hit.click()
    page.wait_for_url("**/how-to/coins.html**")
    sync_api.expect(page.get_by_role("heading", level=1)).to_contain_text("Add a coin")


def test_the_diagrams_are_drawn(open_page: Open) -> None:
    """The diagrams of the architecture are pictures of the site's own."""
    page = open_page("architecture.html")
    pictures = page.locator("img.diagram")
    assert pictures.count() == 2
    assert all(one.evaluate("e => e.naturalHeight > 100") for one in pictures.all())


def test_pages_can_be_read_as_files(chromium: Any) -> None:  # noqa: ANN401 - playwright's
    """Without any server the pages, their styles and links work; only the search needs one."""
    page = chromium.new_page()
    page.goto((SITE / "index.html").as_uri())
    page.get_by_role("link", name="tutorial", exact=True).click()
    sync_api.expect(page.get_by_role("heading", level=1)).to_contain_text("Tutorial")
    page.close()
