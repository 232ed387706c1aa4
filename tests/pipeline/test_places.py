import json
import stat
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from notarius.contracts import ProviderError, ProviderErrorKind

Run = Callable[..., SimpleNamespace]
Write = Callable[..., Path]
Scripted = Callable[..., Any]
Groups = Callable[..., str]
Contents = Callable[[Path], dict[str, bytes] | None]
DOWN = ProviderError(ProviderErrorKind.SERVER_ERROR, status=503)
RETRIES = ["--normalize-retries", "0", "--repair-retries", "0", "--transport-retries", "0"]
# How a run can end without a result: script, options, status.
WITHOUT_RESULT: dict[str, tuple[list[Any], list[str], int]] = {
    "exhausted": (["prose"], ["--terminal", "fail"], 3),
    "provider": ([DOWN], [], 4),
    "interrupted": ([KeyboardInterrupt()], [], 130),
}


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_an_impossible_output_folder_is_bad_input(
    notarius: Run, candidate_file: Write, tmp_path: Path, scripted: Scripted, place: str
) -> None:
    """Where no folder can be, the run stops before the model is called, and says what to do."""
    (tmp_path / "file").write_bytes(b"mine")
    out = tmp_path / place
    got = notarius(candidate_file(), out, model=scripted([]))
    assert (got.status, got.out, got.model.made) == (2, "", 0)
    assert got.err.startswith(f"error: {out}: ")
    assert "--out" in got.err
    assert (tmp_path / "file").read_bytes() == b"mine"


def test_the_output_folder_is_made_with_its_parents(
    notarius: Run, candidate_file: Write, tmp_path: Path, contents: Contents
) -> None:
    """A missing folder is made; what else stands in an existing one is left alone."""
    out = tmp_path / "a" / "b"
    assert notarius(candidate_file(), out).status == 0
    (out / "notes.txt").write_bytes(b"mine")
    assert notarius(candidate_file(), out).status == 0
    found = contents(out)
    assert found is not None
    assert len(found) == 5
    assert found["notes.txt"] == b"mine"


@pytest.mark.parametrize("how", WITHOUT_RESULT)
def test_an_earlier_result_stays_whole(
    notarius: Run,
    candidate_file: Write,
    out: Path,
    scripted: Scripted,
    contents: Contents,
    how: str,
) -> None:
    """A later run without result changes no file of an earlier one; its receipt stands apart."""
    steps, options, status = WITHOUT_RESULT[how]
    notarius(candidate_file(), out)
    before = contents(out)
    got = notarius(candidate_file(), out, *RETRIES, *options, model=scripted(steps))
    assert got.status == status
    after = contents(out)
    assert after is not None
    failed = json.loads(after.pop("failed-receipt.json"))
    assert after == before
    assert failed["schema"] == "notarius.receipt.v1"
    assert failed["outcome"] == ("cancelled" if how == "interrupted" else "failed")


@pytest.mark.parametrize("how", WITHOUT_RESULT)
def test_a_success_clears_what_a_failure_left(
    notarius: Run,
    candidate_file: Write,
    out: Path,
    scripted: Scripted,
    contents: Contents,
    how: str,
) -> None:
    """After a success there is one receipt, and it is that of the success."""
    steps, options, _ = WITHOUT_RESULT[how]
    for earlier in (False, True):
        if earlier:
            assert notarius(candidate_file(), out).status == 0
        notarius(candidate_file(), out, *RETRIES, *options, model=scripted(steps))
        assert notarius(candidate_file(), out).status == 0
        found = contents(out)
        assert found is not None
        assert sorted(found) == ["manifest.json", "receipt.json", "registry.json", "warnings.json"]
        assert json.loads(found["receipt.json"])["outcome"] == "accepted"


def test_bad_input_changes_no_earlier_result(
    notarius: Run, candidate_file: Write, out: Path, contents: Contents
) -> None:
    """A bad line leaves the output folder exactly as it was."""
    notarius(candidate_file(), out)
    before, touched = contents(out), out.stat().st_mtime_ns
    assert notarius(candidate_file(b"no\n"), out).status == 2
    assert contents(out) == before
    assert out.stat().st_mtime_ns == touched


def test_the_debug_folder_holds_the_exact_exchange(
    notarius: Run,
    candidate_file: Write,
    out: Path,
    tmp_path: Path,
    scripted: Scripted,
    groups: Groups,
) -> None:
    """Each call and raw reply is kept byte for byte, for the owner alone."""
    folder = tmp_path / "private" / "debug"
    replies = ["\r\n prose \ud800 \u2028", f" {groups(['c3', 'c4'])}\r\n", groups()]
    model = scripted(replies)
    options = ["--repair-retries", "1", "--debug-exchange", str(folder)]
    assert notarius(candidate_file(), out, *options, model=model).status == 0
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    files = sorted(folder.iterdir())
    assert len(files) == 2 * len(replies)
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    for number, (request, response) in enumerate(zip(files[::2], files[1::2], strict=True), 1):
        sent = json.loads(request.read_bytes())["messages"]
        assert [(message["role"], message["content"]) for message in sent] == model.messages(number)
        assert response.read_bytes() == replies[number - 1].encode("utf-8", "surrogatepass")


def test_a_second_run_adds_to_the_debug_folder(
    notarius: Run, candidate_file: Write, out: Path, tmp_path: Path, contents: Contents
) -> None:
    """Earlier exchanges are never written over, also where some were taken away."""
    folder = tmp_path / "debug"
    for _ in range(2):
        assert notarius(candidate_file(), out, "--debug-exchange", str(folder)).status == 0
    for path in folder.glob("*1.*"):
        path.unlink()
    before = contents(folder)
    assert before is not None
    assert len(before) == 2
    assert notarius(candidate_file(), out, "--debug-exchange", str(folder)).status == 0
    after = contents(folder)
    assert after is not None
    assert len(after) == 4
    assert before.items() <= after.items()


@pytest.mark.parametrize("mode", [0o755, 0o710, 0o701, 0o770])
def test_a_debug_folder_open_to_others_is_refused(
    notarius: Run, candidate_file: Write, out: Path, tmp_path: Path, scripted: Scripted, mode: int
) -> None:
    """Raw model texts go to no folder that others may look into: nothing is done."""
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(mode)
    options = ["--debug-exchange", str(folder)]
    got = notarius(candidate_file(), out, *options, model=scripted([]))
    assert (got.status, got.out, got.model.calls) == (2, "", [])
    assert str(folder) in got.err
    assert list(folder.iterdir()) == []
    assert not out.exists()


def test_paths_that_are_no_unicode_can_be_used(
    notarius: Run, candidate_file: Write, tmp_path: Path, out: Path
) -> None:
    """On systems where a path is any bytes, such a path is read, written and told of."""
    name = b"caf\xe9".decode(errors="surrogateescape")
    try:
        (tmp_path / name).mkdir()
    except OSError:
        pytest.skip("this file system takes Unicode names only")
    out = tmp_path / name / "out"
    got = notarius(candidate_file(name=f"{name}.jsonl"), out, "--format", "json")
    assert got.status == 0
    assert len(json.loads(got.out)["files"]) == len(list(out.iterdir())) == 4
