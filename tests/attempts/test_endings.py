from collections.abc import Callable
from typing import Any

import pytest

from notarius.attempts import DEADLINE_CODE, PROVIDER_CODE, AttemptPolicy, TerminalPolicy
from notarius.contracts import (
    Accepted,
    AttemptResult,
    DeadlineExceededError,
    Failed,
    FailureKind,
    FellBack,
    ModelCandidate,
    Produced,
    ProviderError,
    ProviderErrorKind,
    Reply,
    Usage,
)

Play = Callable[..., Any]
DOWN = ProviderError(ProviderErrorKind.SERVER_ERROR, status=503)


def late(reply: str | BaseException, seconds: float = 1000.0) -> Callable[..., object]:
    """Return a step that takes its time."""

    def step(world: Any, request: object) -> object:  # noqa: ANN401 - the play's own world
        world.clock.advance(seconds)
        return reply

    return step


def limits(retries: int, *, fail: bool = False, deadline_s: float | None = None) -> AttemptPolicy:
    """Return a policy."""
    terminal = TerminalPolicy.FAIL if fail else TerminalPolicy.FALLBACK
    return AttemptPolicy(normalize_retries=retries, terminal=terminal, deadline_s=deadline_s)


@pytest.mark.parametrize(
    ("script", "applied", "final_code"),
    [
        (['{"bad": "a"}'], 1, "groups_refused"),
        (['{"bad": "a"}', '{"bad": "b"}'], 2, "groups_refused"),
        (['{"bad": "a"}', '{"again": "b"}'], 2, "groups_refused"),
        (['{"bad": "a"}', ""], 1, "no_candidate"),
        (['{"bad": "a"}', '{"bad": "b"}', "", "no JSON"], 2, "no_candidate"),
        (["", '{"bad": "b"}', ""], 2, "no_candidate"),
        (["", ""], 2, "no_candidate"),
    ],
)
def test_exhaustion_applies_the_latest_valid_attempt_and_explains_the_final_failure(
    script: list[str], applied: int, final_code: str, play: Play
) -> None:
    """A later reply that was no candidate takes nothing safe away, but the warning names it."""
    played = play(*script, policy=limits(len(script) - 1))
    ended = played.ended
    assert isinstance(ended, FellBack)
    assert ended.applied_attempt == applied
    assert ended.warning.code == final_code
    verdict = script[applied - 1]
    safe = verdict.split('"')[3] if '"bad"' in verdict else "unnamed" if verdict else "nothing"
    assert ended.value == [safe]
    assert ended.warning.refused_groups == (2 if verdict else 0)
    assert (safe in ended.warning.message) is (safe != "nothing")
    assert "kept apart" in ended.warning.message
    assert len(ended.records) == len(played.requests) == len(script)


def test_the_warning_of_a_final_structural_failure_tells_both_stories(play: Play) -> None:
    """It says why the last attempt failed, and what was preserved of the one before."""
    ended = play('{"bad": "a"}', "", policy=limits(1)).ended
    assert "No reply." in ended.warning.message
    assert "The rest of a was kept apart." in ended.warning.message
    assert "The proposal a was refused." not in ended.warning.message


@pytest.mark.parametrize("script", [['{"bad": "a"}', ""], ["", '{"bad": "b"}']])
def test_the_policy_to_fail_gives_no_value(script: list[str], play: Play) -> None:
    """Exhaustion then is a failure that names the final cause, and keeps the records."""
    ended = play(*script, policy=limits(1, fail=True)).ended
    assert isinstance(ended, Failed)
    assert ended.kind is FailureKind.EXHAUSTED
    assert ended.code == ("groups_refused" if script[1] else "no_candidate")
    assert len(ended.records) == 2


@pytest.mark.parametrize("fail", [True, False])
@pytest.mark.parametrize("reply", ['{"bad": "a"}', '{"again": "a"}', ""])
def test_a_budget_of_zero_allows_one_attempt(reply: str, fail: bool, play: Play) -> None:
    """Retries are counted after the first attempt, and there may be none."""
    played = play(reply, policy=limits(0, fail=fail))
    assert isinstance(played.ended, Failed if fail else FellBack)
    assert (len(played.requests), played.retries_spent) == (1, 0)


@pytest.mark.parametrize("reply", ['{"bad": "a"}', '{"again": "a"}', ""])
@pytest.mark.parametrize("retries", [1, 2, 5])
def test_every_kind_of_retry_spends_one_unit(reply: str, retries: int, play: Play) -> None:
    """Corrective, module and structural retries share the one budget, each for one unit."""
    played = play(*[reply] * (retries + 1), policy=limits(retries))
    assert len(played.requests) == retries + 1
    assert played.retries_spent == retries


def test_the_producers_own_budgets_are_not_the_stages(play: Play) -> None:
    """Repairs and transport retries are recorded, and change nothing about the normalize budget."""
    costly = Produced(
        result=ModelCandidate.of('{"bad": "a"}'), repairs=9, transport_retries=7, usage=Usage()
    )
    played = play(costly, costly, costly, policy=limits(2))
    assert (len(played.requests), played.retries_spent) == (3, 2)
    assert {(record.repairs, record.transport_retries) for record in played.records} == {(9, 7)}


@pytest.mark.parametrize("unknown", [0, 1, 2, None])
def test_usage_is_summed_over_all_attempts(unknown: int | None, play: Play) -> None:
    """Refused and structural attempts count; one that is unknown makes the sum unknown."""
    texts = ['{"bad": "a"}', "no JSON", '{"ok": "c"}']
    costs = [Usage(input_tokens=10**n, output_tokens=2 * 10**n) for n in range(3)]
    if unknown is not None:
        costs[unknown] = Usage(output_tokens=2 * 10**unknown)
    ended = play(*(Reply(text=t, usage=u) for t, u in zip(texts, costs, strict=True))).ended
    assert isinstance(ended, Accepted)
    assert ended.usage == Usage(input_tokens=111 if unknown is None else None, output_tokens=222)


def test_the_usage_of_an_attempt_without_a_reply_is_unknown(play: Play) -> None:
    """Nobody knows what a failed call cost; it is not 0."""
    ended = play(Reply(text="", usage=Usage(input_tokens=1, output_tokens=1)), DOWN).ended
    assert ended.usage == Usage()


@pytest.mark.parametrize("fail", [True, False])
@pytest.mark.parametrize("before", [[], ['{"bad": "a"}'], ["", '{"bad": "b"}']])
def test_a_provider_error_ends_the_operation(before: list[str], fail: bool, play: Play) -> None:
    """It is a failure under either policy, with the records of all attempts, and costs no retry."""
    played = play(*before, DOWN, '{"ok": "never"}', policy=limits(5, fail=fail))
    assert isinstance(played.ended, Failed)
    assert (played.ended.kind, played.ended.code) == (FailureKind.PROVIDER, PROVIDER_CODE)
    assert played.ended.message == str(DOWN)
    assert len(played.requests) == len(played.records) == len(before) + 1
    assert played.records[-1].result is AttemptResult.PROVIDER_ERROR
    assert played.records[-1].response_sha256 is None
    assert played.retries_spent == len(before)


def test_the_time_that_is_left_is_told_to_the_producer(play: Play) -> None:
    """Each request carries what remains of the whole operation's time, in seconds."""
    played = play(
        late('{"bad": "a"}', 4),
        late("", 5.5),
        late('{"ok": "c"}', 0),
        policy=limits(5, deadline_s=10),
    )
    assert isinstance(played.ended, Accepted)
    assert [request.timeout_s for request in played.requests] == [10, 6, 0.5]
    assert [record.duration_ms for record in played.records] == [4000, 5500, 0]
    unlimited = play('{"bad": "a"}', '{"ok": "b"}')
    assert [request.timeout_s for request in unlimited.requests] == [None, None]


@pytest.mark.parametrize("deadline_s", [4, 3.5])
def test_no_attempt_begins_when_the_time_is_over(deadline_s: float, play: Play) -> None:
    """At the deadline, not only after it, the fallback is applied and the warning says why."""
    played = play(late('{"bad": "a"}', 4), policy=limits(5, deadline_s=deadline_s))
    assert isinstance(played.ended, FellBack)
    assert played.ended.warning.code == DEADLINE_CODE
    assert (played.ended.value, played.ended.applied_attempt) == (["a"], 1)
    assert [record.result for record in played.records] == [AttemptResult.REFUSED]


@pytest.mark.parametrize(
    ("before", "value", "applied"),
    [
        (['{"bad": "a"}'], ["a"], 1),
        (['{"bad": "a"}', ""], ["a"], 1),
        (["", ""], ["nothing"], 2),
    ],
)
def test_time_over_in_the_middle_of_a_call_applies_what_is_safe(
    before: list[str], value: list[str], applied: int, play: Play
) -> None:
    """The attempt that was stopped is recorded; the latest valid one before it is applied."""
    script = (*before, late(DeadlineExceededError("over")))
    played = play(*script, policy=limits(5, deadline_s=10))
    assert isinstance(played.ended, FellBack)
    assert (played.ended.value, played.ended.applied_attempt) == (value, applied)
    assert played.ended.warning.code == DEADLINE_CODE
    assert played.records[-1].result is AttemptResult.DEADLINE
    failed = play(*script, policy=limits(5, deadline_s=10, fail=True)).ended
    assert isinstance(failed, Failed)
    assert failed.code == DEADLINE_CODE


def test_time_over_before_any_reply_is_a_failure(play: Play) -> None:
    """There is nothing to fall back on, so even the fallback policy gives no value."""
    ended = play(late(DeadlineExceededError("over")), policy=limits(5, deadline_s=10)).ended
    assert isinstance(ended, Failed)
    assert (ended.kind, ended.code) == (FailureKind.DEADLINE, DEADLINE_CODE)
    assert [record.result for record in ended.records] == [AttemptResult.DEADLINE]


def test_a_deadline_error_without_a_deadline_is_a_fault(play: Play) -> None:
    """A producer that invents a time limit is not believed: its error comes out."""
    error = DeadlineExceededError("over")
    played = play('{"bad": "a"}', error, policy=limits(5))
    assert played.ended is error
    assert [r.result for r in played.records] == [AttemptResult.REFUSED, AttemptResult.BROKEN]


def test_a_lost_attempt_records_what_the_producer_spent(play: Play) -> None:
    """What was spent on an attempt without a reply stands in its record."""
    lost = ProviderError(ProviderErrorKind.UNREACHABLE)
    lost.repairs, lost.transport_retries = 1, 2
    (record,) = play(lost).records
    assert (record.repairs, record.transport_retries) == (1, 2)
