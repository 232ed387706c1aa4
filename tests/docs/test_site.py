"""The built site in build/site. Run by the nox session `docs`, which builds it before."""

import ast
import json
import re
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[2]
SITE = ROOT / "build" / "site"
PAGES = sorted(str(path.relative_to(SITE)) for path in SITE.rglob("*.html"))
# What a page loads by itself, in contrast to what a reader may follow.
LOADS = {
    *("src", "srcset", "poster", "data", "formaction", "action", "background"),
    *("xlink:href", "imagesrcset"),
}
# Marks by which the theme's script would fetch a library from another host.
FETCHES = {"mermaid", "glightbox", "pyodide", "arithmatex"}
_URL_IN_CSS = re.compile(r"""(?:url\(\s*|@import\s+)["']?(?P<url>[^"')\s;]+)""")


class Page(HTMLParser):
    """Where a page leads, what it loads, and what can be linked to in it."""

    def __init__(self, text: str) -> None:
        """Read the page."""
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.ids: set[str] = set()
        self.classes: set[str] = set()
        self.menu: list[str] = []
        self._inside: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep what an element says."""
        values = {name: value or "" for name, value in attrs}
        self.ids.update(values[name] for name in ("id", "name") if name in values)
        self.classes.update(values.get("class", "").split())
        self.loads += [value for name, value in values.items() if name in LOADS]
        self.loads += [found["url"] for found in _URL_IN_CSS.finditer(values.get("style", ""))]
        if "href" in values:
            (self.links if tag == "a" else self.loads).append(values["href"])
            if "md-nav__link" in values.get("class", "").split():
                self.menu.append(values["href"])
        if tag == "style":
            self._inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Leave a style sheet."""
        if tag == "style":
            self._inside.pop()

    def handle_data(self, data: str) -> None:
        """Read a style sheet."""
        if self._inside:
            self.loads += [found["url"] for found in _URL_IN_CSS.finditer(data)]


@cache
def page(name: str) -> Page:
    """Return a page of the site."""
    return Page((SITE / name).read_text("utf-8"))


def target(name: str, link: str) -> tuple[Path, str]:
    """Return the file that a link of a page leads to, and the place in it."""
    parts = urlsplit(link)
    path = (SITE / name).parent / unquote(parts.path) if parts.path else SITE / name
    path = path.resolve()
    return (path / "index.html" if path.is_dir() else path), unquote(parts.fragment)


def is_foreign(link: str) -> bool:
    """Tell whether a link leaves the site."""
    parts = urlsplit(link)
    return bool(parts.netloc) or parts.scheme in {"http", "https", "mailto"}


def test_there_is_a_site() -> None:
    """These tests look at something."""
    assert {"index.html", "tutorial.html", "adr/index.html", "reference/contracts.html"} <= set(
        PAGES
    ), "build the site first: scripts/test -s docs"


@pytest.mark.parametrize("name", PAGES)
def test_every_link_leads_somewhere(name: str) -> None:
    """Every link to the site has a file, and the place in it that it names."""
    broken = []
    for link in (*page(name).links, *page(name).loads):
        if is_foreign(link) or link.startswith("data:") or name == "404.html":
            continue
        path, place = target(name, link)
        if not path.is_file() or not path.is_relative_to(SITE):
            broken.append(link)
        elif place and path.suffix == ".html":
            found = page(str(path.relative_to(SITE))).ids
            broken += [] if place in found else [link]
    assert broken == []


@pytest.mark.parametrize("name", PAGES)
def test_nothing_is_loaded_from_another_host(name: str) -> None:
    """Fonts, scripts, styles and pictures are the site's own, and nothing makes it fetch more."""
    assert [load for load in page(name).loads if is_foreign(load)] == []
    assert page(name).classes & FETCHES == set()


def test_no_style_sheet_loads_from_another_host() -> None:
    """Style sheets neither."""
    sheets = list(SITE.rglob("*.css"))
    assert sheets
    foreign = [
        found["url"]
        for sheet in sheets
        for found in _URL_IN_CSS.finditer(sheet.read_text("utf-8"))
        if is_foreign(found["url"])
    ]
    assert foreign == []


def test_every_page_is_in_the_menu() -> None:
    """A page that is written is found; what only a link leads to are the files of the tree."""
    listed = {target("index.html", link)[0] for link in page("index.html").menu}
    written = {SITE / name for name in PAGES if not name.startswith(("source/", "404"))}
    missing = {str(path.relative_to(SITE)) for path in written ^ listed}
    assert missing == set(), "mend `nav` in mkdocs.yml"
    assert len(listed) == len(page("index.html").menu), "`nav` in mkdocs.yml lists a page twice"


def public_names() -> Iterator[tuple[str, str]]:
    """Yield each package and each name that a public module of it exports, read as text."""
    for file in sorted(ROOT.glob("packages/*/src/notarius/**/*.py")):
        module = ".".join(file.relative_to(ROOT).with_suffix("").parts[3:])
        module = module.removesuffix(".__init__")
        if "._" in module:
            continue
        for node in ast.parse(file.read_text("utf-8")).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                for name in ast.literal_eval(node.value):
                    yield module.split(".")[1], f"{module}.{name}"


def test_every_public_name_is_in_the_reference() -> None:
    """The API pages hold all that is public, also what is added tomorrow."""
    names = list(public_names())
    assert len({package for package, _ in names}) == 6
    missing = [name for package, name in names if name not in page(f"reference/{package}.html").ids]
    assert missing == []


def test_nothing_else_is_in_the_reference() -> None:
    """The API pages hold nothing that may change in any release: public names and their members."""
    public = {name for _, name in public_names()}
    modules = {name.rpartition(".")[0] for name in public}
    others = [
        place
        for name in PAGES
        if name.startswith("reference/")
        for place in page(name).ids
        if place.startswith("notarius.") and place not in modules | public
        if place.rpartition(".")[0] not in public or "._" in place.removesuffix(".__call__")
    ]
    assert others == []


def test_the_search_knows_every_page() -> None:
    """Every page of the menu can be found, and no source file is."""
    index = json.loads((SITE / "search.json").read_text("utf-8"))
    found = {entry["location"].partition("#")[0] for entry in index["items"]}
    written = {name for name in PAGES if not name.startswith(("source/", "404"))}
    assert found == written


def test_no_page_names_this_machine() -> None:
    """A site that is built here can be shown to anybody."""
    for file in SITE.rglob("*"):
        if file.suffix in {".html", ".json", ".css", ".svg"}:
            assert str(ROOT) not in file.read_text("utf-8"), file.name
