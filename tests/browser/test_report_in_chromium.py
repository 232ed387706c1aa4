"""What a person can do with a report in a real browser, and what hostile names can't."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from notarius.contracts import FinishReason, Reply
from notarius.pipeline import Config, RunSettings, run_campaign
from notarius.pipeline._report import report

sync_api = pytest.importorskip("playwright.sync_api", reason="run the nox session `browser`")

Open = Callable[..., Any]
HOSTILE = [
    "<script>window.__pwned = 1</script>",
    "</script><script>window.__pwned = 1</script>",
    "<img src=x onerror='window.__pwned = 1'>",
    '"><svg onload=window.__pwned=1>',
    "' autofocus onfocus='window.__pwned = 1",
    "</bdi></article><iframe srcdoc='<script>parent.__pwned=1</script>'></iframe>",
    "<a href='javascript:window.__pwned=1'>click</a>",
    "<style>* { display: none }</style>",
    "<meta http-equiv=refresh content='0;url=https://attacker.invalid/'>",
    "<link rel=stylesheet href=https://attacker.invalid/x.css>",
    "\u202eevil\u2066",
    "x" * 2000,
]  # fmt: skip
NAMES = {
    "npc": ["Orla Venn", "Captain Venn", "Tamsin", "José Ångström", *HOSTILE],
    "item": ["gold", "silver", "rope"],
}
GROUPS = {"npc": [["c1", "c2"], ["c5", "c6"]], "item": [["c1", "c2"]]}
# Every text against what is behind it, by the rule of WCAG 2.
CONTRASTS = """() => {
  const parts = (color) => color.match(/[\\d.]+/g).map(Number);
  const light = (color) => {
    const [r, g, b] = parts(color).map((c) => c / 255)
      .map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const color = getComputedStyle(at).backgroundColor;
      if (parts(color)[3] !== 0) return color;
    }
  };
  const found = [];
  for (const element of document.body.querySelectorAll("*")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!own || !element.getClientRects().length) continue;
    const [a, b] = [light(getComputedStyle(element).color), light(behind(element))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    found.push([ratio, element.className + " " + element.textContent.slice(0, 40)]);
  }
  return found;
}"""
CLIPPED = """() => [...document.body.querySelectorAll("*")]
  .filter((element) => element.getClientRects().length && !element.closest("svg, .controls"))
  .filter((element) => getComputedStyle(element).display !== "inline")
  .filter((element) => element.scrollWidth > element.clientWidth + 1)
  .map((element) => element.tagName + " " + element.textContent.slice(0, 40))"""


class _Model:
    def __init__(self, kind: str, candidates: object, normalizer: object) -> None:
        self._kind = kind

    def complete(self, call: object, *, cancellation: object) -> Reply:
        groups = [
            {"candidate_ids": ids, "canonical_id": ids[0], "name": "any"}
            for ids in GROUPS[self._kind]
        ]
        text = json.dumps({"duplicate_groups": groups})
        return Reply(text=text, finish_reason=FinishReason.STOP)


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report with merged entries, a refused group, and hostile texts everywhere."""
    folder = tmp_path_factory.mktemp("campaign")
    for kind, names in NAMES.items():
        records = [
            {
                "source_id": f"{name}-{number}",
                "name": name,
                "aliases": [f"{name} too"],
                "description": f"{name}\nsecond line",
                "evidence": [f"{name} was seen", f"quote {number}"],
                "extra": {name: [name]},
            }
            for number, name in enumerate(names)
        ]
        text = "".join(json.dumps(record) + "\n" for record in records)
        (folder / f"{kind}.jsonl").write_text(text)
    out = tmp_path_factory.mktemp("out")
    options = Config(normalize_retries=1, at_once=1)
    summary = run_campaign(RunSettings(campaign=folder, out=out, options=options), backend=_Model)
    assert [one.outcome for one in summary.registries] == ["accepted", "fell_back"]
    report(out, candidates=folder)
    return out / "report.html"


@pytest.fixture
def open_page(chromium: Any, written: Path) -> Iterator[Open]:  # noqa: ANN401 - playwright's
    """Open the report; at the end nothing was complained of, asked for, or run."""
    opened = []

    def open_page(**options: Any) -> Any:  # noqa: ANN401 - options and page of playwright
        context = chromium.new_context(**options)
        page = context.new_page()
        seen = SimpleNamespace(context=context, page=page, said=[], asked=[])
        page.on("console", lambda message: seen.said.append(message.text))
        page.on("pageerror", lambda error: seen.said.append(str(error)))
        page.on("dialog", lambda dialog: seen.said.append(dialog.message))
        page.on("request", lambda request: seen.asked.append(request.url))
        page.goto(written.as_uri())
        opened.append(seen)
        return page

    yield open_page
    for seen in opened:
        seen.page.wait_for_timeout(50)
        assert seen.said == []
        assert [url.partition("#")[0] for url in seen.asked] == [written.as_uri()]
        assert seen.page.evaluate("window.__pwned") is None
        assert len(seen.context.pages) == 1
        seen.context.close()


def shown(page: Any) -> list[str]:  # noqa: ANN401 - playwright's
    """Return the names of all entries that can be seen."""
    return [
        one.inner_text().split("\n")[0] for one in page.locator(".entry").all() if one.is_visible()
    ]


def told(page: Any, count: str) -> None:  # noqa: ANN401 - playwright's
    """Wait until the number of hits is this."""
    sync_api.expect(page.locator("output")).to_have_text(count)


ALL = sum(map(len, NAMES.values())) - 2  # two pairs were merged


def test_the_search_narrows_the_entries(open_page: Open) -> None:
    """Any text of an entry is found, without accents and case; all words must be there."""
    page = open_page()
    search, count = page.get_by_label("Search all entries"), page.locator("output")
    assert count.inner_text() == f"{ALL} entries"
    for text, hits in (
        ("CAPTAIN venn", 1),
        ("jose angstrom", 1),
        ("Orla Tamsin", 0),
        ("second rope", 1),
        ("tamsin-2", 1),
        ("window.__pwned", 5),
    ):
        search.fill(text)
        told(page, f"{hits} of {ALL}")
        assert len(shown(page)) == hits
    search.press("Escape")
    assert len(shown(page)) == ALL


def test_the_controls_work_with_the_keyboard(open_page: Open) -> None:
    """A slash leads to the search; the boxes follow it and are toggled by the space bar."""
    page = open_page()
    page.keyboard.press("/")
    page.keyboard.type("venn")
    told(page, f"1 of {ALL}")
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    told(page, f"2 of {ALL}")
    assert shown(page)[0].startswith("Orla Venn")
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    told(page, f"0 of {ALL}")
    page.get_by_label("merged only").uncheck()
    told(page, f"2 of {ALL}")
    assert [name.partition(" ")[0] for name in shown(page)] == ["gold", "silver"]


def test_a_link_leads_to_an_entry_that_was_put_away(open_page: Open) -> None:
    """Whoever follows a link from a refused group sees the entry, whatever was searched for."""
    page = open_page()
    page.get_by_label("Search all entries").fill("rope")
    told(page, f"1 of {ALL}")
    page.locator("#refused").get_by_role("link", name="silver").first.click()
    assert page.locator("#item-2").is_visible()
    assert page.locator("#item-2").evaluate("e => e.matches(':target')")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_texts_can_be_read(open_page: Open, scheme: str) -> None:
    """Every text stands out from what is behind it by 4.5 to 1 at least, in both schemes."""
    page = open_page(color_scheme=scheme)
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true })")
    found = page.evaluate(CONTRASTS)
    assert len(found) > 100
    assert [one for one in found if one[0] < 4.5] == []
    ink = page.evaluate("getComputedStyle(document.body).color")
    assert (ink == "rgb(33, 31, 27)") == (scheme == "light")


@pytest.mark.parametrize("width", [360, 1280])
def test_nothing_is_wider_than_the_window(open_page: Open, width: int) -> None:
    """No scrolling sideways, also with a name of 2,000 letters, and no text is cut off."""
    page = open_page(viewport={"width": width, "height": 740})
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true })")
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.evaluate(CLIPPED) == []


def test_everything_is_printed(open_page: Open) -> None:
    """On paper there are no controls, and all entries and all that can be unfolded."""
    page = open_page(viewport={"width": 700, "height": 900})
    page.get_by_label("merged only").check()
    told(page, f"2 of {ALL}")
    page.emulate_media(media="print", color_scheme="dark")
    assert len(shown(page)) == ALL
    assert not page.locator(".controls").is_visible()
    assert not page.locator("nav").is_visible()
    folded = page.locator("details:not([open]) pre, details:not([open]) dd")
    assert folded.count() > 10
    assert all(box and box["height"] > 5 for box in (one.bounding_box() for one in folded.all()))
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate(CLIPPED) == []
    assert page.evaluate("document.documentElement.scrollWidth") == 700
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert folded.count() == 0
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert folded.count() > 10


def test_the_page_can_be_read_without_its_script(open_page: Open) -> None:
    """Where no script may run, everything is shown, and no control that would do nothing."""
    page = open_page(java_script_enabled=False)
    assert len(shown(page)) == ALL
    assert not page.locator(".controls").is_visible()


def test_lines_of_a_description_stay_lines(open_page: Open) -> None:
    """A line feed in a description is seen as one."""
    page = open_page()
    description = page.locator("#npc-2 .text").first
    assert description.inner_text().split("\n") == ["Tamsin", "second line"]


def test_hostile_names_do_nothing(open_page: Open) -> None:
    """They are texts: no element, style, address or handler of theirs is on the page."""
    page = open_page()
    assert page.locator("img, iframe, link, object, embed, base").count() == 0
    assert page.locator("script").count() == page.locator("style").count() == 1
    assert page.locator("h4", has_text="<img src=x onerror").count() == 1
    page.mouse.move(300, 300)
    page.mouse.click(300, 400)
    assert page.evaluate("document.querySelectorAll('.entry').length") == ALL
