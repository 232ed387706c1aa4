from collections.abc import Callable
from types import SimpleNamespace

import pytest

from notarius.contracts import ModelCandidate, ProviderError, ProviderErrorKind

Ask = Callable[..., SimpleNamespace]
GOOD = '{"gadget": "lamp"}'
MAY_PASS = [
    ProviderErrorKind.UNREACHABLE,
    ProviderErrorKind.TIMED_OUT,
    ProviderErrorKind.RATE_LIMITED,
    ProviderErrorKind.SERVER_ERROR,
]
FINAL = [kind for kind in ProviderErrorKind if kind not in MAY_PASS]
BUSY = ProviderError(ProviderErrorKind.RATE_LIMITED, status=429)


@pytest.mark.parametrize("kind", MAY_PASS)
def test_an_error_that_may_pass_is_tried_again(
    ask: Ask, world: str, kind: ProviderErrorKind
) -> None:
    """The same call is repeated, and the repetition is counted."""
    got = ask([ProviderError(kind), GOOD], world=world, transport_retries=1)
    assert got.produced.result == ModelCandidate.of(GOOD)
    assert (got.produced.transport_retries, got.produced.repairs) == (1, 0)
    assert [call.messages for call in got.calls] == [got.request.messages] * 2


@pytest.mark.parametrize("kind", FINAL)
def test_an_error_that_stays_is_raised_at_once(
    ask: Ask, world: str, kind: ProviderErrorKind
) -> None:
    """Bad credentials, a wrong name or a bad request do not get better by asking again."""
    got = ask([ProviderError(kind, status=400)], world=world, transport_retries=5, repair_retries=5)
    assert (got.error.kind, got.error.status, len(got.calls), got.waits) == (kind, 400, 1, [])


@pytest.mark.parametrize("budget", [0, 1, 3])
def test_the_error_comes_out_when_the_budget_is_gone(ask: Ask, world: str, budget: int) -> None:
    """A transport budget of N means N repetitions; 0 turns them off."""
    got = ask([BUSY] * (budget + 1), world=world, transport_retries=budget, repair_retries=5)
    assert got.error is BUSY
    assert (len(got.calls), len(got.waits)) == (budget + 1, budget)


def test_waits_grow_up_to_a_bound(ask: Ask, world: str) -> None:
    """Without a wish of the server each wait doubles, up to half a minute."""
    got = ask([BUSY] * 12, world=world, transport_retries=11)
    assert got.waits == [0.5, 1, 2, 4, 8, 16, 30, 30, 30, 30, 30]


@pytest.mark.parametrize(
    ("asked_for", "waited"), [(0.0, 0.0), (3.25, 3.25), (3600.0, 30.0), (-5.0, 0.0)]
)
def test_the_server_says_how_long_to_wait(
    ask: Ask, world: str, asked_for: float, waited: float
) -> None:
    """A requested wait is honoured, but no longer than the bound and never negative."""
    busy = ProviderError(ProviderErrorKind.RATE_LIMITED, retry_after_s=asked_for)
    assert ask([busy, GOOD], world=world, transport_retries=1).waits == [waited]


def test_a_wait_beyond_the_deadline_is_not_begun(ask: Ask, world: str) -> None:
    """If the wait would use up the time that is left, the error comes out at once."""
    busy = ProviderError(ProviderErrorKind.RATE_LIMITED, retry_after_s=20.0)
    got = ask([busy], world=world, transport_retries=3, timeout_s=10.0)
    assert got.error is busy
    assert (len(got.calls), got.waits) == (1, [])


def test_both_budgets_are_counted_apart(ask: Ask, world: str) -> None:
    """A repair costs no transport retry, and a transport retry no repair."""
    steps = [BUSY, "no", BUSY, '["no"]', GOOD]
    got = ask(steps, world=world, transport_retries=2, repair_retries=2)
    assert got.produced.result == ModelCandidate.of(GOOD)
    assert (got.produced.transport_retries, got.produced.repairs) == (2, 2)
    assert ask([BUSY, "no"], world=world, transport_retries=1).produced.repairs == 0
    assert ask(["no", BUSY], world=world, repair_retries=1).error is BUSY


def test_a_transport_retry_repeats_the_repair_and_not_the_request(ask: Ask, world: str) -> None:
    """After an error the very same messages are sent, and nothing of the error."""
    got = ask(["no", BUSY, GOOD], world=world, transport_retries=1, repair_retries=1)
    assert got.calls[1].messages == got.calls[2].messages
    assert len(got.calls[2].messages) == 4
    said = " ".join(message.content for message in got.calls[2].messages)
    assert "429" not in said
    assert str(BUSY) not in said


@pytest.mark.parametrize(("number", "first"), [(1, False), (2, True)])
def test_only_the_very_first_call_may_be_answered_from_a_cache(
    ask: Ask, world: str, number: int, first: bool
) -> None:
    """A repair, a transport retry and every call of a later attempt bypass caches."""
    steps = [BUSY, "no", GOOD]
    got = ask(steps, world=world, number=number, transport_retries=1, repair_retries=1)
    assert [call.bypass_cache for call in got.calls] == [first, True, True]


def test_the_error_says_what_was_spent_before_it(ask: Ask, world: str) -> None:
    """An attempt that ends without a reply has still spent its repairs and its retries."""
    lost = ProviderError(ProviderErrorKind.UNREACHABLE)
    got = ask(["prose", lost, lost], world=world, repair_retries=2, transport_retries=1)
    assert (got.error.repairs, got.error.transport_retries) == (1, 1)
