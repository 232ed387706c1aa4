import hashlib
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from notarius import contracts as c
from notarius.contracts import (
    AttemptCause,
    AttemptRecord,
    AttemptResult,
    FinishReason,
    ModelCandidate,
    Reply,
    StructuralDefect,
    StructuralFailure,
    Usage,
    judge_reply,
    total_usage,
)

TOKENS = st.none() | st.integers(min_value=0, max_value=10**9)
USAGES = st.builds(Usage, input_tokens=TOKENS, output_tokens=TOKENS)
STOP = (None, FinishReason.STOP, FinishReason.OTHER)
WRONG = StructuralDefect.WRONG_SHAPE


@dataclass
class Contract:
    """A response contract that always says the same, and counts how often it was asked."""

    name: str = "test"
    schema_json: str = "{}"
    max_bytes: int = 10
    says: StructuralDefect | None = None
    asked: int = 0

    def defect(self, text: str) -> StructuralDefect | None:
        """Say what the test wants."""
        self.asked += 1
        return self.says


# Each reply has every fault to the right of the one that must be reported.
@pytest.mark.parametrize(
    ("finish", "text", "expected"),
    [
        (FinishReason.REFUSAL, "", StructuralDefect.REFUSED),
        (FinishReason.REFUSAL, "x" * 11, StructuralDefect.REFUSED),
        (FinishReason.REFUSAL, "\ud800", StructuralDefect.REFUSED),
        (FinishReason.REFUSAL, "{}", StructuralDefect.REFUSED),
        (FinishReason.LENGTH, "", StructuralDefect.CUT_OFF),
        (FinishReason.LENGTH, "x" * 11, StructuralDefect.CUT_OFF),
        (FinishReason.LENGTH, "\ud800", StructuralDefect.CUT_OFF),
        (FinishReason.LENGTH, "{}", StructuralDefect.CUT_OFF),
        *((finish, "", StructuralDefect.EMPTY) for finish in STOP),
        *((finish, " \r\n\t\u2028 " * 9, StructuralDefect.EMPTY) for finish in STOP),
        *((finish, "x" * 11, StructuralDefect.OVERSIZED) for finish in STOP),
        *((finish, "é" * 6, StructuralDefect.OVERSIZED) for finish in STOP),
        *((finish, "\ud800" * 11, StructuralDefect.OVERSIZED) for finish in STOP),
        *((finish, "a\ud800", StructuralDefect.NOT_TEXT) for finish in STOP),
    ],
)
def test_what_is_said_about_a_reply_comes_before_its_text(
    finish: FinishReason | None, text: str, expected: StructuralDefect
) -> None:
    """Refused, cut off, empty, oversized, no text: in this order, and all before any parsing."""
    contract = Contract(says=WRONG)
    data = text.encode("utf-8", "surrogatepass")
    assert judge_reply(Reply(text=text, finish_reason=finish), contract) == StructuralFailure(
        defect=expected,
        response_sha256=hashlib.sha256(data).hexdigest(),
        response_bytes=len(data),
    )
    assert contract.asked == 0


@pytest.mark.parametrize("finish", STOP)
@pytest.mark.parametrize("text", ["{}", "é" * 5, " {}\r\n", "\0"])
def test_the_contract_decides_about_a_whole_reply(finish: FinishReason | None, text: str) -> None:
    """A reply that came whole is what the response contract says, and its text stays exact."""
    reply = Reply(text=text, finish_reason=finish)
    assert judge_reply(reply, Contract()) == ModelCandidate.of(text)
    failure = judge_reply(reply, Contract(says=WRONG))
    assert isinstance(failure, StructuralFailure)
    assert failure.defect is WRONG


def test_no_contract_can_allow_more_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A contract may lower the limit of a reply, not raise it."""
    monkeypatch.setattr("notarius.contracts._reply.RESPONSE_MAX_BYTES", 4)
    failure = judge_reply(Reply(text="x" * 5), Contract(max_bytes=100))
    assert isinstance(failure, StructuralFailure)
    assert failure.defect is StructuralDefect.OVERSIZED


@given(first=USAGES, second=USAGES)
def test_a_sum_with_an_unknown_part_is_unknown(first: Usage, second: Usage) -> None:
    """Tokens add up where both are known; unknown plus anything is unknown, never 0."""
    total = first + second
    for field in ("input_tokens", "output_tokens"):
        parts = (getattr(first, field), getattr(second, field))
        assert getattr(total, field) == (None if None in parts else sum(parts))


@given(st.lists(USAGES, max_size=5))
def test_the_usage_of_an_operation_counts_every_attempt(usages: list[Usage]) -> None:
    """Failed attempts cost too; no attempts cost nothing; one unknown makes the sum unknown."""
    records = tuple(
        AttemptRecord(
            number=number,
            cause=AttemptCause.INITIAL,
            result=AttemptResult.PROVIDER_ERROR,
            request_sha256="0" * 64,
            request_messages=1,
            duration_ms=0,
            usage=usage,
        )
        for number, usage in enumerate(usages, 1)
    )
    inputs = [usage.input_tokens for usage in usages]
    known = [tokens for tokens in inputs if tokens is not None]
    total = total_usage(records)
    assert total.input_tokens == (sum(known) if len(known) == len(inputs) else None)
    assert c.Cancelled(records=records).usage == total


def test_a_request_after_the_first_bypasses_caches() -> None:
    """A retry that a cache answered would repeat the same defect."""
    messages = (c.Message(role=c.Role.USER, content="hi"),)
    for number in (1, 2, 7):
        request = c.ProducerRequest(messages=messages, number=number, cause=AttemptCause.INITIAL)
        assert request.bypass_cache is (number > 1)
        assert request.sha256 == c.Prompt.of("hi").sha256
