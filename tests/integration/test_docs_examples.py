import contextlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import traceback
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import pytest
from packaging.requirements import Requirement

from notarius.attempts import mermaid_diagram
from notarius.pipeline import check_campaign

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    str(path.relative_to(ROOT))
    for pattern in (
        *("README.md", "SECURITY.md", "docs/**/*.md", "adr/**/*.md"),
        *("packages/*/README.md", "examples/downstream/README.md"),
    )
    for path in ROOT.glob(pattern)
)
# Every block of a page has one of these. The last two are for reading.
LANGUAGES = {"python", "console", "json", "toml", "text", "mermaid"}
# Commands that no test runs. A pattern that no page needs any more is an error.
NOT_RUN = {
    r"pip install ": "fetches from an index",
    r"scripts/(example|test)\b": "sets up environments, and runs the tests that we are in",
    r".*--model[ =][\"']?(openai|llama):": "needs a model",
    r"(MODEL|ADDRESS)=": "needs a model",
    r"python benchmarks/": "needs a model, or measures for minutes",
    r"NOTARIUS_\w+=\d+ ": "searches for minutes",
    r"(factionbook|mypy|pytest)\b": "is run by the session `downstream`",
}
_FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,}|~{3,})(?P<info>.*)$")
_TITLE = re.compile(r'title="(?P<title>[^"]+)"')
_PINNED = re.compile(r"notarius-\w+[=<>~!].*")


class Block(NamedTuple):
    """A fenced block: the line that it begins in, its language, its `title="…"`, and its text."""

    begin: int
    language: str
    title: str
    text: str


def read(page: str) -> str:
    """Return the text of a page."""
    return (ROOT / page).read_text("utf-8")


def blocks(text: str) -> Iterator[Block]:
    """Yield the fenced blocks of a text."""
    fence: re.Match[str] | None = None
    lines: list[str] = []
    begin = 0
    for number, line in enumerate(text.splitlines(), start=1):
        found = _FENCE.match(line)
        if fence is None:
            if found:
                fence, lines, begin = found, [], number + 1
        elif found and found["ticks"].startswith(fence["ticks"]) and not found["info"].strip():
            title = _TITLE.search(fence["info"])
            yield Block(
                begin,
                (fence["info"].split() or [""])[0],
                title["title"] if title else "",
                "".join(f"{inner}\n" for inner in lines),
            )
            fence = None
        else:
            lines.append(line.removeprefix(fence["indent"]))
    assert fence is None, f"line {begin - 1}: a block without an end"


def in_pages(*languages: str) -> list[tuple[str, Block]]:
    """Return all blocks of these languages, each with its page."""
    return [
        (page, block)
        for page in PAGES
        for block in blocks(read(page))
        if block.language in languages
    ]


def reason(command: str) -> str | None:
    """Return the pattern of `NOT_RUN` for a command that is not run."""
    return next((pattern for pattern in NOT_RUN if re.match(pattern, command)), None)


def commands(block: Block) -> Iterator[tuple[int, str, str]]:
    """Yield the commands of a console block: line, what follows `$ `, and what it prints."""
    lines = block.text.splitlines()
    starts = [number for number, line in enumerate(lines) if line.startswith("$ ")]
    assert starts[:1] == [0], f"line {block.begin}: a console block begins with `$ `"
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        command, last = lines[start].removeprefix("$ "), start
        while command.endswith("\\"):
            last += 1
            command = command[:-1] + lines[last].removeprefix("> ")
        yield block.begin + start, command, "\n".join(lines[last + 1 : end])


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a copy of the examples, and `notarius` on the path."""
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


def run_python(page: str, block: Block, names: dict[str, object]) -> str:
    """Run a Python block and return what it prints."""
    # Empty lines before it, so that errors show the line of the page.
    code = compile("\n" * (block.begin - 1) + block.text, page, "exec")
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            exec(code, names)  # noqa: S102 - our own documentation
    except BaseException as error:  # noqa: BLE001 - told with its place
        frames = traceback.extract_tb(error.__traceback__)
        places = [frame.lineno for frame in frames if frame.filename == page]
        pytest.fail(f"{page}:{places[-1] if places else block.begin}: {error!r}")
    return printed.getvalue()


def run_commands(page: str, block: Block) -> None:
    """Run the commands of a console block; where the page shows what is printed, compare it."""
    for number, command, shown in commands(block):
        if reason(command):
            continue
        done = subprocess.run(
            ["/bin/sh", "-c", command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            timeout=60,
        )
        said = done.stdout.decode(errors="replace")
        if done.returncode:
            pytest.fail(f"{page}:{number}: status {done.returncode} of `{command}`: {said}")
        if shown and shown != said.rstrip("\n"):
            pytest.fail(f"{page}:{number}: `{command}` printed {said}")


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_a_page_run(page: str, desk: Path) -> None:
    """The blocks of a page are one story: files are written, code and commands run, in order.

    What a Python block prints is the `text` block after it; what a command prints follows it,
    where it is shown. A block with a title is a file.
    """
    names: dict[str, object] = {"__name__": f"example of {page}"}
    printed = ""
    for block in blocks(read(page)):
        if printed:
            assert block.text.rstrip("\n") == printed.rstrip("\n"), f"{page}:{block.begin}"
            assert block.language == "text", f"{page}:{block.begin}"
            printed = ""
        if block.title:
            file = desk / block.title
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block.text, "utf-8")
        elif block.language == "python":
            printed = run_python(page, block, names)
        elif block.language == "console":
            run_commands(page, block)
    assert not printed, f"{page} does not show what its last Python block prints"


def test_no_block_is_left_out() -> None:
    """A block has a known language, or is made of names and commands that are known not to run."""
    unknown = [
        f"{page}:{block.begin}: {block.language or line}"
        for page in PAGES
        for block in blocks(read(page))
        if block.language not in LANGUAGES
        for line in block.text.splitlines()
        if block.language or (" " in line.strip() and not reason(line))
    ]
    assert unknown == []


def test_every_reason_not_to_run_is_needed() -> None:
    """The list of what is not run can only shrink."""
    bare = [line for _, block in in_pages("") for line in block.text.splitlines()]
    told = [command for _, block in in_pages("console") for _, command, _ in commands(block)]
    assert {reason(command) for command in (*bare, *told)} - {None} == set(NOT_RUN)


def test_the_configuration_of_a_page_is_valid(desk: Path) -> None:
    """A TOML block without a title is a `notarius.toml` that a campaign can have."""
    found = in_pages("toml")
    assert found
    for page, block in found:
        if block.title:
            assert tomllib.loads(block.text), page
        else:
            (desk / "examples" / "notarius.toml").write_text(block.text)
            assert check_campaign(desk / "examples").registries


def test_the_candidates_of_a_page_are_valid(tmp_path: Path) -> None:
    """A JSON block is JSON, and its candidates are those of the command's own reader."""
    found = in_pages("json")
    assert found
    for number, (_, block) in enumerate(found):
        lines = block.text.splitlines() if block.title.endswith(".jsonl") else [block.text]
        if any("source_id" in json.loads(line) for line in lines):
            campaign = tmp_path / str(number)
            campaign.mkdir()
            kind = Path(block.title or "npc.jsonl").name
            (campaign / kind).write_text(block.text)
            assert check_campaign(campaign).registries[0].candidates == len(lines)


def test_the_pins_of_a_page_allow_these_versions() -> None:
    """What a page tells people to install includes what is here."""
    found = [
        (page, pin)
        for page, block in in_pages("toml", "text")
        for pin in _PINNED.findall(block.text.replace('"', "\n"))
    ]
    assert found
    for page, pin in found:
        needed = Requirement(pin)
        assert needed.specifier.contains(version(needed.name)), f"{page}: {pin}"


def test_the_diagram_of_the_machine_is_the_machine() -> None:
    """The diagram in the architecture page is the one that the machine draws of itself."""
    drawn = [block.text for block in blocks(read("docs/architecture.md"))]
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
        ("```python\na\n```\n", [(2, "python", "", "a\n")]),
        ("x\n\n  ```python title\n  a\n    b\n  ```\n", [(4, "python", "", "a\n  b\n")]),
        (
            '````text\n```\n````\n```json title="a/b.json"\n{}\n```\n',
            [(2, "text", "", "```\n"), (5, "json", "a/b.json", "{}\n")],
        ),
        ("```\n```python\na\n```\n", [(2, "", "", "```python\na\n")]),
    ],
)
def test_the_reader_of_blocks_reads_them(text: str, found: list[tuple[int, str, str, str]]) -> None:
    """Blocks are found with the line that they begin in, so that a failure can be found."""
    assert list(blocks(text)) == found


def test_the_reader_of_commands_reads_them() -> None:
    """A command may go over several lines, and what it prints belongs to it."""
    block = Block(7, "console", "", "$ a \\\n> b\nsaid\nmore\n$ c\n")
    assert list(commands(block)) == [(7, "a b", "said\nmore"), (11, "c", "")]
