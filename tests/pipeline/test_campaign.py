"""Whole campaigns: what is read, what is asked, what is remembered, and what is written."""

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from notarius.attempts import TerminalPolicy
from notarius.contracts import (
    FinishReason,
    ProviderError,
    ProviderErrorKind,
    Reply,
)
from notarius.pipeline import (
    Config,
    InputError,
    RunSettings,
    check_campaign,
    cli,
    run_campaign,
    verify,
)

LISTS = {
    "npc": ["Orla Venn", "Captain Venn", "Tamsin", "Tamsin Reed"],
    "item": ["gold", "5 gp", "silver", "rope"],
    "location": ["Reedford", "town of Reedford"],
}
SAFE = {"npc": [["c1", "c2"]], "item": [["c1", "c2"]], "location": [["c1", "c2"]]}
FILES = ["manifest.json", "receipt.json", "registry.json", "warnings.json"]
Make = Callable[..., Path]


class Model:
    """A backend for every registry, that answers by registry and attempt, and counts its calls."""

    def __init__(self, answers: dict[str, list[Any]] | None = None) -> None:
        """Answer with safe groups, or with what is given for a registry, one step an attempt."""
        self._answers = answers or {}
        self._lock = threading.Lock()
        self.asked: list[str] = []

    def __call__(self, kind: str, candidates: object, normalizer: object) -> "_Bound":
        """Be the factory."""
        return _Bound(self, kind)

    def answer(self, kind: str, attempt: int) -> Reply:
        """Return the next reply."""
        with self._lock:
            self.asked.append(kind)
        steps = self._answers.get(kind, [SAFE[kind]])
        step = steps[min(attempt, len(steps)) - 1]
        if isinstance(step, BaseException):
            raise step
        return Reply(text=proposal(step), finish_reason=FinishReason.STOP)


class _Bound:
    def __init__(self, model: Model, kind: str) -> None:
        self._model = model
        self._kind = kind
        self._attempt = 0

    def complete(self, call: object, *, cancellation: object) -> Reply:
        self._attempt += 1
        return self._model.answer(self._kind, self._attempt)


def proposal(groups: list[list[str]]) -> str:
    """Return the text of a reply with these groups."""
    written = [{"name": "any", "candidate_ids": g, "canonical_id": g[0]} for g in groups]
    return json.dumps({"duplicate_groups": written})


def lines(kind: str, names: list[str], prefix: str = "s") -> str:
    """Return a candidate file."""
    records = ({"source_id": f"{prefix}-{kind}-{n}", "name": x} for n, x in enumerate(names))
    return "".join(json.dumps(record) + "\n" for record in records)


@pytest.fixture
def campaign(tmp_path: Path) -> Path:
    """A campaign with a file for each registry."""
    folder = tmp_path / "campaign"
    folder.mkdir()
    for kind, names in LISTS.items():
        (folder / f"{kind}.jsonl").write_text(lines(kind, names))
    return folder


def registries(out: Path) -> dict[str, bytes]:
    """Return the bytes of every registry."""
    return {path.parent.name: path.read_bytes() for path in sorted(out.glob("*/registry.json"))}


def receipt(out: Path, kind: str) -> Any:  # noqa: ANN401 - JSON
    """Return the receipt of a registry."""
    return json.loads((out / kind / "receipt.json").read_bytes())


def test_each_registry_gets_its_folder_and_all_can_be_verified(campaign: Path, out: Path) -> None:
    """A run writes one set of files a registry, and a receipt and a manifest over all."""
    summary = run_campaign(RunSettings(campaign=campaign, out=out), backend=Model())
    assert [one.registry for one in summary.registries] == ["npc", "item", "location"]
    assert [one.entries for one in summary.registries] == [3, 3, 1]
    for kind in LISTS:
        assert sorted(path.name for path in (out / kind).iterdir()) == FILES
    assert verify(out).ok
    listed = json.loads((out / "manifest.json").read_bytes())["files"]
    assert "npc/registry.json" in [item["name"] for item in listed]


def test_what_has_not_changed_is_not_asked_again(campaign: Path, out: Path) -> None:
    """A second run takes everything from the checkpoints and writes the same registries."""
    settings = RunSettings(campaign=campaign, out=out)
    run_campaign(settings, backend=Model())
    before = registries(out)
    again = Model()
    summary = run_campaign(settings, backend=again)
    assert (again.asked, summary.remembered, summary.parts) == ([], 3, 3)
    assert registries(out) == before
    assert verify(out).ok
    # Written otherwise, a file says the same.
    path = campaign / "npc.jsonl"
    path.write_text("\n" + path.read_text().replace('": "', '" : "'))
    run_campaign(settings, backend=again)
    assert again.asked == []


@pytest.mark.parametrize("what", ["candidate", "rules", "model"])
def test_what_has_changed_is_asked_again(campaign: Path, out: Path, what: str) -> None:
    """A changed candidate, rule or model is another question; the other registries are known."""
    settings = RunSettings(campaign=campaign, out=out)
    run_campaign(settings, backend=Model())
    changed = ["item"]
    if what == "candidate":
        names = [*LISTS["item"][:-1], "hemp rope"]
        (campaign / "item.jsonl").write_text(lines("item", names))
    elif what == "rules":
        coin = '[[coinage]]\ncode = "dm"\nlabel = "dragonmarks"\n'
        (campaign / "notarius.toml").write_text(coin)
    else:
        (campaign / "notarius.toml").write_text(
            'model = "openai:other"\nbase-url = "http://127.0.0.1:9/v1"\nat-once = 1\n'
        )
        changed = ["npc", "item", "location"]
    again = Model()
    run_campaign(settings, backend=again)
    assert again.asked == changed


def test_a_fallback_is_remembered_as_one(campaign: Path, out: Path) -> None:
    """It is taken again with its warning, asked again on demand, and never under `fail`."""
    wrong = Model({"item": [[["c1", "c3"]]]})
    settings = RunSettings(campaign=campaign, out=out, options=Config(normalize_retries=1))
    first = run_campaign(settings, backend=wrong)
    assert wrong.asked.count("item") == 2
    warned = first.registries[1].warnings
    again = Model()
    second = run_campaign(settings, backend=again)
    assert again.asked == []
    assert second.registries[1].warnings == warned
    assert receipt(out, "item")["parts"][0]["remembered"] is True

    fail = Config(normalize_retries=0, terminal=TerminalPolicy.FAIL)
    failed = run_campaign(
        RunSettings(campaign=campaign, out=out, options=fail),
        backend=Model({"item": [[["c1", "c3"]]]}),
    )
    assert failed.registries[1].failure is not None

    once_more = Model()
    third = run_campaign(
        RunSettings(campaign=campaign, out=out, retry_fallbacks=True), backend=once_more
    )
    assert once_more.asked == ["item"]
    assert third.registries[1].outcome == "accepted"
    # What was accepted stays so.
    assert run_campaign(settings, backend=Model()).registries[1].outcome == "accepted"


def test_a_failure_keeps_what_is_settled(campaign: Path, out: Path) -> None:
    """Without an answer nothing more is asked; a later run asks only for what is missing."""
    settings = RunSettings(campaign=campaign, out=out)
    broken = Model({"item": [ProviderError(ProviderErrorKind.DENIED)]})
    summary = run_campaign(settings, backend=broken)
    assert broken.asked == ["npc", "item"]
    assert [one.outcome for one in summary.registries] == ["accepted", "failed", "cancelled"]
    assert sorted(registries(out)) == ["npc"]
    assert verify(out).ok
    rest = Model()
    run_campaign(settings, backend=rest)
    assert rest.asked == ["item", "location"]
    assert sorted(registries(out)) == ["item", "location", "npc"]


def test_an_interrupted_run_goes_on_where_it_was(campaign: Path, out: Path) -> None:
    """What is settled when the user interrupts is not asked again; the interrupt is not lost."""
    settings = RunSettings(campaign=campaign, out=out)
    stopped = Model({"item": [KeyboardInterrupt()]})
    with pytest.raises(KeyboardInterrupt):
        run_campaign(settings, backend=stopped)
    assert stopped.asked == ["npc", "item"]
    assert receipt(out, "item")["outcome"] == "cancelled"
    rest = Model()
    run_campaign(settings, backend=rest)
    assert rest.asked == ["item", "location"]


def test_a_fault_is_raised_after_all_is_written(campaign: Path, out: Path) -> None:
    """What breaks one registry comes out, and what the others came to is there."""
    broken = Model({"item": [ZeroDivisionError("kanari")]})
    with pytest.raises(ZeroDivisionError):
        run_campaign(RunSettings(campaign=campaign, out=out), backend=broken)
    assert receipt(out, "item")["outcome"] == "failed"
    assert sorted(registries(out)) == ["npc"]


@pytest.mark.parametrize("at_once", [1, 4])
def test_a_long_list_is_asked_about_in_parts(tmp_path: Path, out: Path, at_once: int) -> None:
    """Each part is a request of its own; together they hold every candidate, with one warning."""
    folder = tmp_path / "campaign"
    folder.mkdir()
    names = [f"{name} of the {n}. house" for n in range(40) for name in ("Ada", "Bo")]
    (folder / "npc.jsonl").write_text(lines("npc", names))
    model = Model({"npc": [[["c1", "x"]]]})
    options = Config(context_tokens=8000, at_once=at_once, normalize_retries=1)
    summary = run_campaign(
        RunSettings(campaign=folder, out=out, options=options), backend=model
    ).registries[0]
    paper = receipt(out, "npc")
    parts = len(paper["parts"])
    assert parts > 1
    assert sum(part["candidates"] for part in paper["parts"]) == len(names)
    assert len(model.asked) == len(paper["attempts"]) == 2 * parts
    assert paper["budgets"]["normalize_retries"]["spent"] == parts
    (warning,) = summary.warnings
    assert f"{parts} of the {parts} parts" in warning.message
    assert warning.refused_groups == parts
    held = json.loads((out / "npc" / "registry.json").read_bytes())["entries"]
    assert [entry["source_ids"] for entry in held] == [[f"s-npc-{n}"] for n in range(len(names))]
    assert verify(out).ok


@pytest.mark.parametrize(("model", "usual"), [("openai:any", 4), ("similarity", 1)])
def test_a_server_is_asked_four_things_at_a_time(
    campaign: Path, out: Path, model: str, usual: int
) -> None:
    """Unless another number is said; what runs on this machine gets one after the other."""
    names = [f"{name} of the {n}. house" for n in range(60) for name in ("Ada", "Bo")]
    (campaign / "npc.jsonl").write_text(lines("npc", names))
    lock, all_there = threading.Lock(), threading.Event()
    asking: set[int] = set()
    most = 0

    def complete(call: object, *, cancellation: object) -> Reply:
        nonlocal most
        with lock:
            asking.add(id(call))
            most = max(most, len(asking))
        if most == usual:
            all_there.set()
        assert all_there.wait(30)
        time.sleep(0.02)  # for one too many to come
        with lock:
            asking.remove(id(call))
        return Reply(text=proposal([]), finish_reason=FinishReason.STOP)

    options = Config(model=model, context_tokens=8000)
    settings = RunSettings(campaign=campaign, out=out, options=options)
    summary = run_campaign(settings, backend=lambda *_: SimpleNamespace(complete=complete))
    assert summary.parts > usual
    assert most == usual


def test_threads_and_processes_write_what_one_thread_writes(campaign: Path, tmp_path: Path) -> None:
    """Where exchanges are held changes no byte of a registry."""
    found = []
    for number, settings in enumerate(
        (
            RunSettings(campaign=campaign, out=tmp_path / "0"),
            RunSettings(campaign=campaign, out=tmp_path / "1", options=Config(at_once=3)),
            RunSettings(campaign=campaign, out=tmp_path / "2", executor="processes"),
        )
    ):
        run_campaign(settings)
        found.append(registries(tmp_path / str(number)))
        assert len(found[-1]) == 3
    assert found[0] == found[1] == found[2]


def test_files_of_sessions_are_read_in_order(campaign: Path, out: Path) -> None:
    """A registry's files may lie in folders; numbers in their names count as numbers."""
    (campaign / "npc.jsonl").unlink()
    for number in (10, 9):
        folder = campaign / f"session-{number}"
        folder.mkdir()
        (folder / "npc.jsonl").write_text(lines("npc", ["Zed"], prefix=f"e{number}"))
    (campaign / "npc").mkdir()
    (campaign / "npc" / "first.jsonl").write_text(lines("npc", ["Moll"]))
    run_campaign(RunSettings(campaign=campaign, out=out), backend=Model({"npc": [[]]}))
    entries = json.loads((out / "npc" / "registry.json").read_bytes())["entries"]
    assert [entry["source_ids"] for entry in entries] == [["s-npc-0"], ["e9-npc-0"], ["e10-npc-0"]]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("notarius.toml", "modell = 'x'\n", "line 1: unknown key `modell`; did you mean `model`"),
        (
            "notarius.toml",
            "\nat_once = 2\n",
            "line 2: unknown key `at_once`; did you mean `at-once`",
        ),
        ("notarius.toml", "model = 3\n", "line 1: `model`: expected a text"),
        ("notarius.toml", "repair-retries = -1\n", "line 1: repair-retries must be 0 or more"),
        ("notarius.toml", "terminal = 'panic'\n", "line 1: `terminal`"),
        ("notarius.toml", "= 3\n", "is no TOML"),
        ("notarius.toml", "\xff", "is no TOML"),
        (
            "notarius.toml",
            "[[coinage]]\ncod = 'dm'\n",
            "line 2: unknown key `cod`; did you mean `code`",
        ),
        ("notarius.toml", "[[coinage]]\ncode='x'\nlabel='gold'\n", "names both gp and x"),
        ("npcs.jsonl", "{}", "is for no registry; rename it npc.jsonl"),
        ("npc/more.jsonl", lines("npc", ["Zed"]), "more.jsonl, line 1, already"),
        ("item.jsonl", '{"source_id": "a"}', "item.jsonl, line 1"),
    ],
)
def test_what_is_wrong_is_named_before_anything_is_asked(
    campaign: Path, out: Path, name: str, content: str, said: str
) -> None:
    """A bad file or key is an error with its place and the fix; nothing is asked or written."""
    path = campaign / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(content, encoding="latin-1")
    model = Model()
    with pytest.raises(InputError) as caught:
        run_campaign(RunSettings(campaign=campaign, out=out), backend=model)
    assert said in str(caught.value)
    assert str(path) in str(caught.value)
    assert model.asked == []
    assert not out.exists()
    with pytest.raises(InputError):
        check_campaign(campaign)


def test_options_win_over_the_file(campaign: Path, out: Path) -> None:
    """What the command says stands above what the campaign says; other keys stay."""
    (campaign / "notarius.toml").write_text("normalize-retries = 0\nterminal = 'fail'\n")
    wrong = {"item": [[["c1", "c3"]]]}
    model = Model(wrong)
    summary = run_campaign(
        RunSettings(campaign=campaign, out=out, options=Config(normalize_retries=3)), backend=model
    )
    assert model.asked.count("item") == 4
    assert summary.registries[1].failure is not None


def test_a_check_says_what_would_be_asked(campaign: Path, out: Path) -> None:
    """Files are checked without a model, and what is known already is told."""
    plan = check_campaign(campaign)
    assert [one.candidates for one in plan.registries] == [4, 4, 2]
    assert [one.requests for one in plan.registries] == [1, 1, 1]
    assert sum(one.remembered for one in plan.registries) == 0
    settings = RunSettings(campaign=campaign, out=out)
    run_campaign(settings, backend=Model())
    known = check_campaign(campaign, checkpoints=settings.checkpoint_file)
    assert [one.remembered for one in known.registries] == [1, 1, 1]
    assert all(one.prompt_bytes == one.largest_prompt_bytes > 0 for one in known.registries)


def test_no_text_of_a_model_is_kept_anywhere(campaign: Path, out: Path) -> None:
    """Neither replies nor guidance stand in any file, the checkpoints included."""
    model = Model({"npc": [[["c1", "kanari"]]], "item": [[["c1", "c3"], ["c2", "kanari"]]]})
    run_campaign(RunSettings(campaign=campaign, out=out), backend=model)
    for path in out.rglob("*"):
        if path.is_file():
            data = path.read_bytes().lower()
            assert b"kanari" not in data, path
            assert b"automated check" not in data, path
            assert b"duplicate_groups" not in data.replace(b"unsafe_duplicate_groups", b""), path


@pytest.mark.parametrize("kind", ["text", "json"])
def test_the_commands_work_together(
    campaign: Path, out: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Check, run, verify and diff: each says what it did, and exits with 0."""
    for arguments in (
        ["check", str(campaign)],
        ["run", str(campaign), "--out", str(out)],
        ["run", str(campaign), "--out", str(out.with_name("other")), "--at-once", "2"],
        ["verify", str(out)],
        ["diff", str(out), str(out.with_name("other"))],
    ):
        assert cli.main([*arguments, "--format", kind]) == 0
        said = capsys.readouterr()
        assert said.err == ""
        assert said.out
        if kind == "json":
            json.loads(said.out)


def test_damage_is_found_and_told(
    campaign: Path, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A changed file makes `verify` fail with the file's name."""
    assert cli.main(["run", str(campaign), "--out", str(out), "--quiet"]) == 0
    path = out / "item" / "registry.json"
    path.write_bytes(path.read_bytes().replace(b"silver", b"SILVER"))
    assert cli.main(["verify", str(out)]) == 2
    assert "item/registry.json" in capsys.readouterr().out


def test_an_executor_that_is_none_is_an_error(
    campaign: Path, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A mistyped executor is told with what there is."""
    arguments = ["run", str(campaign), "--out", str(out), "--executor", "dusk://x:1"]
    assert cli.main(arguments) == 2
    assert "use `processes` or" in capsys.readouterr().err
