"""Lays out the pages of the documentation in build/pages, where Zensical builds the site from.

The pages stay where a code host shows them: in docs/, adr/, packages/ and at the root. Here
docs/ becomes the root of the site, links follow, and what only a code host has (a source file, a
folder, a diagram drawn by the browser) becomes a page or a picture.
"""

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import mermaidx  # type: ignore[import-untyped]  # it has no types

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "build" / "pages"
ROOTS = ("docs/**/*.md", "adr/*.md", "packages/*/README.md", "SECURITY.md")
LANGUAGES = {".py": "python", ".toml": "toml", ".ndjson": "json", ".jsonl": "json"}
# A page about a file, or about what is in a folder, that is linked and is no page itself.
UNLISTED = "---\nsearch:\n  exclude: true\n---\n\n# {title}\n\n{text}"
_FENCE = re.compile(r"^ *(?P<ticks>`{3,}|~{3,})(?P<info>.*)$")
_LINK = re.compile(r"(?P<before>\]\()(?P<path>[^)#\s]+)(?P<after>(?:#[^)\s]*)?\))")
_CODE = re.compile(r"(`+[^`]+`+)")


class BrokenLinkError(Exception):
    """A link leads to nothing that is in the repository."""


def site_path(source: Path) -> Path:
    """Return where a file or folder of the repository is a page: under build/pages."""
    path = source.relative_to(ROOT)
    if source.is_dir():
        readme = source / "README.md"
        return site_path(readme) if readme.is_file() else PAGES / "source" / path / "index.md"
    if source.suffix != ".md":
        return PAGES / "source" / f"{path}.md"
    return PAGES / (path.relative_to("docs") if path.parts[0] == "docs" else path)


def prose(text: str) -> Iterator[tuple[bool, str]]:
    """Yield each line, and whether it is prose: in no fenced block, and none's fence."""
    closing = ""
    for line in text.splitlines(keepends=True):
        fence = _FENCE.match(line)
        yield not (closing or fence), line
        if fence and not closing:
            closing = fence["ticks"]
        elif fence and fence["ticks"].startswith(closing) and not fence["info"].strip():
            closing = ""


def with_links(source: Path, text: str, linked: Callable[[Path], None]) -> str:
    """Return a page's text with links for the site; tell `linked` about each file and folder."""
    base = source if source.is_dir() else source.parent

    def moved(link: re.Match[str]) -> str:
        if "://" in link["path"] or link["path"].startswith("mailto:"):
            return link[0]
        target = Path(os.path.normpath(base / link["path"]))
        if not target.exists() or not target.is_relative_to(ROOT):
            message = f"{source.relative_to(ROOT)}: no such file: {link['path']}"
            raise BrokenLinkError(message)
        linked(target)
        path = os.path.relpath(site_path(target), site_path(source).parent)
        return f"{link['before']}{Path(path).as_posix()}{link['after']}"

    lines = []
    for is_prose, line in prose(text):
        # Every other part is code; a label may be, so links are looked for between them.
        parts = _CODE.split(line) if is_prose else ["", line]
        lines += [part if n % 2 else _LINK.sub(moved, part) for n, part in enumerate(parts)]
    return "".join(lines)


def with_pictures(page: Path, text: str) -> str:
    """Return a page's text with its Mermaid blocks drawn into files beside it."""

    def drawn(block: re.Match[str]) -> str:
        picture = page.with_name(f"{page.stem}-{text[: block.start()].count('```mermaid') + 1}.svg")
        picture.write_text(mermaidx.render(block["code"]).svg(), encoding="utf-8")
        return f"![Diagram, described in the text]({picture.name}){{ .diagram }}\n"

    return re.sub(r"^```mermaid\n(?P<code>.*?)^```\n", drawn, text, flags=re.MULTILINE | re.DOTALL)


def listing(source: Path) -> str:
    """Return the text of a page about a file or a folder that is no page itself."""
    title = source.relative_to(ROOT).as_posix()
    if source.is_dir():
        names = sorted(path.name for path in source.iterdir() if path.is_file())
        text = "".join(f"- [{name}]({name})\n" for name in names)
    else:
        code = source.read_text(encoding="utf-8")
        text = f"````{LANGUAGES.get(source.suffix, 'text')}\n{code}````\n"
    return UNLISTED.format(title=title, text=text)


def lay_out() -> int:
    """Write all pages that are reached from the roots; return how many there are."""
    shutil.rmtree(PAGES, ignore_errors=True)
    waiting = sorted(path for pattern in ROOTS for path in ROOT.glob(pattern))
    done: set[Path] = set()

    def linked(target: Path) -> None:
        readme = target / "README.md"
        waiting.append(readme if readme.is_file() else target)

    while waiting:
        source = waiting.pop()
        if source in done:
            continue
        done.add(source)
        page = site_path(source)
        page.parent.mkdir(parents=True, exist_ok=True)
        is_page = source.suffix == ".md"
        text = source.read_text(encoding="utf-8") if is_page else listing(source)
        text = with_links(source, text, linked) if is_page or source.is_dir() else text
        page.write_text(with_pictures(page, text), encoding="utf-8")
    shutil.copytree(ROOT / "docs" / "assets", PAGES / "assets")
    return len(done)


if __name__ == "__main__":
    try:
        print(f"{lay_out()} pages in {PAGES.relative_to(ROOT)}")
    except BrokenLinkError as error:
        sys.exit(str(error))
