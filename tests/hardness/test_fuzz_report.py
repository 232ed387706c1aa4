"""`notarius report` over folders of anything: a whole page, or words for a person and no page."""

import contextlib
import io
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from notarius.contracts import FinishReason, Reply
from notarius.pipeline import Config, RunSettings, cli, run_campaign
from notarius.pipeline._page import MARK

Damaged: TypeAlias = Callable[[bytes], SearchStrategy[bytes]]
Obeyed: TypeAlias = Callable[[str], list[str]]
Fed: TypeAlias = Callable[[str, bytes], None]
HARD = settings.get_profile("hardness")
NAMES = {"npc": ["Orla Venn", "Captain Venn", "Tamsin"], "item": ["gold", "5 gp", "silver"]}
WRONG = '{"duplicate_groups": [{"candidate_ids": ["c1", "c2"], "canonical_id": "c1"}, {"candidate_ids": ["c1", "x"], "canonical_id": "c1"}]}'  # noqa: E501 - one reply
# What `json` can't write: it stands for these texts.
STANDS_FOR = {
    b'"@deep"': b"[" * 2_000 + b"]" * 2_000,
    b'"@deeper"': b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    b'"@digits"': b"9" * 5_000,
    b'"@small"': b"-1e-99999",
    b'"@large"': b"1e99999",
    b'"@repeated"': b'{"a":1,"a":2}',
}
NUMBERS = [0, 1, -1, 2**31, 2**53, 2**53 + 1, 2**63, 2**64, 10**30, 10**400, 0.5, 1e308]
# Every class of Unicode, halves of pairs too.
TEXTS = st.text(st.characters(exclude_categories=()), max_size=8)
LEAVES = (
    st.none()
    | st.booleans()
    | st.sampled_from(NUMBERS)
    | st.sampled_from([name.strip(b'"').decode() for name in STANDS_FOR])
    | TEXTS
    | st.sampled_from(["", "npc", "accepted", "fell_back", "failed", "notarius.receipt.v1", "../x"])
)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3)
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:  # noqa: ANN401 - JSON
    """Return the path to every value of a document."""
    yield path
    if isinstance(value, dict | list):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(each, (*path, key))


def with_another(document: bytes) -> SearchStrategy[bytes]:
    """Return copies of a JSON document with another value in one to three places."""
    whole = json.loads(document)

    def apply(changes: list[tuple[tuple[Any, ...], Any]]) -> bytes:
        changed = {"": json.loads(document)}
        for path, value in changes:
            *parents, last = ("", *path)
            at: Any = changed
            with contextlib.suppress(LookupError, TypeError):  # it is gone with an earlier change
                for key in parents:
                    at = at[key]
                at[last] = value
        data = json.dumps(changed[""]).encode()
        for name, text in STANDS_FOR.items():
            data = data.replace(name, text)
        return data

    change = st.tuples(st.sampled_from([*places(whole)]), VALUES)
    return st.lists(change, min_size=1, max_size=3).map(apply)


class _Model:
    """Merges two and is refused for the rest, each time."""

    def __init__(self, *_: object) -> None:
        pass

    def complete(self, call: object, *, cancellation: object) -> Reply:
        return Reply(text=WRONG, finish_reason=FinishReason.STOP)


@pytest.fixture(scope="module", autouse=True)
def _no_waiting_for_the_disk() -> Iterator[None]:
    """Nothing is cut off here, and forcing each page to the disk would take most of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _descriptor: None)
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for a campaign, its results with warnings and refused groups, and a spoilt copy."""
    made = tmp_path_factory.mktemp("reports")
    (made / "campaign").mkdir()
    for kind, names in NAMES.items():
        records = [{"source_id": f"{kind}-{n}", "name": name} for n, name in enumerate(names)]
        (made / "campaign" / f"{kind}.jsonl").write_text("\n".join(map(json.dumps, records)))
    run_campaign(
        RunSettings(
            campaign=made / "campaign",
            out=made / "results",
            options=Config(normalize_retries=1),
            checkpoints=made / "checkpoints",
        ),
        backend=_Model,
    )
    shutil.copy(made / "results/npc/receipt.json", made / "results/npc/failed-receipt.json")
    return made


def files(out: Path) -> dict[str, bytes]:
    """Return the content of every file, and that of no folder."""
    return {
        path.relative_to(out).as_posix(): path.read_bytes() if path.is_file() else b"a folder"
        for path in sorted(out.rglob("*"))
    }


def require_page_or_words(folder: Path, obeyed: Obeyed, *options: str) -> int:
    """Report on the copy: a whole page comes out, or an error in words, and nothing else."""
    copy = folder / "copy"
    before = files(copy)
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = cli.main(["report", str(copy), *options])
    after = files(copy)
    page = after.pop("report.html", None)
    assert after == before
    told = err.getvalue().splitlines()
    assert [line for line in told if obeyed(line) or len(line) > len(str(folder)) + 500] == []
    if status == 0:
        assert out.getvalue() == f"written: {copy / 'report.html'}\n"
        assert page is not None
        assert page.startswith(MARK)
        assert page.endswith(b"</html>\n")
        assert obeyed(page.decode()) == []
    else:
        assert status == 2
        assert page is None
        assert told
        assert [line for line in told if not line.startswith(f"error: {folder}/")] == []
    return status


def damage(
    data: st.DataObject, damaged: Damaged, whole: dict[str, bytes], name: str
) -> bytes | None:
    """Draw what a file is to hold; `None` for no file."""
    way = data.draw(st.sampled_from(["value", "value", "bytes", "random", "swap", "none"]))
    match way:
        case "value":
            return data.draw(with_another(whole[name]))
        case "bytes":
            return data.draw(damaged(whole[name]))
        case "random":
            return data.draw(st.binary(max_size=200))
        case "swap":
            return whole[data.draw(st.sampled_from(sorted(whole)))]
        case _:
            return None


@HARD
@given(data=st.data(), with_candidates=st.booleans())
def test_a_report_on_anything_is_a_page_or_words(
    damaged: Damaged,
    obeyed: Obeyed,
    fed: Fed,
    folder: Path,
    data: st.DataObject,
    with_candidates: bool,
) -> None:
    """Whatever stands in a folder of results, it ends as declared, without half of a page."""
    results, copy = folder / "results", folder / "copy"
    whole = files(results)
    whole = {name: content for name, content in whole.items() if name.endswith(".json")}
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(results, copy)
    for name in data.draw(st.lists(st.sampled_from(sorted(whole)), min_size=1, max_size=3)):
        content = damage(data, damaged, whole, name)
        if content is None:
            (copy / name).unlink(missing_ok=True)
        else:
            fed("report", content)
            (copy / name).write_bytes(content)
    options = ("--candidates", str(folder / "campaign")) if with_candidates else ()
    require_page_or_words(folder, obeyed, *options)


def test_these_results_have_all_that_a_page_shows(obeyed: Obeyed, folder: Path) -> None:
    """So that each kind of thing is damaged: merged, refused, warned of, and failed later."""
    copy = folder / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder / "results", copy)
    assert require_page_or_words(folder, obeyed, "--candidates", str(folder / "campaign")) == 0
    receipt = json.loads((copy / "npc/receipt.json").read_bytes())
    assert receipt["attempts"][0]["refused"]
    assert json.loads((copy / "npc/warnings.json").read_bytes())["warnings"]
