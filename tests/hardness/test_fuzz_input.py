"""Candidate files and `notarius.toml` of any bytes: read, or refused in words for a person."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from notarius.pipeline import Config, InputError, check_campaign

Damaged: TypeAlias = Callable[[bytes], SearchStrategy[bytes]]
Fed: TypeAlias = Callable[[str, bytes], None]
Obeyed: TypeAlias = Callable[[str], list[str]]
HARD = settings.get_profile("hardness")
RECORDS = [
    {
        "source_id": "s1",
        "name": "Captain Orla Venn",
        "aliases": ["the Captain", "Orla \U0001f409"],
        "description": "commands the river ferry",
        "evidence": ['She said "no".'],
        "extra": {"session": 1, "deep": [[{"a": [None, 1.5e3, -1]}]]},
    },
    {"source_id": "s2", "name": "gold", "kind": "item", "item_kind": "currency"},
    {"source_id": "s3", "name": "20 gp", "denomination": "gp"},
]
LINES = b"".join(json.dumps(record).encode() + b"\n" for record in RECORDS)
GOOD = b'{"source_id": "a", "name": "x"}\n'
TOML = b"""# The whole campaign.
model = "similarity"
context-tokens = 8_192
at-once = 2
normalize-retries = 0x2
deadline = 3600.5
terminal = "fallback"

[[coinage]]
code = "dm"
label = "dragonmarks"
names = ["dragonmark", 'drake']
"""


def problems_of(campaign: Path, options: Config | None = None) -> tuple[str, ...]:
    """Check a campaign; return what a person is told."""
    try:
        plan = check_campaign(campaign, options=options)
    except InputError as error:
        assert error.problems  # noqa: PT017 - one of two good ends
        return error.problems
    assert plan.registries
    return ()


def require_readable(told: tuple[str, ...], source: Path, obeyed: Obeyed) -> None:
    """Each problem names the file, is one short line, and tells no terminal what to do."""
    for problem in told:
        assert problem.startswith(f"{source}")
        assert len(problem) < len(str(source)) + 500
        assert not obeyed(problem)
        assert "\n" not in problem


@HARD
@given(data=st.data(), kind=st.sampled_from(["npc", "item"]), raw=st.booleans(), bom=st.booleans())
def test_any_bytes_of_a_candidate_file_have_an_answer(
    damaged: Damaged,
    obeyed: Obeyed,
    fed: Fed,
    work_folder: Path,
    data: st.DataObject,
    kind: str,
    raw: bool,
    bom: bool,
) -> None:
    """Whatever a candidate file holds, it is read or every bad line is told."""
    content = data.draw(st.binary(max_size=200) if raw else damaged(LINES))
    folder = work_folder / f"candidates-{kind}"
    folder.mkdir(exist_ok=True)
    source = folder / f"{kind}.jsonl"
    content = b"\xef\xbb\xbf" * bom + content
    fed("candidate file", content)
    source.write_bytes(content)
    require_readable(problems_of(folder), source, obeyed)


@HARD
@given(data=st.data(), raw=st.booleans())
def test_any_bytes_of_a_configuration_have_an_answer(
    damaged: Damaged, obeyed: Obeyed, fed: Fed, work_folder: Path, data: st.DataObject, raw: bool
) -> None:
    """Whatever `notarius.toml` holds, it is read or what is wrong with it is told."""
    # A number of thousands of digits is left out: it is told of elsewhere.
    content = data.draw(
        (st.binary(max_size=200) if raw else damaged(TOML)).filter(lambda it: b"9" * 4300 not in it)
    )
    fed("configuration", content)
    folder = work_folder / "configured"
    folder.mkdir(exist_ok=True)
    (folder / "npc.jsonl").write_bytes(GOOD)
    (folder / "notarius.toml").write_bytes(content)
    told = problems_of(folder)
    # What contradicts itself only together is told by option.
    if not all(problem.startswith("--") for problem in told):
        require_readable(told, folder / "notarius.toml", obeyed)


@pytest.mark.parametrize("depth", [62, 63, 64, 65, 200, 900, 980, 985, 990, 2_000, 1_000_000])
@pytest.mark.parametrize("unit", ["[]", '{"a":1}'])
@pytest.mark.parametrize("key", ["extra", "name", "kind", "zzz"])
def test_the_depth_of_a_candidate_has_one_limit(
    work_folder: Path, depth: int, unit: str, key: str
) -> None:
    """What is accepted does not depend on where the reader is called: all output is readable."""
    start, end = (unit[:-1], unit[-1]) if unit == "[]" else ('{"a":', "}")
    value = start * depth + ("1" if unit != "[]" else "") + end * depth
    folder = work_folder / "deep"
    folder.mkdir(exist_ok=True)
    more = f'{{"v": {value}}}' if key == "extra" else value
    name = "" if key == "name" else '"name": "x", '
    (folder / "npc.jsonl").write_text(f'{{"source_id": "a", {name}"{key}": {more}}}')
    told = problems_of(folder)
    limit = 62 if key == "extra" else 63
    if key == "extra" and depth <= limit:
        assert told == ()
    else:
        assert len(told) == 1
        assert ("nested too deeply (at most 64 levels)" in told[0]) == (depth > limit)
