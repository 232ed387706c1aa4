"""Rules that a changed line of code once broke without any other test noticing."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

import notarius.attempts
from notarius.attempts import (
    AttemptMachine,
    AttemptPolicy,
    TerminalPolicy,
    _events,
    _machine,
    arun,
    exchange_content,
    run,
)
from notarius.attempts._drive import GRACE_S
from notarius.attempts.testing import JsonObjectContract, ScriptedProducer
from notarius.contracts import (
    Accepted,
    AttemptRecord,
    ContractError,
    DeadlineExceededError,
    Fallback,
    InvariantError,
    IssueDetails,
    ModelCandidate,
    Normalized,
    NormalizeRetry,
    OperationCancelledError,
    Produced,
    Prompt,
    policy_fingerprint,
)

Play = Callable[..., Any]
STRUCTS = [
    value
    for module in (_events, _machine)
    for value in vars(module).values()
    if isinstance(value, type)
    and issubclass(value, msgspec.Struct)
    and value.__module__ == module.__name__
]
OTHER = NormalizeRetry(
    reason_code="some_reason",
    operator_message="No.",
    fallback=Fallback(value=1, preserved="All kept apart."),
    candidate=ModelCandidate.of('{"another": "reply"}'),
    guidance="Mend it.",
)


class Says:
    """A normalizer that answers the same each time."""

    def __init__(self, verdict: object) -> None:
        self.verdict = verdict

    def normalize(self, produced: Produced) -> Any:  # noqa: ANN401 - also what is not allowed
        """Answer."""
        return self.verdict


@pytest.mark.parametrize("struct", STRUCTS)
def test_events_and_effects_are_frozen_and_keyword_only(struct: type[msgspec.Struct]) -> None:
    """What passes between machine and driver can't be changed, or be built in a wrong order."""
    assert struct.__struct_config__.frozen
    if struct.__struct_fields__:
        with pytest.raises(TypeError, match="positional"):
            struct("x")


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"normalize_retries": -1}, "retries"),
        ({"terminal": "fallback"}, "terminal policy"),
        ({"deadline_s": 0}, "deadline"),
    ],
)
def test_a_limit_that_is_none_is_named(limits: dict[str, Any], said: str) -> None:
    """Whoever sets a limit reads which one is wrong."""
    with pytest.raises(ContractError, match=said):
        AttemptPolicy(**limits)


def test_an_event_out_of_turn_is_named() -> None:
    """The error tells which event came and where the operation stood."""
    machine: AttemptMachine[str] = AttemptMachine(Prompt.of("x"), AttemptPolicy())
    with pytest.raises(InvariantError, match=r"CancelRequested\b.*\bready"):
        machine.handle(_events.CancelRequested())


def test_what_the_table_does_not_allow_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine obeys its table also where its code would go elsewhere."""
    ready, done = _machine.State.READY, _machine.State.DONE
    monkeypatch.setattr(_machine, "TRANSITIONS", {(ready, _events.Started): (done,)})
    machine: AttemptMachine[str] = AttemptMachine(Prompt.of("x"), AttemptPolicy())
    with pytest.raises(InvariantError, match=r"Started\b.*\bproducing"):
        machine.handle(_events.Started())
    assert machine.state is ready


@pytest.mark.parametrize(
    ("reply", "verdict", "said"),
    [
        ("{}", None, "normalizer must return"),
        ("{}", OTHER, "not the latest reply"),
        ("no JSON", Normalized(value=1), "no candidate"),
    ],
)
def test_a_broken_promise_is_named(reply: str, verdict: object, said: str, play: Play) -> None:
    """Whoever wrote a producer or a normalizer reads what it must not do."""
    ended = play(reply, normalizer=lambda _: Says(verdict)).ended
    assert isinstance(ended, InvariantError)
    assert said in str(ended)


def test_a_producer_that_returns_nothing_is_named() -> None:
    """So does whoever forgot a `return`."""

    class Silent:
        def produce(self, *_: object, **__: object) -> Any:  # noqa: ANN401 - not what is declared
            return None

    machine: AttemptMachine[int] = AttemptMachine(Prompt.of("x"), AttemptPolicy())
    with pytest.raises(InvariantError, match="producer must return"):
        run(machine, Silent(), Says(Normalized(value=1)), contract=JsonObjectContract())


def test_a_script_that_ends_says_how_long_it_was(play: Play) -> None:
    """A test whose script is too short fails with its length."""
    ended = play('{"bad": "first"}').ended
    assert isinstance(ended, AssertionError)
    assert "1 steps" in str(ended)


def test_an_unknown_name_is_named() -> None:
    """A slip in an import shows itself."""
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = notarius.attempts.no_such_name


def test_a_broken_hook_is_told_to_the_packages_logger(
    play: Play, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever sets levels by package sees, or silences, the warning under its name."""

    def broken(_: AttemptRecord) -> None:
        raise ZeroDivisionError

    play('{"ok": "x"}', hooks=lambda _: [broken])
    assert {entry.name for entry in caplog.records} == {"notarius.attempts"}
    assert all("hook raised ZeroDivisionError" in entry.message for entry in caplog.records)


def test_a_hook_hears_of_no_attempt_of_an_earlier_run() -> None:
    """A machine that has ended can't be run again, and its records are not reported again."""
    machine: AttemptMachine[int] = AttemptMachine(Prompt.of("x"), AttemptPolicy())
    heard: list[AttemptRecord] = []
    run(machine, ScriptedProducer(["{}"]), Says(Normalized(value=1)), contract=JsonObjectContract())
    with pytest.raises(InvariantError):
        run(
            machine,
            ScriptedProducer(["{}"]),
            Says(Normalized(value=1)),
            contract=JsonObjectContract(),
            hooks=[heard.append],
        )
    assert len(machine.records) == 1
    assert heard == []


class LateClock:
    """A clock that fails the first time."""

    def __init__(self) -> None:
        self.failed = False

    def monotonic(self) -> float:
        """Fail, or stand still."""
        if not self.failed:
            self.failed = True
            raise ZeroDivisionError
        return 0.0


def test_an_attempt_that_was_not_begun_leaves_no_record() -> None:
    """Where the clock fails before the first call, no attempt was made."""
    machine: AttemptMachine[int] = AttemptMachine(Prompt.of("x"), AttemptPolicy())
    producer = ScriptedProducer(["{}"])
    with pytest.raises(ZeroDivisionError):
        run(
            machine,
            producer,
            Says(Normalized(value=1)),
            contract=JsonObjectContract(),
            clock=LateClock(),
        )
    assert (machine.records, producer.requests) == ((), [])


@pytest.mark.parametrize("cancels", [True, False])
def test_what_a_stopped_call_spent_is_recorded(cancels: bool, play: Play) -> None:
    """Repairs and transport retries cost, also where a cancel or the end of time stopped them."""

    def stopped(world: Any, _: object) -> BaseException:  # noqa: ANN401 - the conftest's
        error = OperationCancelledError("x") if cancels else DeadlineExceededError("x")
        error.repairs, error.transport_retries = 2, 3
        if cancels:
            world.token.cancel()
        return error

    (record,) = play(stopped, policy=AttemptPolicy(deadline_s=5)).records
    assert (record.repairs, record.transport_retries) == (2, 3)


def test_an_asyncio_producer_has_its_whole_time() -> None:
    """It is not stopped before its time, which is short but long enough."""

    class Slow:
        async def aproduce(self, *_: object, **__: object) -> Produced:
            await asyncio.sleep(0.1)
            return Produced(result=ModelCandidate.of("{}"))

    machine: AttemptMachine[int] = AttemptMachine(
        Prompt.of("x"), AttemptPolicy(deadline_s=2 * GRACE_S / 3 + 0.1)
    )
    ended = asyncio.run(
        arun(machine, Slow(), Says(Normalized(value=1)), contract=JsonObjectContract())
    )
    assert isinstance(ended, Accepted)


@pytest.mark.parametrize("event", [_events.DeadlinePassed, _events.CancelRequested])
def test_an_end_that_tells_of_no_cost_had_none(event: Any) -> None:  # noqa: ANN401 - either class
    """Counts that an event does not give are 0 in the record."""
    machine: AttemptMachine[int] = AttemptMachine(Prompt.of("x"), AttemptPolicy())
    machine.handle(_events.Started())
    machine.handle(event(elapsed_ms=1))
    (record,) = machine.records
    assert (record.repairs, record.transport_retries) == (0, 0)


def test_the_names_of_policies_and_states_are_what_was_promised() -> None:
    """Policies stand in configuration files, states in the diagram of the docs."""
    assert [policy.value for policy in TerminalPolicy] == ["fallback", "fail"]
    assert [state.value for state in _machine.State] == [
        "ready", "producing", "normalizing", "done",
    ]  # fmt: skip


def test_the_fixed_exchange_keeps_its_identity() -> None:
    """Results are known by it: a machine that sends or applies something else shows itself here."""
    assert policy_fingerprint("exchange", exchange_content()) == (
        "sha256:5c372152c4ee6e261bad627e98096c762ec9ac43e70ba4b1e37b4c6a4360cfdb"
    )


def test_a_record_has_the_issues_of_its_refusal(play: Play) -> None:
    """What was wrong with a proposal stands in detail in the record of its attempt."""
    issue = IssueDetails(category="some_category", group_index=1)
    refused = msgspec.structs.replace(OTHER, candidate=None, guidance=None, issues=(issue,))
    played = play('{"bad": "x"}', '{"bad": "y"}', "{}", normalizer=lambda _: Says(refused))
    assert [record.issues for record in played.records] == [(issue,)] * 3
