"""Arbitrary operations, in both drivers, against a plain account of what must happen."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from notarius.attempts import DEADLINE_CODE, PROVIDER_CODE, AttemptPolicy, TerminalPolicy
from notarius.contracts import (
    Accepted,
    AttemptResult,
    Cancelled,
    DeadlineExceededError,
    Failed,
    FellBack,
    FinishReason,
    Message,
    OperationCancelledError,
    ProducerRequest,
    Prompt,
    ProviderError,
    ProviderErrorKind,
    Reply,
    Role,
    Usage,
)

Play = Callable[..., Any]
UNICODE = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
SPACE = st.text(st.sampled_from(" \t\r\n"), max_size=3)
TOKENS = st.none() | st.integers(min_value=0, max_value=99)
MANY = settings(max_examples=6 * settings().max_examples)
VALID = ("bad", "again", "late_bad")
DEADLINE_S = 50.0
R = AttemptResult


@dataclass(frozen=True)
class Step:
    """One attempt: what the producer does, with a text of its own that can be recognised."""

    kind: str
    name: str
    text: str
    usage: Usage

    def __call__(self, world: Any, request: ProducerRequest) -> object:  # noqa: ANN401 - any world
        """Do it."""
        world.clock.advance(DEADLINE_S if self.kind.startswith("late") else 1.0)
        if self.kind.startswith("cancel"):
            world.token.cancel()
        match self.kind:
            case "provider":
                return ProviderError(ProviderErrorKind.RATE_LIMITED, status=429)
            case "late_error":
                return DeadlineExceededError(self.name)
            case "cancel_error":
                return OperationCancelledError(self.name)
            case "fault":
                return ZeroDivisionError(self.name)
            case "interrupt":
                return KeyboardInterrupt(self.name)
            case _:
                cut = FinishReason.LENGTH if self.kind == "cut" else FinishReason.STOP
                return Reply(text=self.text, finish_reason=cut, usage=self.usage)


@st.composite
def steps(draw: st.DrawFn) -> list[Step]:
    """Draw attempts that mostly go on, and an end at last."""
    going = st.sampled_from(["bad", "bad", "again", "prose", "cut", "blank", "late_bad"])
    ending = st.sampled_from(
        ["ok", "ok", "provider", "late_error", "cancel_reply", "cancel_error", "fault", "interrupt"]
    )
    kinds = [*draw(st.lists(going, max_size=5)), draw(ending)]
    drawn = []
    for number, kind in enumerate(kinds):
        name = f"<name-{number}>"
        key = {"late_bad": "bad", "cut": "ok", "cancel_reply": "ok"}.get(kind, kind)
        body = json.dumps({key: name, "x": draw(UNICODE)}, ensure_ascii=False)
        text = draw(SPACE) + {"blank": "", "prose": f"I think {name}"}.get(kind, body) + draw(SPACE)
        usage = Usage(input_tokens=draw(TOKENS), output_tokens=draw(TOKENS))
        drawn.append(Step(kind=kind, name=name, text=text, usage=usage))
    return drawn


PROMPTS = st.builds(
    lambda head, user: Prompt(messages=(*head, Message(role=Role.USER, content=user))),
    st.lists(st.builds(Message, role=st.sampled_from(Role), content=UNICODE), max_size=2),
    UNICODE,
)
POLICIES = st.builds(
    AttemptPolicy,
    normalize_retries=st.integers(min_value=0, max_value=5),
    terminal=st.sampled_from(TerminalPolicy),
    deadline_s=st.sampled_from([None, DEADLINE_S]),
)


@dataclass
class Account:
    """What must have happened, told without a machine; `applied` counts from 1."""

    results: list[AttemptResult]
    ended: type
    code: str | None = None
    value: str | None = None
    applied: int | None = None


# What ends an operation at once, whatever the budget.
ENDINGS: dict[str, tuple[AttemptResult, type, str | None]] = {
    "ok": (R.ACCEPTED, Accepted, None),
    "provider": (R.PROVIDER_ERROR, Failed, PROVIDER_CODE),
    "cancel_reply": (R.CANCELLED, Cancelled, None),
    "cancel_error": (R.CANCELLED, Cancelled, None),
    "interrupt": (R.CANCELLED, KeyboardInterrupt, None),
    "fault": (R.BROKEN, ZeroDivisionError, None),
    "late_error": (R.BROKEN, DeadlineExceededError, None),
}


def account(script: list[Step], policy: AttemptPolicy) -> Account:
    """Tell what must happen: the rules of the domain, one attempt after the other."""
    results: list[AttemptResult] = []
    valid: tuple[int, str] | None = None
    other: tuple[int, str] | None = None
    code, time_over = None, False
    for number, step in enumerate(script, 1):
        if time_over or (step.kind == "late_error" and policy.deadline_s):
            results += [] if time_over else [R.DEADLINE]
            code = DEADLINE_CODE
            break
        if step.kind in ENDINGS:
            result, ended, code = ENDINGS[step.kind]
            return Account([*results, result], ended, code, step.name)
        if step.kind in VALID:
            results.append(R.REFUSED)
            valid = (number, "unnamed" if step.kind == "again" else step.name)
            code = "groups_refused"
        else:
            results.append(R.STRUCTURAL)
            other, code = (number, "nothing"), "no_candidate"
        time_over = step.kind == "late_bad" and policy.deadline_s is not None
        if number > policy.normalize_retries:
            break
    found = valid or other
    if policy.terminal is TerminalPolicy.FAIL or found is None:
        return Account(results, Failed, code)
    return Account(results, FellBack, code, value=found[1], applied=found[0])


@MANY
@given(script=steps(), policy=POLICIES, prompt=PROMPTS)
def test_any_operation_ends_as_its_rules_demand(
    script: list[Step], policy: AttemptPolicy, prompt: Prompt, play: Play
) -> None:
    """Whatever happens, attempts, budget, ending, value and warning are those of the account."""
    expected = account(script, policy)
    played = play(*script, policy=policy, prompt=prompt)
    assert [record.result for record in played.records] == expected.results
    assert type(played.ended) is expected.ended
    # One request an attempt, one record a request, one event a record.
    assert len(played.requests) == len(played.records) == len(played.events)
    assert len(played.records) <= 1 + policy.normalize_retries
    if isinstance(played.ended, Accepted | FellBack):
        assert played.ended.value == [expected.value]
    if isinstance(played.ended, FellBack):
        assert played.ended.warning.code == expected.code
        assert played.ended.applied_attempt == expected.applied
    if isinstance(played.ended, Failed):
        assert played.ended.code == expected.code
    if isinstance(played.ended, Accepted | FellBack | Failed | Cancelled):
        assert played.ended.records == played.records
        assert played.ended.usage == _sum(played, script)


@MANY
@given(script=steps(), policy=POLICIES, prompt=PROMPTS)
def test_any_conversation_is_the_prompt_and_at_most_the_latest_exchange(
    script: list[Step], policy: AttemptPolicy, prompt: Prompt, play: Play
) -> None:
    """Latest only, byte for byte, prompt unchanged, and a correction only after a candidate."""
    original = tuple((message.role, message.content) for message in prompt.messages)
    played = play(*script, policy=policy, prompt=prompt)
    assert tuple((message.role, message.content) for message in prompt.messages) == original
    for number, request in enumerate(played.requests):
        sent = [(message.role, message.content) for message in request.messages]
        assert tuple(sent[: len(original)]) == original
        added = sent[len(original) :]
        before = script[number - 1] if number else None
        if before is None or before.kind not in {"bad", "late_bad"}:
            assert added == []
            assert played.records[number].guidance_sha256 is None
            continue
        (first, reply), (second, remark) = added
        assert (first, second) == (Role.ASSISTANT, Role.USER)
        assert reply == before.text
        assert [s.name for s in script if s.name in reply + remark] == [before.name]
        assert played.records[number].guidance_bytes == len(remark.encode())
    stored = msgspec.json.encode(played.records).decode()
    assert not any(step.name in stored for step in script)
    for step, record in zip(script, played.records, strict=False):
        if record.response_sha256 is not None:
            assert record.response_sha256 == sha256(step.text.encode()).hexdigest()


def _sum(played: Any, script: list[Step]) -> Usage:  # noqa: ANN401 - the play's own class
    """Add up what the replies cost; an attempt without a reply cost nobody knows what."""
    total = Usage(input_tokens=0, output_tokens=0)
    for step, record in zip(script, played.records, strict=False):
        total += Usage() if record.response_sha256 is None else step.usage
    return total
