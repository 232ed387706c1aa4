import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from notarius.attempts import AttemptPolicy, CancelToken, TerminalPolicy
from notarius.attempts.testing import (
    FakeClock,
    JsonObjectContract,
    ScriptedProducer,
    Turn,
    strategies,
)
from notarius.contracts import (
    AttemptCause,
    AttemptResult,
    Fallback,
    Message,
    ModelCandidate,
    NoReplyError,
    Normalized,
    NormalizeRetry,
    Produced,
    ProducerRequest,
    Prompt,
    Reply,
    Role,
    StructuralDefect,
    judge_reply,
)

Play = Callable[..., Any]
CONTRACT = JsonObjectContract()
REQUEST = ProducerRequest(
    messages=(Message(role=Role.USER, content="hi"),), number=1, cause=AttemptCause.INITIAL
)


class WantsEvenLength:
    """Accepts about every other candidate."""

    def normalize(self, produced: Produced) -> Normalized[str] | NormalizeRetry[str]:
        """Judge by the length of the text."""
        candidate = produced.result if isinstance(produced.result, ModelCandidate) else None
        if candidate is not None and len(candidate.text) % 2 == 0:
            return Normalized(value="all")
        return NormalizeRetry(
            reason_code="odd_length",
            operator_message="The length is odd.",
            fallback=Fallback(value="nothing", preserved="All were kept apart."),
            candidate=candidate,
            guidance=None if candidate is None else "Write one character more.",
        )


@given(strategies.valid_texts("<mark>"))
def test_a_valid_text_is_a_candidate_that_can_be_told_from_others(text: str) -> None:
    """It meets the contract of the helpers, and holds its marker."""
    assert isinstance(judge_reply(Reply(text=text), CONTRACT), ModelCandidate)
    assert "<mark>" in text


@given(strategies.reply_texts("<mark>"))
def test_every_text_is_marked_or_blank(text: str) -> None:
    """No text of a model goes unseen where none may be."""
    assert "<mark>" in text or not text.strip()


def test_replies_have_every_defect_that_a_reply_can_have() -> None:
    """Candidates, and each structural failure that the helpers' contract knows."""
    seen: Counter[object] = Counter()

    @settings(max_examples=200, database=None)
    @given(strategies.replies())
    def look(reply: Reply) -> None:
        found = judge_reply(reply, CONTRACT)
        seen[None if isinstance(found, ModelCandidate) else found.defect] += 1

    look()
    # The helpers' contract takes repeated keys and any depth, and replies are short.
    never = {StructuralDefect.OVERSIZED, StructuralDefect.REPEATED_KEY, StructuralDefect.TOO_DEEP}
    assert set(seen) == {None, *StructuralDefect} - never
    assert seen[None] > 20


def test_a_turn_takes_its_time_and_may_cancel() -> None:
    """What happens meanwhile has happened when the answer is there."""
    clock, token = FakeClock(), CancelToken()
    turns = [Turn(answer="{}", takes_s=2.5), Turn(answer=ZeroDivisionError(), cancels=True)]
    producer = ScriptedProducer([turn.step(clock, token) for turn in turns])
    answered = producer.produce(REQUEST, contract=CONTRACT, cancellation=token)
    assert answered.result == ModelCandidate.of("{}")
    assert (clock.now, token.cancelled) == (2.5, False)
    with pytest.raises(ZeroDivisionError):
        producer.produce(REQUEST, contract=CONTRACT, cancellation=token)
    assert (clock.now, token.cancelled) == (2.5, True)


def test_scripts_play_in_both_drivers_and_come_to_every_end(play: Play) -> None:
    """A script is long enough for any limits, and whatever can happen does."""
    seen: set[object] = set()

    @settings(max_examples=120, database=None)
    @given(script=strategies.scripts(), policy=strategies.policies(), prompt=strategies.prompts())
    def look(script: list[Turn], policy: AttemptPolicy, prompt: Prompt) -> None:
        def bound(turn: Turn) -> Callable[[Any, ProducerRequest], object]:
            return lambda world, request: turn.step(world.clock, world.token)(request)

        played = play(*map(bound, script), policy=policy, prompt=prompt, normalizer=judge)
        seen.update(record.result for record in played.records)
        if isinstance(played.ended, BaseException):
            # Without a deadline or a cancel a producer has no reason to end like this.
            assert isinstance(played.ended, NoReplyError)

    def judge(_world: object) -> WantsEvenLength:
        return WantsEvenLength()

    look()
    assert seen == set(AttemptResult)


def test_prompts_and_limits_are_of_every_kind() -> None:
    """Roles, an empty prompt, no retries and some, both terminal policies, time and none."""
    seen: set[object] = set()

    @settings(max_examples=100, database=None)
    @given(strategies.prompts(), strategies.policies(max_retries=2))
    def look(prompt: Prompt, policy: AttemptPolicy) -> None:
        seen.update(message.role for message in prompt.messages)
        seen.update([policy.normalize_retries, policy.terminal, policy.deadline_s is None])
        seen.add(prompt.messages[-1].content or "empty")

    look()
    assert seen >= {*Role, 0, 1, 2, *TerminalPolicy, "empty"}


@given(st.data())
def test_a_script_marks_each_turn(data: st.DataObject) -> None:
    """The text of a reply says which turn it is of."""
    for place, turn in enumerate(data.draw(strategies.scripts(max_size=8))):
        if isinstance(turn.answer, str):
            assert f"<turn-{place}>" in turn.answer


def test_hypothesis_is_needed_by_the_strategies_alone() -> None:
    """The package and its helpers import without hypothesis; the strategies say what is missing."""
    code = (
        "import sys\n"
        "sys.modules['hypothesis'] = None\n"
        "import notarius.attempts, notarius.attempts.testing\n"
        "try:\n"
        "    import notarius.attempts.testing.strategies\n"
        "except ModuleNotFoundError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert "needs hypothesis" in done.stdout
    assert "notarius-attempts[testing]" in done.stdout
