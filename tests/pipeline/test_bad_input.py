import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from notarius.pipeline import InputError, Settings, reconcile

Run = Callable[..., SimpleNamespace]
Write = Callable[..., Path]
Scripted = Callable[..., Any]
GOOD = b'{"source_id": "ok", "name": "Ada"}\n'
DEEP = b'{"source_id": "a", "name": "x", "extra": {"d": ' + b"[" * 10**5 + b"]" * 10**5 + b"}}"


def line(**fields: str) -> bytes:
    """Write a candidate with these raw JSON values added or replaced."""
    merged = {"source_id": '"a"', "name": '"x"', **fields}
    return ("{" + ", ".join(f'"{key}": {value}' for key, value in merged.items()) + "}").encode()


# What is wrong, the line, and what a message about it must mention.
BAD_LINES: dict[str, tuple[bytes, list[str]]] = {
    "invalid UTF-8": (b'{"source_id": "a", "name": "\xff"}', ["UTF-8"]),
    "another encoding": ('{"source_id": "a", "name": "x"}'.encode("utf-16"), ["JSON"]),
    "no JSON": (b"Lord Percival", ["JSON"]),
    "single quotes": (b"{'source_id': 'a', 'name': 'x'}", ["JSON"]),
    "two values": (line() + line(), ["JSON"]),
    "cut off": (line()[:-5], ["JSON"]),
    "not a number": (line(extra='{"v": NaN}'), ["JSON"]),
    "infinity": (line(extra='{"v": -Infinity}'), ["JSON"]),
    "NUL byte": (line(name='"x\0"'), ["JSON"]),
    "raw escape byte": (line(name='"\x1b[31mx"'), ["JSON"]),
    "lone surrogate in a name": (line(name='"a\\ud800b"'), ["surrogate"]),
    "lone surrogate in extra": (line(extra='{"\\udfff": 1}'), ["surrogate"]),
    "list": (b"[" + line() + b"]", ["object"]),
    "text": (b'"Lord Percival"', ["object"]),
    "null": (b"null", ["object"]),
    "nested too deep": (DEEP, ["nested"]),
    "list nested too deep": (b"[" * 10**5, ["nested"]),
    "misspelt key": (line(alises="[]"), ["`alises`", "`aliases`"]),
    "unknown key": (line(zzz="1"), ["`zzz`", "`extra`"]),
    "the truth of labelled data": (line(entity='"x"'), ["`entity`", "`extra`"]),
    "item key in another registry": (line(denomination='"gp"'), ["`denomination`"]),
    "missing source_id": (b'{"name": "x"}', ["`source_id`", "missing"]),
    "missing name": (b'{"source_id": "a"}', ["`name`", "missing"]),
    "blank name": (line(name='" \\t\\u3000"'), ["`name`", "blank"]),
    "blank source_id": (line(source_id='""'), ["`source_id`", "blank"]),
    "number as source_id": (line(source_id="7"), ["`source_id`", "text"]),
    "null name": (line(name="null"), ["`name`", "null"]),
    "text as aliases": (line(aliases='"Percy"'), ["`aliases`", "list"]),
    "number among aliases": (line(aliases='["a", 2]'), ["`aliases", "text"]),
    "list as extra": (line(extra="[]"), ["`extra`", "object"]),
    "repeated key": (line()[:-1] + b', "name": "y"}', ["`name`", "twice"]),
    "repeated key in extra": (line(extra='{"a": [{"k": 1, "k": 2}]}'), ["`k`", "twice"]),
    "endless key": (line(**{"k" * 10**4: "1"}), ["`kkk", "`extra`"]),
    "endless kind": (line(kind='"' + "k" * 10**4 + '"'), ["`kkk", "npc"]),
    "another registry": (line(kind='"item"'), ["`kind`", "`item`", "npc", "--registry"]),
    "kind of another type": (line(kind="null"), ["`kind`", "null", "npc"]),
    "used source_id": (line(source_id='"ok"'), ["`source_id`", "line 1"]),
}
BAD_ITEMS: dict[str, tuple[bytes, list[str]]] = {
    "unknown coin": (line(denomination='"doubloon"'), ["`denomination`", "cp, sp, ep, gp, pp"]),
    "denomination of an object": (
        line(denomination='"gp"', item_kind='"object"'),
        ["`denomination`", "`item_kind`"],
    ),
    "unknown item kind": (line(item_kind='"coin"'), ["`item_kind`", "coin", "currency, object"]),
    "endless item kind": (line(item_kind='"' + "k" * 10**4 + '"'), ["kkk", "currency, object"]),
    "another registry": (line(kind='"npc"'), ["`kind`", "`npc`", "item"]),
}


def refused(got: SimpleNamespace, out: Path) -> list[str]:
    """Require that nothing was done; return the lines of the message."""
    assert got.status == 2
    assert got.out == ""
    assert not out.exists()
    assert (got.model.made, got.model.calls) == (0, [])
    assert "Traceback" not in got.err
    lines = got.err.splitlines()
    assert all(line.startswith("error: ") for line in lines)
    return [line.removeprefix("error: ") for line in lines]


@pytest.mark.parametrize(
    ("registry", "case"),
    [*(("npc", case) for case in BAD_LINES), *(("item", case) for case in BAD_ITEMS)],
)
def test_a_bad_line_stops_the_run(
    notarius: Run, candidate_file: Write, out: Path, scripted: Scripted, registry: str, case: str
) -> None:
    """File, line, what is wrong; status 2, no model called, nothing written."""
    bad, mentioned = (BAD_LINES if registry == "npc" else BAD_ITEMS)[case]
    source = candidate_file(GOOD + b"\n" + bad)
    (said,) = refused(notarius(source, out, registry=registry, model=scripted([])), out)
    assert said.startswith(f"{source}, line 3: ")
    assert all(word in said for word in mentioned), said
    assert len(said) < len(str(source)) + 300
    # Words for people who know neither Python nor the decoder.
    assert re.search(r"\$|\bNone\b|\bstr\b|\bdict\b|<class|Error\b|\w+\.\w+Error", said) is None


def test_all_bad_lines_are_told_at_once(
    notarius: Run, candidate_file: Write, out: Path, scripted: Scripted
) -> None:
    """Somebody with three bad lines does not have to run three times."""
    source, model = candidate_file(b"no\n" + GOOD + b"[]\n" + GOOD + line(nme="1")), scripted([])
    said = refused(notarius(source, out, model=model), out)
    assert [re.findall(r"line (\d+): ", text) for text in said] == [["1"], ["3"], ["4"], ["5"]]


def test_a_flood_of_bad_lines_is_counted(
    notarius: Run, candidate_file: Write, out: Path, scripted: Scripted
) -> None:
    """A wholly mistaken file does not fill the terminal; the number of lines is told."""
    source, model = candidate_file(b"no\n" * 5000), scripted([])
    said = refused(notarius(source, out, model=model), out)
    assert 2 <= len(said) <= 12
    told = len(said) - 1
    assert str(5000 - told) in said[-1]


@pytest.mark.parametrize(
    "bad",
    [
        line(**{"\\u001b]0;key\\u0007": "1"}),
        line(**{"\\u009b31m": "1", "\\u202e": "2"}),
        line(kind='"\\u001b]0;kind\\u0007\\u0008"'),
        line(kind='["\\u001b]0;kind\\u0007"]'),
        line(extra='{"\\u001b]0;k\\u0007": 1, "\\u001b]0;k\\u0007": 2}'),
        line(item_kind='"\\u001b]0;value\\u0007"'),
        line(denomination='"\\u001b]0;value\\u0007"'),
        b"\x1b]0;raw\x07",
        line(name='"\x1b]0;raw\x07"'),
    ],
)
def test_control_characters_of_the_input_never_reach_the_terminal(
    notarius: Run, candidate_file: Write, out: Path, scripted: Scripted, bad: bytes
) -> None:
    """A candidate file can't write escape sequences to the terminal by way of a message."""
    source, model = candidate_file(bad), scripted([])
    got = notarius(source, out, registry="item", model=model)
    (said,) = refused(got, out)
    assert f"{source}, line 1: " in said
    # Nor a caller's terminal or log, by way of the error.
    with pytest.raises(InputError) as caught:
        reconcile(Settings(registry="item", candidates=source, out=out))
    for text in (got.err, str(caught.value), *caught.value.problems):
        assert re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text) is None


@pytest.mark.parametrize("kind", ["missing", "folder", "below a file"])
def test_a_file_that_can_not_be_read_is_bad_input(
    notarius: Run, tmp_path: Path, out: Path, scripted: Scripted, kind: str
) -> None:
    """A missing file, a folder or an impossible path is named, and is no traceback."""
    (tmp_path / "file").write_bytes(GOOD)
    places = {"missing": "none.jsonl", "folder": ".", "below a file": "file/none.jsonl"}
    source, model = tmp_path / places[kind], scripted([])
    (said,) = refused(notarius(source, out, model=model), out)
    assert said.startswith(f"{source}: ")


@pytest.mark.parametrize(
    ("content", "count"),
    [
        (b"", 0),
        (b"\n \n\t\r\n", 0),
        (b"\xef\xbb\xbf" + GOOD, 1),
        (b"\xef\xbb\xbf", 0),
        (GOOD.replace(b"\n", b"\r\n") + line() + b"\r\n", 2),
        (b"\n\n" + GOOD + b"\n" + line(), 2),
        (line(name='"a\\u2028b\\u0085"') + b"\n" + GOOD, 2),
        (line(extra='{"v": 123456789012345678901234567890, "": null}'), 1),
    ],
)
def test_harmless_differences_are_accepted(
    notarius: Run, candidate_file: Write, out: Path, content: bytes, count: int
) -> None:
    """An empty file, blank lines, other line ends, a byte-order mark: the file is read."""
    got = notarius(candidate_file(content), out)
    assert got.status == 0
    assert f"{count} candidate" in got.out
    assert (out / "registry.json").read_bytes().count(b'"entry_id"') == count


def test_a_caller_gets_every_problem_as_data(candidate_file: Write, out: Path) -> None:
    """The error of the Python interface carries all problems, also those beyond the shown."""
    source = candidate_file(b"no\n" * 40)
    with pytest.raises(InputError) as caught:
        reconcile(Settings(registry="npc", candidates=source, out=out))
    assert len(caught.value.problems) == 40
