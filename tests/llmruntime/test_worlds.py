from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from notarius.contracts import (
    DeadlineExceededError,
    FinishReason,
    ModelCandidate,
    OperationCancelledError,
    ProviderError,
    ProviderErrorKind,
    Reply,
    Role,
    Usage,
)
from notarius.llmruntime import ChatCall

Ask = Callable[..., SimpleNamespace]
GOOD = ' {"gadget": "lamp"}\r\n'
STEPS = {
    "good": GOOD,
    "prose": "I think it is a lamp",
    "wrong shape": "[]",
    "empty": "",
    "cut off": Reply(text=GOOD, finish_reason=FinishReason.LENGTH),
    "refusal": Reply(text=GOOD, finish_reason=FinishReason.REFUSAL),
    "oversized": "x" * 201,
    "surrogate": "\udfff",
    "counted": Reply(text="no", usage=Usage(input_tokens=1, output_tokens=2)),
    "busy": ProviderError(ProviderErrorKind.RATE_LIMITED, retry_after_s=2.0),
    "down": ProviderError(ProviderErrorKind.UNREACHABLE),
    "denied": ProviderError(ProviderErrorKind.DENIED, status=401),
    "late": DeadlineExceededError("late"),
    "stopped": OperationCancelledError("stopped"),
}
# What ends a request whatever budgets are left.
LAST = "good"


def seen(got: SimpleNamespace) -> tuple[Any, ...]:
    """Return all that can be seen of a request: calls, waits and result."""
    return (got.calls, got.waits, got.produced, got.error)


@pytest.mark.parametrize(
    "names",
    [
        ["good"],
        ["prose", "good"],
        ["prose", "wrong shape", "good"],
        ["cut off", "empty", "good"],
        ["refusal"],
        ["busy", "prose", "down", "good"],
        ["prose", "denied"],
        ["prose", "late"],
        ["late"],
        ["busy", "busy", "busy"],
        ["down", "stopped"],
    ],
)
def test_both_producers_do_the_same(ask: Ask, names: list[str]) -> None:
    """The blocking and the asyncio producer make the same calls with the same results."""
    steps = [STEPS[name] for name in names]
    budgets = {"repair_retries": 2, "transport_retries": 2}
    blocking, coroutine = (ask(steps, world=world, **budgets) for world in ("threads", "asyncio"))
    assert seen(blocking) == seen(coroutine)
    assert len(blocking.calls) == len(names)


@given(
    names=st.lists(st.sampled_from(sorted(STEPS)), max_size=7),
    repair_retries=st.integers(0, 3),
    transport_retries=st.integers(0, 3),
)
def test_every_script_keeps_the_rules(
    ask: Ask, names: list[str], repair_retries: int, transport_retries: int
) -> None:
    """Budgets are never exceeded, the request never changes, and only exact text comes out."""
    steps = [STEPS[name] for name in [*names, *[LAST] * 8]]
    budgets = {"repair_retries": repair_retries, "transport_retries": transport_retries}
    got = ask(steps, **budgets)
    assert seen(got) == seen(ask(steps, world="asyncio", **budgets))
    assert len(got.waits) <= transport_retries
    assert len(got.calls) <= 1 + repair_retries + transport_retries
    for earlier, call in zip([None, *got.calls], got.calls, strict=False):
        added = call.messages[len(got.request.messages) :]
        assert call.messages[: len(got.request.messages)] == got.request.messages
        assert call.bypass_cache is (earlier is not None)
        assert [message.role for message in added] in ([], [Role.ASSISTANT, Role.USER])
    if got.produced is not None:
        played = steps[len(got.calls) - 1]
        text = played.text if isinstance(played, Reply) else played
        if isinstance(got.produced.result, ModelCandidate):
            assert got.produced.result.text == text == GOOD
        assert got.produced.repairs <= repair_retries
        assert got.produced.transport_retries == len(got.waits)


def test_a_call_keeps_its_messages_to_itself(ask: Ask) -> None:
    """A call can be logged: its `repr` shows no text of a message."""
    call = ask(["canary reply", GOOD], repair_retries=1).calls[1]
    assert isinstance(call, ChatCall)
    assert "canary" not in repr(call)
    assert "Which gadget" not in repr(call)


def test_no_two_calls_of_an_operation_are_the_same_draw(ask: Ask, world: str) -> None:
    """Each call has a variation of its own, so that a fixed seed does not repeat an answer."""
    got = ask(["prose", GOOD], world=world, repair_retries=1)
    later = ask([GOOD], world=world, number=2)
    variations = [call.variation for call in (*got.calls, *later.calls)]
    assert variations[0] == 0
    assert len(set(variations)) == 3
