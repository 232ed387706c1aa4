"""How the pages of the repository become pages of the site: links follow, code stays."""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = "source/examples/downstream"
DOCS = runpy.run_path(str(ROOT / "scripts" / "docs.py"))


def moved(page: str, text: str) -> str:
    """Return the text of a page of the repository as the site has it."""
    written: str = DOCS["with_links"](ROOT / page, text, lambda target: None)
    return written


@pytest.mark.parametrize(
    ("page", "link", "wanted"),
    [
        ("docs/dnd.md", "pipeline.md#output", "pipeline.md#output"),
        ("docs/dnd.md", "../adr/README.md", "adr/README.md"),
        ("docs/how-to/coins.md", "../../SECURITY.md", "../SECURITY.md"),
        ("adr/README.md", "../docs/dnd.md", "../dnd.md"),
        ("SECURITY.md", "adr/", "adr/README.md"),
        ("docs/dnd.md", "../scripts/docs.py", "source/scripts/docs.py.md"),
        ("docs/dnd.md", "../examples/downstream/tests/", f"{EXAMPLE}/tests/index.md"),
        ("docs/dnd.md", "https://example.org/a.md", "https://example.org/a.md"),
        ("docs/dnd.md", "#money-items-only", "#money-items-only"),
    ],
)
def test_a_link_leads_to_the_same_thing(page: str, link: str, wanted: str) -> None:
    """Every link is found and keeps its place; files and folders become pages."""
    assert moved(page, f"See [`it`]({link}), [this]({link}).\n") == (
        f"See [`it`]({wanted}), [this]({wanted}).\n"
    )


@pytest.mark.parametrize(
    "text",
    [
        "`[x](../adr/README.md)`\n",
        "```python\nx = '[x](../adr/README.md)'\n```\n",
        "````text\n```\n[x](../adr/README.md)\n````\n",
    ],
)
def test_code_is_left_as_it_is(text: str) -> None:
    """What looks like a link in code is code."""
    assert moved("docs/dnd.md", text) == text


@pytest.mark.parametrize("link", ["gone.md", "../gone/", "../../"])
def test_a_link_that_leads_nowhere_is_an_error(link: str) -> None:
    """The page and the link are named."""
    with pytest.raises(DOCS["BrokenLinkError"], match=r"docs/dnd\.md: no such file: ") as told:
        moved("docs/dnd.md", f"[x]({link})\n")
    assert link in str(told.value)


def test_a_diagram_becomes_a_picture(tmp_path: Path) -> None:
    """Each Mermaid block is drawn into a file of its own beside the page, and nothing else is."""
    block = "```mermaid\ngraph TD\n    a --> b\n```\n"
    page = tmp_path / "page.md"
    text = DOCS["with_pictures"](page, f"one\n\n{block}\ntwo\n\n{block}\n```python\n1\n```\n")
    assert "mermaid" not in text
    assert "(page-1.svg)" in text
    assert "(page-2.svg)" in text
    assert "```python\n1\n```" in text
    assert {one.name for one in tmp_path.iterdir()} == {"page-1.svg", "page-2.svg"}
    assert "<svg" in (tmp_path / "page-2.svg").read_text("utf-8")
