from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from notarius.attempts import (
    AttemptMachine,
    AttemptPolicy,
    State,
    TerminalPolicy,
    mermaid_diagram,
)
from notarius.attempts._events import (
    Ask,
    Broke,
    CancelRequested,
    DeadlinePassed,
    Effect,
    Event,
    Finish,
    Judged,
    Normalize,
    ProviderFailed,
    Raise,
    Replied,
    Started,
)
from notarius.attempts._machine import TRANSITIONS
from notarius.contracts import (
    Cancelled,
    ContractError,
    Fallback,
    InvariantError,
    ModelCandidate,
    Normalized,
    NormalizeRetry,
    Produced,
    Prompt,
)

CANDIDATE = ModelCandidate.of("{}")
CORRECTIVE: NormalizeRetry[str] = NormalizeRetry(
    reason_code="groups_refused",
    operator_message="Refused.",
    fallback=Fallback(value="safe", preserved="Kept apart."),
    candidate=CANDIDATE,
    guidance="A check found a mistake.",
)
# One or more of every kind of event. With two retries three refusals exhaust the budget.
EVENTS: list[Event[str]] = [
    Started(),
    Replied(produced=Produced(result=CANDIDATE)),
    Judged(verdict=Normalized(value="all"), elapsed_ms=1),
    Judged(verdict=CORRECTIVE, elapsed_ms=2),
    ProviderFailed(message="Denied.", elapsed_ms=3),
    DeadlinePassed(),
    DeadlinePassed(elapsed_ms=4),
    CancelRequested(),
    CancelRequested(elapsed_ms=5),
    Broke(interrupted=True, elapsed_ms=6),
    Broke(interrupted=False, elapsed_ms=7),
]
POLICIES = [AttemptPolicy(normalize_retries=2, terminal=terminal) for terminal in TerminalPolicy]
CLOSING = (Judged, ProviderFailed, DeadlinePassed, CancelRequested, Broke)
Step = tuple[State, type, State]


def replayed(
    events: list[Event[str]], policy: AttemptPolicy
) -> tuple[AttemptMachine[str], list[Effect[str]]]:
    """Return a machine that took these events, and its effects."""
    machine: AttemptMachine[str] = AttemptMachine(Prompt.of("hi"), policy)
    return machine, [machine.handle(event) for event in events]


def stories(policy: AttemptPolicy, told: list[Event[str]]) -> Iterator[list[Event[str]]]:
    """Yield every possible sequence of events that goes on from the one told so far."""
    yield told
    machine, _ = replayed(told, policy)
    for event in EVENTS:
        if (machine.state, type(event)) in TRANSITIONS:
            yield from stories(policy, [*told, event])


@pytest.mark.parametrize("policy", POLICIES)
def test_every_possible_story_obeys_the_table(policy: AttemptPolicy) -> None:
    """The machine goes only where the table says, and each line of the table is gone."""
    gone: set[Step] = set()
    for told in stories(policy, []):
        if told:
            machine, _ = replayed(told[:-1], policy)
            before = machine.state
            machine.handle(told[-1])
            gone.add((before, type(told[-1]), machine.state))
    table = {
        (source, event, target)
        for (source, event), targets in TRANSITIONS.items()
        for target in targets
    }
    assert gone == table


@pytest.mark.parametrize("policy", POLICIES)
def test_every_story_tells_effects_and_records_that_fit(policy: AttemptPolicy) -> None:
    """Each attempt begun leaves one record, the budget holds, and what ends stays ended."""
    for told in stories(policy, []):
        machine, effects = replayed(told, policy)
        asked = [effect.request for effect in effects if isinstance(effect, Ask)]
        took = [event.elapsed_ms for event in told if isinstance(event, CLOSING)]
        assert [r.duration_ms for r in machine.records] == [ms for ms in took if ms is not None]
        assert [r.number for r in machine.records] == list(range(1, len(machine.records) + 1))
        assert [r.request_sha256 for r in machine.records] == [
            request.sha256 for request in asked[: len(machine.records)]
        ]
        assert machine.retries_spent == max(0, len(asked) - 1) <= policy.normalize_retries
        ended = bool(effects) and isinstance(effects[-1], Finish | Raise)
        assert ended is (machine.state is State.DONE)


def test_an_impossible_event_is_refused_and_changes_nothing() -> None:
    """An event that the state does not allow is a fault of the driver."""
    for told in stories(POLICIES[0], []):
        machine, _ = replayed(told, POLICIES[0])
        for event in EVENTS:
            if (machine.state, type(event)) not in TRANSITIONS:
                before = (machine.state, machine.records, machine.retries_spent)
                with pytest.raises(InvariantError):
                    machine.handle(event)
                assert (machine.state, machine.records, machine.retries_spent) == before


@given(st.lists(st.sampled_from(EVENTS), max_size=12), st.sampled_from(POLICIES))
def test_the_same_events_give_the_same_effects(
    events: list[Event[str]], policy: AttemptPolicy
) -> None:
    """The machine reads no clock and draws no lots: its past decides alone."""
    told = [Started(), *events]
    assert _attempted(told, policy) == _attempted(told, policy)


def test_a_machine_asks_and_judges_as_it_is_told() -> None:
    """The effects carry exactly the request to send and the reply to judge."""
    machine, (ask, normalize, again) = replayed(
        [Started(), EVENTS[1], Judged(verdict=CORRECTIVE, elapsed_ms=1)], POLICIES[0]
    )
    assert isinstance(ask, Ask)
    assert ask.request.messages == Prompt.of("hi").messages
    assert normalize == Normalize(produced=Produced(result=CANDIDATE))
    assert isinstance(again, Ask)
    assert [m.content for m in again.request.messages] == ["hi", "{}", CORRECTIVE.guidance]
    assert machine.retries_spent == 1
    assert machine.handle(CancelRequested()) == Finish(outcome=Cancelled(records=machine.records))


def test_the_diagram_shows_the_whole_table() -> None:
    """Each transition is one line of the diagram, which has a beginning and an end."""
    lines = [line.strip() for line in mermaid_diagram().splitlines()]
    table = {
        f"{source.value} --> {target.value}: {event.__name__}"
        for (source, event), targets in TRANSITIONS.items()
        for target in targets
    }
    assert lines[0] == "stateDiagram-v2"
    assert set(lines[1:]) == table | {"[*] --> ready", "done --> [*]"}
    assert len(lines) == len(set(lines))


def test_done_is_final_and_every_state_is_reachable() -> None:
    """Nothing leaves the end, and no state is there for nothing."""
    assert State.DONE not in {source for source, _ in TRANSITIONS}
    assert {target for targets in TRANSITIONS.values() for target in targets} | {
        State.READY
    } == set(State)


@pytest.mark.parametrize(
    "make",
    [
        lambda: AttemptPolicy(normalize_retries=-1),
        lambda: AttemptPolicy(normalize_retries=True),
        lambda: AttemptPolicy(normalize_retries=1.5),  # type: ignore[arg-type]  # refused
        lambda: AttemptPolicy(normalize_retries=None),  # type: ignore[arg-type]  # refused
        lambda: AttemptPolicy(terminal="fail"),  # type: ignore[arg-type]  # refused
        lambda: AttemptPolicy(deadline_s=0),
        lambda: AttemptPolicy(deadline_s=-1.0),
        lambda: AttemptPolicy(deadline_s=float("nan")),
    ],
)
def test_a_policy_out_of_range_is_refused(make: Callable[[], AttemptPolicy]) -> None:
    """A caller's mistake is told before any model is called."""
    with pytest.raises(ContractError):
        make()


def _attempted(events: list[Event[str]], policy: AttemptPolicy) -> list[object]:
    """Return what each event gave, refusals included."""
    machine: AttemptMachine[str] = AttemptMachine(Prompt.of("hi"), policy)
    given_back: list[object] = []
    for event in events:
        try:
            given_back.append(machine.handle(event))
        except InvariantError as error:
            given_back.append(str(error))
    return [*given_back, machine.state, machine.records]
