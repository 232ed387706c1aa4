import os
import re
import shutil
import subprocess
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest

from notarius.attempts import mermaid_diagram
from notarius.pipeline import check_campaign

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    str(path.relative_to(ROOT))
    for pattern in ("README.md", "docs/**/*.md", "adr/**/*.md", "packages/*/README.md")
    for path in ROOT.glob(pattern)
)
_FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,}|~{3,})(?P<info>.*)$")
# A model that is not here: such commands can only be read.
_NEEDS_A_MODEL = re.compile(r"""--model[ =]["']?(?:openai|llama):""")


def read(page: str) -> str:
    """Return the text of a page."""
    return (ROOT / page).read_text("utf-8")


def blocks(text: str, language: str) -> Iterator[tuple[int, str]]:
    """Yield the fenced blocks of one language: the line that a block begins in, and its text."""
    fence: re.Match[str] | None = None
    lines: list[str] = []
    begin = 0
    for number, line in enumerate(text.splitlines(), start=1):
        found = _FENCE.match(line)
        if fence is None:
            if found:
                fence, lines, begin = found, [], number + 1
        elif found and found["ticks"].startswith(fence["ticks"]) and not found["info"].strip():
            if fence["info"].split()[:1] == [language]:
                yield begin, "".join(f"{inner}\n" for inner in lines)
            fence = None
        else:
            lines.append(line.removeprefix(fence["indent"]))
    assert fence is None, f"line {begin - 1}: a block without an end"


def commands(page: str) -> Iterator[tuple[int, str]]:
    """Yield the `notarius` commands of a page: what follows `$ `, continued lines joined."""
    for begin, text in blocks(read(page), "console"):
        lines = iter(enumerate(text.splitlines(), start=begin))
        for number, line in lines:
            command = line.removeprefix("$ ")
            while command.endswith("\\"):
                command = command[:-1] + next(lines, (0, ""))[1].removeprefix("> ")
            if line.startswith("$ notarius") and not _NEEDS_A_MODEL.search(command):
                yield number, command


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder with a copy of the examples, and `notarius` on the path."""
    if (ROOT / "examples").is_dir():
        shutil.copytree(ROOT / "examples", tmp_path / "examples")
    shims = tmp_path / ".bin"
    shims.mkdir()
    program = "import sys; from notarius.pipeline.cli import main; sys.exit(main())"
    shim = shims / "notarius"
    shim.write_text(f"#!/bin/sh\nexec '{sys.executable}' -c '{program}' \"$@\"\n")
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", str(shims) + os.pathsep + os.environ["PATH"])
    monkeypatch.delenv("NOTARIUS_LOG", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", PAGES)
def test_the_python_examples_of_a_page_run(page: str, desk: Path) -> None:
    """Every Python block runs; the blocks of one page are one program, in order."""
    names: dict[str, object] = {"__name__": f"example of {page}"}
    for begin, text in blocks(read(page), "python"):
        # Empty lines before it, so that errors show the line of the page.
        code = compile("\n" * (begin - 1) + text, page, "exec")
        try:
            exec(code, names)  # noqa: S102 - our own documentation
        except BaseException as error:  # noqa: BLE001 - told with its place
            places = [
                f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == page
            ]
            pytest.fail(f"{page}:{places[-1] if places else begin}: {error!r}")


@pytest.mark.parametrize("page", [page for page in PAGES if any(commands(page))])
def test_the_commands_of_a_page_run(page: str, desk: Path) -> None:
    """Every `$ notarius …` line ends with status 0 beside a copy of the examples."""
    for number, command in commands(page):
        done = subprocess.run(
            ["/bin/sh", "-c", command], capture_output=True, check=False, timeout=60, cwd=desk
        )
        if done.returncode:
            said = done.stderr.decode(errors="replace")
            pytest.fail(f"{page}:{number}: status {done.returncode} of `{command}`: {said}")


def test_the_configuration_of_a_page_is_valid(desk: Path) -> None:
    """Every TOML block is a `notarius.toml` that a campaign can have."""
    found = [text for page in PAGES for _, text in blocks(read(page), "toml")]
    assert found
    for text in found:
        (desk / "examples" / "notarius.toml").write_text(text)
        assert check_campaign(desk / "examples").registries


def test_the_diagram_of_the_machine_is_the_machine() -> None:
    """The diagram in the architecture page is the one that the machine draws of itself."""
    drawn = [text for _, text in blocks(read("docs/architecture.md"), "mermaid")]
    assert mermaid_diagram() in drawn


def test_links_inside_the_repository_lead_somewhere() -> None:
    """Every relative link of a page names a file that is there."""
    broken = [
        f"{page}: {target}"
        for page in PAGES
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", read(page))
        if "://" not in target and not (ROOT / page).parent.joinpath(target).exists()
    ]
    assert broken == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("```python\na\n```\n", [(2, "a\n")]),
        ("x\n\n  ```python title\n  a\n    b\n  ```\n", [(4, "a\n  b\n")]),
        ("````python\n```\n````\n```python\nc\n```\n", [(2, "```\n"), (5, "c\n")]),
        ("```text\n```python\na\n```\n", []),
    ],
)
def test_the_reader_of_blocks_reads_them(text: str, found: list[tuple[int, str]]) -> None:
    """Blocks are found with the line that they begin in, so that a failure can be found."""
    assert list(blocks(text, "python")) == found
