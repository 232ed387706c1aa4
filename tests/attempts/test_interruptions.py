"""An interruption can come between any two lines: it comes out, and the records stay true."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

import notarius.attempts
from notarius.attempts import AttemptMachine, AttemptPolicy, run
from notarius.attempts.testing import JsonObjectContract, ScriptedProducer
from notarius.contracts import (
    Fallback,
    ModelCandidate,
    NormalizeRetry,
    Produced,
    Prompt,
)

FOLDER = notarius.attempts.__path__[0]


class Refuses:
    """Refuses every reply."""

    def normalize(self, produced: Produced) -> NormalizeRetry[str]:
        """Ask again."""
        candidate = produced.result if isinstance(produced.result, ModelCandidate) else None
        return NormalizeRetry(
            reason_code="not_good",
            operator_message="It was not good.",
            fallback=Fallback(value="nothing", preserved="All of it was preserved."),
            candidate=candidate,
            guidance=None if candidate is None else "Do better.",
        )


def interrupting(at: int) -> tuple[Callable[..., Any], list[int]]:
    """Return a trace that interrupts at one line of the package, and its count of lines."""
    seen = [0]

    def trace(frame: FrameType, event: str, _: object) -> Any:  # noqa: ANN401 - a trace's own type
        own = frame.f_code.co_filename.startswith(FOLDER) and "testing" not in (
            frame.f_code.co_filename.removeprefix(FOLDER)
        )
        if not own:
            return None
        if event == "line":
            seen[0] += 1
            if seen[0] == at:
                raise KeyboardInterrupt
        return trace

    return trace, seen


def play(at: int) -> tuple[AttemptMachine[str], ScriptedProducer, int]:
    """Run an operation of three attempts, interrupted at one line."""
    machine: AttemptMachine[str] = AttemptMachine(
        Prompt.of("hi"), AttemptPolicy(normalize_retries=2)
    )
    producer = ScriptedProducer(['{"a": 1}', "no", '{"b": 2}'])
    trace, seen = interrupting(at)
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        if at:
            with pytest.raises(KeyboardInterrupt):
                run(machine, producer, Refuses(), contract=JsonObjectContract())
        else:
            run(machine, producer, Refuses(), contract=JsonObjectContract())
    finally:
        sys.settrace(before)
    return machine, producer, seen[0]


def test_an_interruption_between_any_two_lines_leaves_true_records() -> None:
    """It comes out, no attempt has two records, and none without a call has one."""
    _, _, lines = play(0)
    assert lines > 100
    for at in range(1, lines + 1):
        machine, producer, _ = play(at)
        numbers = [record.number for record in machine.records]
        assert numbers == list(range(1, len(numbers) + 1)), at
        # The last call may have been interrupted before the attempt was noted as begun, or
        # the first line of an attempt before its call.
        assert len(producer.requests) - len(numbers) in {-1, 0}, at
