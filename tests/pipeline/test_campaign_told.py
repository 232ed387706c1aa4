"""What a run of a campaign says of itself: what was asked, who was asked, and how it ended."""

import json
import os
import re
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from notarius.contracts import FinishReason, ProviderError, ProviderErrorKind, Reply
from notarius.pipeline import Config, RunSettings, check_campaign, cli, run_campaign

LISTS = {
    "npc": ["Orla Venn", "Captain Venn", "Tamsin"],
    "item": ["gold", "silver", "rope"],
    "location": ["Reedford", "town of Reedford"],
}
NONE = '{"duplicate_groups": []}'
UNSAFE = '{"duplicate_groups": [{"candidate_ids": ["c1", "c99"], "canonical_id": "c1"}]}'
DOWN = ProviderError(ProviderErrorKind.DENIED)
Command = Callable[..., tuple[int, str, str]]


class Model:
    """Answers for every list with one text, or what is given for its registry, and counts."""

    def __init__(self, **answers: object) -> None:
        """Take a text or an error for registries."""
        self._answers = answers
        self.asked: list[str] = []

    def __call__(self, kind: str, candidates: object, normalizer: object) -> Any:  # noqa: ANN401 - a backend
        """Be the factory."""
        return _Bound(self, kind)

    def answer(self, kind: str) -> Reply:
        """Return the reply about a list."""
        self.asked.append(kind)
        answer = self._answers.get(kind, NONE)
        if isinstance(answer, BaseException):
            raise answer
        return Reply(text=str(answer), finish_reason=FinishReason.STOP)


class _Bound:
    def __init__(self, model: Model, kind: str) -> None:
        self._model = model
        self._kind = kind

    def complete(self, call: object, *, cancellation: object) -> Reply:
        return self._model.answer(self._kind)


def write(folder: Path, lists: dict[str, Sequence[str]]) -> Path:
    """Write a campaign."""
    folder.mkdir(exist_ok=True)
    for kind, names in lists.items():
        records = ({"source_id": f"{kind}-{n}", "name": name} for n, name in enumerate(names))
        (folder / f"{kind}.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in records))
    return folder


@pytest.fixture
def campaign(tmp_path: Path) -> Path:
    """A campaign with a list for each registry."""
    return write(tmp_path / "campaign", dict(LISTS))


@pytest.fixture
def run(
    campaign: Path, out: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """Run `notarius run` over a model; return its status and what it said."""

    def command(model: Model, *options: str) -> tuple[int, str, str]:
        def over_the_model(settings: RunSettings, **named: Any) -> object:  # noqa: ANN401 - as given
            return run_campaign(settings, **named, backend=model)

        monkeypatch.setattr(cli, "run_campaign", over_the_model)
        status = cli.main(["run", str(campaign), "--out", str(out), *options])
        said = capsys.readouterr()
        return status, said.out, said.err

    return command


# ------------------------------------------------------------------------ how it ended


def test_no_answer_is_the_status_whatever_was_not_begun_for_it(run: Command) -> None:
    """What another registry's failure left undone is told, and is no interruption."""
    model = Model(item=DOWN)
    status, out, err = run(model)
    assert status == 4
    assert model.asked == ["npc", "item"]
    failed, left = err.splitlines()
    assert failed.startswith("error: item: ")
    assert left.startswith("error: location: Not begun, since another registry failed; ")
    assert "2 requests made now, 0 known" in out
    assert run(Model())[0] == 0


def test_an_exhausted_registry_is_the_status_beside_others_that_are_done(run: Command) -> None:
    """One list whose retries are spent under `fail` is told, and keeps no other back."""
    options = ("--terminal", "fail", "--normalize-retries", "0")
    status, out, _ = run(Model(npc=UNSAFE), *options)
    assert (status, "3 requests made now" in out) == (3, True)
    status, _, _ = run(Model(npc=UNSAFE, location=DOWN), *options, "--retry-fallbacks")
    assert status == 3  # what is known of the location is taken


class _WaitsForAFailure(Model):
    """Fails about items as soon as it is asked about a location, which it answers after that."""

    def __init__(self) -> None:
        super().__init__(item=DOWN)
        self._begun = threading.Event()
        self._failing = threading.Event()

    def answer(self, kind: str) -> Reply:
        if kind == "location":
            self._begun.set()
            self._failing.wait(10)
            time.sleep(0.05)
        elif kind == "item":
            self._begun.wait(10)
            self._failing.set()
        return super().answer(kind)


def test_a_list_in_parts_is_told_as_not_finished(run: Command, campaign: Path) -> None:
    """Where some parts were asked about before another registry failed, it was begun."""
    names = [f"{name} of the {n}. house" for n in range(80) for name in ("Ada", "Bo")]
    write(campaign, {"location": names})
    model = _WaitsForAFailure()
    status, out, err = run(model, "--context-tokens", "5000", "--at-once", "2")
    assert status == 4
    assert f"{len(model.asked)} requests made now" in out
    assert "error: location: Not finished, since another registry failed; " in err


# ----------------------------------------------------------------------- what is asked


def test_nothing_is_asked_about_a_single_candidate(
    campaign: Path, run: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    """`check` and `run` count alike: a list of one or none is no request."""
    write(campaign, {"npc": ["Orla"], "item": [], "location": LISTS["location"]})
    assert [one.requests for one in check_campaign(campaign).registries] == [0, 0, 1]
    model = Model()
    status, out, _ = run(model, "--format", "json")
    assert (status, model.asked) == (0, ["location"])
    found = json.loads(out)
    assert (found["asked"], found["remembered"], found["parts"]) == (1, 0, 3)
    assert "0 requests made now, 1 known from" in run(model)[1]
    (campaign / "location.jsonl").unlink()
    assert "0 requests made now, 0 known from" in run(model)[1]
    capsys.readouterr()


def test_a_check_knows_no_results_of_a_file_that_is_not_there(
    campaign: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A mistyped checkpoint file is an error, and is not made."""
    typo = tmp_path / "chekpoints.sqlite"
    assert cli.main(["check", str(campaign), "--checkpoints", str(typo)]) == 2
    assert capsys.readouterr().err == (
        f"error: {typo}: is not there; name the file of an earlier run\n"
    )
    assert not typo.exists()


@pytest.mark.parametrize(
    ("options", "known"), [([], 3), (["--terminal", "fail"], 2), (["--retry-fallbacks"], 2)]
)
def test_a_check_says_what_the_run_with_the_same_options_asks(
    campaign: Path,
    out: Path,
    run: Command,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    known: int,
) -> None:
    """A fallback is known, but not where it will not do."""
    run(Model(npc=UNSAFE))
    file = str(out / "checkpoints.sqlite")
    assert cli.main(["check", str(campaign), "--checkpoints", file, *options]) == 0
    said = capsys.readouterr().out
    assert said.count("of them known") == known
    assert f"{3 - known} requests made now" in run(Model(), *options)[1].replace(
        "1 request ", "1 requests "
    )


# ------------------------------------------------------------------------ who is asked


def test_a_result_is_that_of_one_address(
    campaign: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No address is the hosted one, whatever the environment says; another is another model."""

    def asked(base_url: str | None) -> int:
        options = Config(model="openai:m", base_url=base_url, at_once=1)
        settings = RunSettings(campaign=campaign, out=out, options=options)
        return run_campaign(settings, backend=Model()).asked

    assert asked(None) == 3
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    assert asked(None) == 0
    assert asked("https://api.openai.com/v1") == 0
    assert asked("http://127.0.0.1:9/v1") == 3


# ------------------------------------------------------------------------- warnings


@pytest.mark.parametrize(
    ("answer", "refused"), [("no JSON", False), (UNSAFE, True)], ids=["unreadable", "unsafe"]
)
def test_the_warning_of_several_parts_says_what_it_was(
    campaign: Path, out: Path, answer: str, refused: bool
) -> None:
    """Where no reply could be read, nothing is said of groups that were not safe."""
    names = [f"{name} of the {n}. house" for n in range(40) for name in ("Ada", "Bo")]
    write(campaign, {"npc": names})
    summary = run_campaign(
        RunSettings(
            campaign=campaign, out=out, options=Config(context_tokens=9000, normalize_retries=0)
        ),
        backend=Model(npc=answer),
    )
    (warning,) = summary.registries[0].warnings
    said, _, why = warning.message.partition(" Part 1: ")
    assert re.match(r"(\d+) of the \1 parts of the list fell back; ", said)
    assert "safe" not in said
    assert ("not exactly one JSON object" in why) is not refused
    assert (warning.refused_groups > 0) is refused


# ---------------------------------------------------------------- exchanges on paper


def test_exchanges_at_once_are_written_in_pairs(campaign: Path, out: Path, tmp_path: Path) -> None:
    """Each reply has the number of its own request, however many are held at a time."""
    texts = {kind: NONE + " " * (index + 1) for index, kind in enumerate(LISTS)}
    folder = tmp_path / "exchanges"
    for number in range(8):
        run_campaign(
            RunSettings(
                campaign=campaign,
                out=out,
                checkpoints=tmp_path / f"{number}.sqlite",
                options=Config(at_once=3),
                debug_exchange=folder,
            ),
            backend=Model(**texts),
        )
    requests = sorted(folder.glob("*.request.json"))
    assert [path.name for path in requests] == [
        f"call-{n:04}.request.json" for n in range(1, 8 * 3 + 1)
    ]
    for path in requests:
        content = json.loads(path.read_bytes())["messages"][1]["content"]
        (kind,) = (kind for kind, names in LISTS.items() if names[0] in content)
        reply = path.with_name(path.name.replace("request.json", "response.txt"))
        assert reply.read_text() == texts[kind]
    assert len(list(folder.iterdir())) == 2 * len(requests)


def test_a_number_that_another_takes_meanwhile_is_left_to_it(
    campaign: Path, out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between a look for a free number and its use somebody else may have taken it."""
    open_file = os.open
    taken: list[Path] = []

    def late(path: Any, flags: int, *more: Any, **named: Any) -> int:  # noqa: ANN401 - as given
        if str(path).endswith("call-0001.request.json") and not taken:
            taken.append(Path(path))
            taken[0].write_bytes(b"another's")
        return open_file(path, flags, *more, **named)

    monkeypatch.setattr(os, "open", late)
    folder = tmp_path / "exchanges"
    settings = RunSettings(campaign=campaign, out=out, debug_exchange=folder)
    summary = run_campaign(settings, backend=Model())
    assert [one.outcome for one in summary.registries] == ["accepted"] * 3
    assert taken[0].read_bytes() == b"another's"
    assert sorted(path.name for path in folder.iterdir())[1:] == [
        f"call-{n:04}.{what}" for n in (2, 3, 4) for what in ("request.json", "response.txt")
    ]
