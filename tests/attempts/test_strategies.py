import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

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
    DeadlineExceededError,
    Fallback,
    FinishReason,
    Message,
    ModelCandidate,
    NoReplyError,
    Normalized,
    NormalizeRetry,
    OperationCancelledError,
    Produced,
    ProducerRequest,
    Prompt,
    ProviderError,
    ProviderErrorKind,
    Reply,
    Role,
    StructuralDefect,
    StructuralFailure,
    judge_reply,
)

T = TypeVar("T")
Play = Callable[..., Any]
CONTRACT = JsonObjectContract()
REQUEST = ProducerRequest(
    messages=(Message(role=Role.USER, content="hi"),), number=1, cause=AttemptCause.INITIAL
)


SAYINGS = {"\r\n", "\ufeff", "e\u0301", "\u2028\u202e", "\U0001f409", "\x00", "</assistant>"}
COUNTS = {0, 1, 2, 3}


def drawn(strategy: SearchStrategy[T], count: int = 300) -> list[T]:
    """Return many values of a strategy, the same on every run."""
    found: list[T] = []

    @settings(max_examples=count, database=None)
    @given(strategy)
    def look(value: T) -> None:
        found.append(value)

    look()
    return found


def texts_of(answers: list[Any]) -> list[str]:
    """Return every text of a model in what producers answered."""
    found = []
    for answer in answers:
        if isinstance(answer, str):
            found.append(answer)
        elif isinstance(answer, Reply):
            found.append(answer.text)
        elif isinstance(answer, Produced) and isinstance(answer.result, ModelCandidate):
            found.append(answer.result.text)
    return found


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


def test_prompts_are_of_every_kind() -> None:
    """One to three messages of any roles, with short texts and with each that must survive."""
    found = drawn(strategies.prompts(), 600)
    messages = [message for prompt in found for message in prompt.messages]
    assert {len(prompt.messages) for prompt in found} == {1, 2, 3}
    assert {message.role for message in messages} == set(Role)
    contents = {message.content for message in messages}
    assert contents > SAYINGS
    assert {len(content) for content in contents - SAYINGS} == set(range(9))


def test_limits_are_of_every_kind() -> None:
    """No retries and some, both terminal policies, little time, much and without an end."""
    found = drawn(strategies.policies())
    assert {policy.normalize_retries for policy in found} == {0, 1, 2, 3, 4}
    assert {policy.terminal for policy in found} == set(TerminalPolicy)
    assert {policy.deadline_s for policy in found} == {None, 10.0, 1000.0}
    fewer = drawn(strategies.policies(max_retries=2))
    assert {policy.normalize_retries for policy in fewer} == {0, 1, 2}


def test_valid_texts_are_written_in_every_way() -> None:
    """With space on either side, and with characters outside ASCII both plain and escaped."""
    found = drawn(strategies.valid_texts(), 600)
    spaces = {"", " ", "\n", "\r\n\t "}
    assert {text[: text.index("{")] for text in found} == spaces
    assert {text[text.rindex("}") + 1 :] for text in found} == spaces
    assert {json.loads(text)["said"] for text in found} > SAYINGS
    dragons = [text for text in found if json.loads(text)["said"] == "\U0001f409"]
    assert {text.isascii() for text in dragons} == {True, False}


def test_other_texts_are_of_every_form() -> None:
    """Fenced, introduced, twice, in a list, behind a mark, broken at the end, cut short, blank."""
    found = drawn(strategies.reply_texts("<mark>"), 600)
    one = r'\s*\{"said": "<mark>[^"]*"\}\s*'
    # A quotation mark that is escaped, and a text that holds one, are left out.
    forms = {re.sub(one, "OBJECT", text) for text in found if '\\"' not in text}
    assert forms >= {
        "OBJECT",
        "OBJECTOBJECT",
        "[OBJECT]",
        "\ufeffOBJECT",
        "OBJECT\ud800",
        "```jsonOBJECT```",
        "",
        " \n",
    }
    cut = [text for text in found if text[:1].isspace() and re.fullmatch(one, f"{text}}}")]
    assert cut


def test_what_producers_answer_is_of_every_kind() -> None:
    """Each ending, defect and error is drawn, and each small count of what was spent."""
    replied = drawn(strategies.replies())
    assert {reply.finish_reason for reply in replied} == {None, *FinishReason}
    produced = drawn(strategies.produced())
    assert {one.finish_reason for one in produced} == {None, *FinishReason}
    failures = [one.result for one in produced if isinstance(one.result, StructuralFailure)]
    assert 0 < len(failures) < len(produced)
    assert {failure.defect for failure in failures} == set(StructuralDefect)
    assert {failure.response_bytes for failure in failures} == COUNTS
    raised = drawn(strategies.errors())
    assert {type(error) for error in raised} == {
        ProviderError,
        DeadlineExceededError,
        OperationCancelledError,
    }
    refused = [error for error in raised if isinstance(error, ProviderError)]
    assert {error.kind for error in refused} == set(ProviderErrorKind)
    assert {error.status for error in refused} == {None, 401, 429, 500}
    for spent in (produced, raised):
        assert {one.repairs for one in spent} == {one.transport_retries for one in spent} == COUNTS
    for answered in (replied, produced):
        usages = [one.usage for one in answered]
        assert {usage.input_tokens for usage in usages} == {None, *COUNTS}
        assert {usage.output_tokens for usage in usages} == {None, *COUNTS}


def test_turns_are_of_every_kind() -> None:
    """Everything that a producer may answer, at once and late, and now and then a cancel."""
    found = drawn(strategies.turns())
    kinds = {str, Reply, Produced, ProviderError, DeadlineExceededError, OperationCancelledError}
    assert {type(turn.answer) for turn in found} == kinds
    assert {turn.takes_s for turn in found} == {0.0, 0.5, 9.0, 2000.0}
    assert 0 < sum(turn.cancels for turn in found) < len(found) / 2


@pytest.mark.parametrize(
    "strategy",
    [strategies.reply_texts, strategies.replies, strategies.produced, strategies.turns],
)
def test_every_answer_is_marked(strategy: Callable[..., SearchStrategy[Any]]) -> None:
    """Each text that is not blank holds the marker, and nothing is said where none is given."""
    marked = [getattr(one, "answer", one) for one in drawn(strategy("<mark>"))]
    assert all("<mark>" in text or not text.strip() for text in texts_of(marked))
    plain = [getattr(one, "answer", one) for one in drawn(strategy())]
    assert any('{"said": ""}' in text for text in texts_of(plain))
    assert not any("None" in text for text in texts_of(plain))


def test_scripts_are_as_long_as_wanted() -> None:
    """Five turns, or as many as are said."""
    assert {len(script) for script in drawn(strategies.scripts(), 20)} == {5}
    sizes = {len(script) for script in drawn(strategies.scripts(min_size=1, max_size=3), 20)}
    assert sizes == {1, 2, 3}


@given(st.data())
def test_a_script_marks_each_turn(data: st.DataObject) -> None:
    """The text of a reply says which turn it is of."""
    for place, turn in enumerate(data.draw(strategies.scripts(max_size=8))):
        for text in texts_of([turn.answer]):
            assert f"<turn-{place}>" in text or not text.strip()


@pytest.mark.parametrize(
    ("missing", "told"), [("hypothesis", True), ("hypothesis.strategies", False)]
)
def test_hypothesis_is_needed_by_the_strategies_alone(missing: str, told: bool) -> None:
    """The package and its helpers import without hypothesis; the strategies say what is missing.

    What is missing in an installed hypothesis is not theirs to explain.
    """
    code = (
        "import sys\n"
        f"sys.modules[{missing!r}] = None\n"
        "import notarius.attempts, notarius.attempts.testing\n"
        "try:\n"
        "    import notarius.attempts.testing.strategies\n"
        "except ImportError as error:\n"
        "    print(error.name, error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout.startswith(missing)
    assert ("needs hypothesis" in done.stdout) is told
    assert ("notarius-attempts[testing]" in done.stdout) is told
