"""Every private text is marked, and then every place is searched: it is only where it may be."""

import concurrent.futures
import json
import logging
import os
import pickle
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias

import pytest

from notarius.attempts import AttemptPolicy, CancelToken
from notarius.contracts import AttemptRecord, FinishReason, Reply, Usage
from notarius.pipeline import InputError, RunSettings, Settings, reconcile, run_campaign
from notarius.pipeline._exchange import Exchange, Held
from notarius.pipeline._holders import ExecutorHolder
from notarius.pipeline._models import ModelChoice, identify
from notarius.pipeline._settle import Part, Recall, Settled, settle
from notarius.registries import NpcCandidate, RegistryNormalizer

Run: TypeAlias = Callable[..., SimpleNamespace]
KEY = "sk-QUETZALCOATLUS-0123"
CANARY = "AXOLOTLIANUM"
FIELDS = ("SOURCEMARK", "NAMEMARK", "ALIASMARK", "DESCRIPTIONMARK", "EVIDENCEMARK", "EXTRAMARK")
REFUSED = json.dumps(
    {
        "duplicate_groups": [
            {"name": CANARY, "candidate_ids": ["c1", CANARY], "canonical_id": CANARY},
        ],
        CANARY: CANARY,
    }
)


class Model:
    """Answers with the steps of a script, the last of them for ever; its own factory."""

    def __init__(self, *steps: str | BaseException) -> None:
        """Take the script."""
        self._steps = [*steps]
        self.sent: list[tuple[Any, ...]] = []

    def __call__(self, *_: object) -> "Model":
        """Return itself."""
        return self

    def complete(self, call: Any, *, cancellation: object) -> Reply:  # noqa: ANN401 - a call
        """Play the next step."""
        self.sent.append(call.messages)
        step = self._steps.pop(0) if len(self._steps) > 1 else self._steps[0]
        if isinstance(step, BaseException):
            raise step
        return Reply(text=step, finish_reason=FinishReason.STOP, usage=Usage(input_tokens=1))


@pytest.fixture
def campaign(tmp_path: Path) -> Path:
    """A campaign of one registry whose candidates are marked in each of their texts."""
    folder = tmp_path / "campaign"
    folder.mkdir()
    source, name, alias, description, evidence, extra = FIELDS
    records = [
        {
            "source_id": f"{source}-{number}",
            "name": f"{name} {who}",
            "aliases": [f"{alias} {who}"],
            "description": f"{description} {who}",
            "evidence": [f"{evidence} {who}"],
            "extra": {extra: [extra]},
        }
        for number, who in enumerate(["Ada", "Bo", "Cy"])
    ]
    (folder / "npc.jsonl").write_text("\n".join(map(json.dumps, records)))
    return folder


def files_below(folder: Path) -> dict[str, bytes]:
    """Return the bytes of every file below a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def everything_behind(error: BaseException | None) -> Iterator[str]:
    """Yield what can be seen of an error and of all errors behind it, suppressed or not."""
    while error is not None:
        yield "".join(traceback.format_exception(error))
        yield repr((error, error.args, vars(error)))
        for name in ("object", "doc"):
            yield repr(getattr(error, name, None))
        if error.__cause__ is not error.__context__:
            yield from everything_behind(error.__cause__)
        error = error.__context__


def test_each_text_of_a_candidate_is_where_it_may_be(
    campaign: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Names are in prompts, results and samples; evidence and extras in results alone."""
    caplog.set_level(logging.DEBUG, "notarius")
    out, model = tmp_path / "out", Model(REFUSED)
    summary = run_campaign(RunSettings(campaign=campaign, out=out), backend=model)
    assert summary.registries[0].outcome == "fell_back"
    prompt, *_ = model.sent
    corrections = [message.content for sent in model.sent for message in sent[len(prompt) :]]
    assert any("Group 1" in text for text in corrections)
    files = files_below(out)
    checkpoints = b"".join(data for name, data in files.items() if "checkpoints" in name)
    places = {
        "prompt": "".join(message.content for message in prompt),
        "corrections": "".join(corrections),
        "log": caplog.text,
        "summary": repr(summary),
        "calls": repr(model.sent),
        "checkpoints": checkpoints.decode(errors="replace"),
        **{name: data.decode() for name, data in files.items() if name.endswith(".json")},
    }
    assert {"npc/registry.json", "npc/warnings.json", "npc/receipt.json", "receipt.json"} < set(
        places
    )
    found = {mark: {place for place, text in places.items() if mark in text} for mark in FIELDS}
    kept = {"npc/registry.json", "checkpoints"}
    assert found == {
        "SOURCEMARK": kept | {"npc/receipt.json"},
        "NAMEMARK": kept | {"prompt", "npc/warnings.json", "summary"},
        "ALIASMARK": kept | {"prompt"},
        "DESCRIPTIONMARK": kept | {"prompt"},
        "EVIDENCEMARK": kept,
        "EXTRAMARK": kept,
    }
    # The model's own text goes back to it, and nowhere else.
    assert {place for place, text in places.items() if CANARY in text} == {"corrections"}


def test_what_can_be_sent_or_stored_of_an_exchange_holds_no_text_of_a_model(
    campaign: Path, tmp_path: Path
) -> None:
    """Records, warnings and summaries have none to show, in a pickle neither."""
    records: list[AttemptRecord] = []
    summary = reconcile(
        Settings(registry="npc", candidates=campaign / "npc.jsonl", out=tmp_path / "out"),
        backend=Model(f"{CANARY} is no JSON", REFUSED),
        hooks=[records.append],
    )
    assert len(records) == 3
    for value in (summary, records, summary.warnings):
        assert CANARY.encode() not in pickle.dumps(value)
        assert CANARY not in f"{value}{value!r}"


class MarkedError(Exception):
    """An error whose text is private."""


def marked() -> MarkedError:
    """Return an error with marked errors behind it."""
    try:
        try:
            raise MarkedError(CANARY)
        except MarkedError as error:
            raise ValueError(CANARY) from error
    except ValueError as error:
        made = MarkedError(CANARY, {"prompt": CANARY})
        made.__context__ = error
        return made


@pytest.mark.parametrize("culprit", ["backend", "hook", "starting", "normalizer", "factory"])
def test_what_a_part_raises_is_written_and_logged_nowhere(
    campaign: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    culprit: str,
) -> None:
    """The text of a foreign error comes out with the error, if at all, and is in no file or log."""
    caplog.set_level(logging.DEBUG)

    def broken(*_: object, **__: object) -> None:
        raise marked()

    named: dict[str, Any] = {"backend": Model(REFUSED)}
    if culprit in {"backend", "factory"}:
        named["backend"] = Model(marked()) if culprit == "backend" else broken
    elif culprit == "normalizer":
        # It judges probes of its own for its fingerprint, which is no attempt.
        monkeypatch.setattr(
            "notarius.pipeline._exchange.registry_fingerprint", lambda _: "sha256:0"
        )
        monkeypatch.setattr(RegistryNormalizer, "normalize", broken)
    else:
        named |= {"hooks": [broken]} if culprit == "hook" else {"starting": broken}
    out = tmp_path / "out"
    settings = Settings(registry="npc", candidates=campaign / "npc.jsonl", out=out)
    if culprit == "hook":
        assert reconcile(settings, **named).outcome == "fell_back"
        assert "MarkedError" in caplog.text
    else:
        with pytest.raises(MarkedError):
            reconcile(settings, **named)
    seen = [*files_below(out).values(), caplog.text.encode(), repr(caplog.records).encode()]
    # An error inside a record would be shown by any other handler.
    seen += [repr(record.exc_info).encode() for record in caplog.records]
    assert [data for data in seen if CANARY.encode() in data] == []


class Losing(concurrent.futures.Executor):
    """Loses every worker, with an error that says too much."""

    def submit(self, *_: Any, **__: Any) -> "concurrent.futures.Future[Any]":  # noqa: ANN401 - as the base says
        """Return a future that has failed."""
        future: concurrent.futures.Future[Held] = concurrent.futures.Future()
        future.set_exception(marked())
        return future


def lost_part() -> Settled:
    """Settle one part whose worker is lost."""
    people = [NpcCandidate(source_id=f"s{n}", name=f"{n}") for n in range(2)]
    exchange = Exchange(registry="npc", candidates=tuple(people))
    part = Part(number=1, exchange=exchange, normalizer=exchange.normalizer(), key="0" * 64)
    holder = ExecutorHolder(Losing(), ModelChoice(), 1)
    (settled,) = settle([part], holder, recall=Recall(), token=CancelToken())
    return settled


def test_a_worker_that_is_lost_leaves_its_type_alone() -> None:
    """What an executor raises is told by type: the rest could hold anything."""
    settled = lost_part()
    assert settled.error is None
    assert "MarkedError" in repr(settled.outcome)
    assert CANARY not in repr(settled)
    assert CANARY.encode() not in pickle.dumps(settled.outcome)


# Takes the place of the command: all is the same, and the traceback shows everything there is.
SHOWING = """
import sys, traceback
def show(kind, error, trace):
    seen = traceback.TracebackException(kind, error, trace, capture_locals=True)
    ours = [f for f in seen.stack if "/notarius/" in f.filename.rpartition("site-packages")[2]]
    for frame in ours:
        print(frame.name, frame.locals, file=sys.stderr)
    print("frames shown:", len(ours) > 5, file=sys.stderr)
sys.excepthook = show  # before the command's own, which leaves it in place
from notarius.llmruntime import StructuredProducer
from notarius.pipeline.cli import main
def broken(*_, **__):
    raise ZeroDivisionError
if "--break" in sys.argv:
    sys.argv.remove("--break")
    StructuredProducer.produce = broken
sys.exit(main())
"""


def command_lines() -> list[bytes]:
    """Return the command lines of all processes of this machine that can be looked at."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            found.append((process / "cmdline").read_bytes())
        except OSError:
            continue
    return found


@pytest.mark.allow_hosts(["127.0.0.1"])
@pytest.mark.parametrize("options", [[], ["--executor", "processes"], ["--break"]])
def test_a_key_is_in_one_header_alone(
    command: Run,
    serve: Callable[..., SimpleNamespace],
    chat: Callable[..., bytes],
    campaign: Path,
    tmp_path: Path,
    options: list[str],
) -> None:
    """Not in a command line, a file, a log, a body or a traceback with its local variables."""
    lines: list[bytes] = []

    def answer(_head: str, _body: bytes) -> bytes:
        lines.extend(command_lines())
        return chat(REFUSED)

    server = serve(answer)
    got = command(
        *("run", campaign, "--out", tmp_path / "out", "--model", "openai:tiny", "--at-once", "1"),
        *("--base-url", f"http://{server.host}/v1", "--api-key-env", "MY_KEY", *options),
        program=SHOWING,
        variables={"MY_KEY": KEY, "TMPDIR": str(tmp_path), "HOME": str(tmp_path)},
    )
    broken = options == ["--break"]
    assert got.status == (1 if broken else 0), got.err
    assert broken == ("frames shown: True" in got.err)
    assert KEY not in got.out + got.err
    assert [name for name, data in files_below(tmp_path).items() if KEY.encode() in data] == []
    assert len(server.asked) == (0 if broken else 3)
    for head, body in server.asked:
        assert head.count(KEY) == 1
        assert f"uthorization: Bearer {KEY}\r\n" in head
        assert KEY.encode() not in body
    if server.asked and sys.platform == "linux":
        assert any(b"notarius.pipeline.cli" in line for line in lines)
    assert [line for line in lines if KEY.encode() in line] == []


@pytest.mark.parametrize("place", ["option", "file"])
def test_a_key_in_the_place_of_its_variable_is_not_repeated(
    command: Run, campaign: Path, place: str
) -> None:
    """Who writes the key where its variable's name belongs is told so, without the key."""
    options = ["--model", "openai:tiny"]
    if place == "option":
        options += ["--api-key-env", KEY]
    else:
        (campaign / "notarius.toml").write_text(f'api-key-env = "{KEY}"')
    got = command("check", campaign, *options, "--format", "json")
    assert got.status == 2
    assert "api-key-env" in got.err
    assert KEY not in got.out + got.err


@pytest.mark.parametrize(
    "choice",
    [
        {"name": "openai:tiny", "base_url": f"ftp://me:{KEY}@127.0.0.1/"},
        {"name": "openai:tiny", "base_url": f"http://me:{KEY}@127.0.0.1:x/"},
        {"name": "openai:tiny", "base_url": f"http://[::1:{KEY}"},
        {"name": "similarity", "base_url": f"http://me:{KEY}@127.0.0.1/"},
        {"name": "openai:tiny", "api_key_env": KEY},
        {"name": "openai:tiny", "api_key_env": "BAD_KEY"},
    ],
)
def test_a_choice_that_is_refused_repeats_no_secret(
    monkeypatch: pytest.MonkeyPatch, choice: dict[str, str]
) -> None:
    """Nor does any error behind the error."""
    monkeypatch.setitem(os.environ, "BAD_KEY", f"{KEY}\n")
    with pytest.raises(InputError) as caught:
        ModelChoice(**choice)  # type: ignore[arg-type]  # all of its options are texts
    assert [text for text in everything_behind(caught.value) if KEY in text] == []


def test_a_choice_holds_the_name_of_a_key_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is sent to a worker is where the key is found there."""
    monkeypatch.setitem(os.environ, "MY_KEY", KEY)
    choice = ModelChoice(name="openai:tiny", api_key_env="MY_KEY", base_url="http://h/v1")
    exchange = Exchange(registry="npc", candidates=(NpcCandidate(source_id="s", name="n"),))
    assert KEY.encode() not in pickle.dumps((choice, exchange))
    assert KEY not in repr((choice, exchange, AttemptPolicy()))


def test_an_address_with_a_password_is_shown_by_its_length() -> None:
    """Neither a choice of a model nor what tells models apart shows the address."""
    choice = ModelChoice(name="openai:tiny", base_url=f"http://me:{KEY}@127.0.0.1/v1")
    same = ModelChoice(name="openai:tiny", base_url=f"http://me:{KEY}@127.0.0.1/v1")
    assert choice == same
    assert identify(choice).identity == identify(same).identity
    assert KEY not in f"{choice}{choice!r}{choice.debug_view()}{identify(choice)!r}"
