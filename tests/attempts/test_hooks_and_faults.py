import logging
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from notarius.attempts import AttemptMachine, AttemptPolicy, SystemClock, run
from notarius.attempts.testing import JsonObjectContract, ScriptedProducer
from notarius.contracts import (
    Accepted,
    AttemptRecord,
    AttemptResult,
    ContractError,
    Fallback,
    InvariantError,
    ModelCandidate,
    Normalized,
    NormalizeRetry,
    OperationCancelledError,
    Produced,
    ProducerRequest,
    Prompt,
)

Play = Callable[..., Any]
World = Any
FALLBACK = Fallback(value=["safe"], preserved="Kept apart.")


def refusal(candidate: ModelCandidate | None) -> NormalizeRetry[list[str]]:
    """Return a directive about this candidate."""
    return NormalizeRetry(
        reason_code="groups_refused",
        operator_message="Refused.",
        fallback=FALLBACK,
        candidate=candidate,
        guidance=None if candidate is None else "A check found a mistake.",
    )


def forged(produced: Produced) -> object:
    """Return guidance about a text that was put in the place of the reply's."""
    assert isinstance(produced.result, ModelCandidate)
    candidate = ModelCandidate.of(produced.result.text)
    msgspec.structs.force_setattr(candidate, "text", "another text")
    verdict = refusal(ModelCandidate.of("x"))
    msgspec.structs.force_setattr(verdict, "candidate", candidate)
    return verdict


def unpaired(produced: Produced) -> object:
    """Return guidance whose candidate was taken away."""
    verdict = refusal(ModelCandidate.of("x"))
    msgspec.structs.force_setattr(verdict, "candidate", None)
    return verdict


def judging(judge: Callable[[Produced], object]) -> Callable[[World], Any]:
    """Return what makes a normalizer of one function."""

    class OfFunction:
        def __init__(self, world: World) -> None:
            self.world = world

        def normalize(self, produced: Produced) -> object:
            self.world.judged.append(produced)
            return judge(produced)

    return OfFunction


def raising(error: BaseException) -> Callable[..., Any]:
    """Return a function that raises."""

    def call(*_: object) -> None:
        raise error

    return call


@pytest.mark.parametrize(
    ("reply", "judge"),
    [
        ("{}", lambda produced: None),
        ("{}", lambda produced: "nonsense"),
        ("{}", lambda produced: Normalized),
        ("{}", lambda produced: refusal(ModelCandidate.of("another reply"))),
        ("{}", lambda produced: refusal(ModelCandidate.of("{} "))),
        ("{}", forged),
        ("{}", unpaired),
        ("", lambda produced: Normalized(value=["made up"])),
        ("", lambda produced: refusal(ModelCandidate.of("made up"))),
        ("no JSON", lambda produced: refusal(ModelCandidate.of("no JSON"))),
    ],
)
def test_a_broken_promise_of_the_normalizer_stops_everything(
    reply: str, judge: Callable[[Produced], object], play: Play
) -> None:
    """Nonsense, a forged or foreign text, or a structural failure accepted: nothing is sent on."""
    played = play(reply, "{}", normalizer=judging(judge))
    assert isinstance(played.ended, InvariantError | ContractError)
    assert len(played.requests) == len(played.judged) == 1
    assert [record.result for record in played.records] == [AttemptResult.BROKEN]
    assert played.records[0].response_sha256 is not None
    assert played.retries_spent == 0


@pytest.mark.parametrize("answer", [None, "text", ModelCandidate.of("{}")])
def test_a_producer_that_returns_nonsense_stops_everything(answer: object) -> None:
    """Only `Produced` is taken for an answer."""

    class Nonsense:
        def produce(self, request: ProducerRequest, **_: object) -> Any:  # noqa: ANN401 - on purpose
            return answer

    machine: AttemptMachine[list[str]] = AttemptMachine(Prompt.of("hi"), AttemptPolicy())
    normalizer = judging(lambda _: None)(None)
    with pytest.raises(InvariantError):
        run(machine, Nonsense(), normalizer, contract=JsonObjectContract())
    assert [record.result for record in machine.records] == [AttemptResult.BROKEN]


@pytest.mark.parametrize(
    "error", [ZeroDivisionError("x"), KeyboardInterrupt(), InvariantError("x")]
)
def test_what_a_normalizer_raises_comes_out(error: BaseException, play: Play) -> None:
    """The very error, after the attempt was recorded; nothing more is asked."""
    played = play("{}", "{}", normalizer=judging(raising(error)))
    assert played.ended is error
    assert len(played.requests) == 1
    interrupted = isinstance(error, KeyboardInterrupt)
    expected = AttemptResult.CANCELLED if interrupted else AttemptResult.BROKEN
    assert [record.result for record in played.records] == [expected]


@pytest.mark.parametrize("error", [ZeroDivisionError("x"), OperationCancelledError("never asked")])
def test_an_undeclared_error_of_a_producer_comes_out(error: Exception, play: Play) -> None:
    """Neither a fault nor a cancellation that nobody asked for is turned into an outcome."""
    played = play('{"bad": "a"}', error, '{"ok": "never"}')
    assert played.ended is error
    assert [r.result for r in played.records] == [AttemptResult.REFUSED, AttemptResult.BROKEN]


def test_a_hook_sees_each_attempt_once_as_it_ends(play: Play) -> None:
    """One event an attempt, before the next is asked for."""
    seen: list[tuple[int, int]] = []

    def step(world: World, request: ProducerRequest) -> str:
        seen.append((request.number, len(world.events)))
        return "" if request.number < 3 else '{"ok": "c"}'

    played = play(step, step, step)
    assert seen == [(1, 0), (2, 1), (3, 2)] * 2  # both drivers
    assert played.events == list(played.ended.records)


def test_a_hook_that_raises_is_ignored(play: Play, caplog: pytest.LogCaptureFixture) -> None:
    """The operation goes on, the other hooks are called, and the log holds no text of the error."""
    with caplog.at_level(logging.WARNING, "notarius.attempts"):
        played = play(
            '{"bad": "a"}', '{"ok": "b"}', hooks=lambda _: [raising(ValueError("secret words"))]
        )
    assert isinstance(played.ended, Accepted)
    assert played.events == list(played.records)
    assert len(caplog.records) == 4  # two attempts, two drivers
    assert "ValueError" in caplog.text
    assert "secret" not in caplog.text


@pytest.mark.parametrize("replies", [['{"ok": "a"}'], ['{"bad": "a"}', '{"ok": "b"}'], ["", ""]])
def test_an_interruption_in_a_hook_comes_out(replies: list[str], play: Play) -> None:
    """The attempts made are on record, and none that was never begun."""
    error = KeyboardInterrupt()
    played = play(*replies, hooks=lambda _: [raising(error)])
    assert played.ended is error
    assert len(played.requests) == len(played.records) == 1
    assert played.records[0].result is not AttemptResult.CANCELLED


def test_hooks_are_given_values_that_they_cannot_change() -> None:
    """A hook gets the record itself, which is frozen."""
    seen: list[AttemptRecord] = []
    machine: AttemptMachine[list[str]] = AttemptMachine(
        Prompt.of("hi"), AttemptPolicy(normalize_retries=0)
    )
    producer = ScriptedProducer(["{}"])
    normalizer = judging(lambda _: Normalized(value=["x"]))(type("W", (), {"judged": []})())
    run(machine, producer, normalizer, contract=JsonObjectContract(), hooks=[seen.append])
    assert seen == list(machine.records)
    with pytest.raises(AttributeError):
        seen[0].number = 2  # type: ignore[misc]  # that it fails is the test
    assert seen[0].duration_ms >= 0


def test_a_machine_runs_one_operation() -> None:
    """Budget and records belong to one operation, so a machine can't be run twice."""
    machine: AttemptMachine[list[str]] = AttemptMachine(Prompt.of("hi"), AttemptPolicy())
    normalizer = judging(lambda _: Normalized(value=["x"]))(type("W", (), {"judged": []})())
    contract = JsonObjectContract()
    run(machine, ScriptedProducer(["{}"]), normalizer, contract=contract, clock=SystemClock())
    again = ScriptedProducer(["{}"])
    with pytest.raises(InvariantError):
        run(machine, again, normalizer, contract=contract)
    assert again.requests == []
    assert len(machine.records) == 1
