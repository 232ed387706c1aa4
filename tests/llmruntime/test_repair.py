import re
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from notarius.contracts import (
    ContractError,
    FinishReason,
    ModelCandidate,
    Reply,
    Role,
    StructuralDefect,
    StructuralFailure,
    Usage,
)
from notarius.llmruntime import AsyncStructuredProducer, StructuredProducer

Ask = Callable[..., SimpleNamespace]
GOOD = '{"gadget": "lamp"}'
# A reply for each defect that a model can be shown its reply about.
REPAIRABLE = {
    "canary no json": StructuralDefect.NOT_JSON,
    '{"canary": 1}': StructuralDefect.WRONG_SHAPE,
    '["canary"]': StructuralDefect.WRONG_SHAPE,
    '{"gadget": "canary", "gadget": "b"}': StructuralDefect.REPEATED_KEY,
    GOOD + GOOD: StructuralDefect.NOT_JSON,
}
# Replies that can't or must not be sent back.
UNSENDABLE = {
    StructuralDefect.EMPTY: Reply(text=" \n\t"),
    StructuralDefect.CUT_OFF: Reply(text=GOOD, finish_reason=FinishReason.LENGTH),
    StructuralDefect.OVERSIZED: Reply(text="{" + "x" * 200),
    StructuralDefect.NOT_TEXT: Reply(text='{"gadget": "\ud800"}'),
}


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        f"\ufeff {GOOD}"[1:],
        f"\r\n\t {GOOD} \n\n",
        '{"gadget":\r\n"e\u0301 \u00e9 \N{DRAGON} \u2028 \\u00e9"}',
    ],
)
def test_the_candidate_is_the_exact_text_of_the_reply(ask: Ask, world: str, text: str) -> None:
    """White space, line ends, escapes and unusual characters of a reply are kept."""
    got = ask([text], world=world)
    assert got.produced.result == ModelCandidate.of(text)
    assert [call.messages for call in got.calls] == [got.request.messages]


def test_the_model_is_told_the_schema_of_the_contract(ask: Ask, world: str) -> None:
    """Every call carries the schema that the reply is judged by."""
    got = ask(["no", GOOD], world=world, repair_retries=1)
    assert [(call.schema_name, call.schema_json) for call in got.calls] == [
        ("gadget", '{"type":"object","required":["gadget"]}')
    ] * 2


@pytest.mark.parametrize("text", REPAIRABLE)
def test_without_repair_budget_one_call_is_all(ask: Ask, world: str, text: str) -> None:
    """A repair budget of 0 turns repair off: the first invalid reply is the result."""
    got = ask([text], world=world, transport_retries=5)
    assert got.produced.result.defect is REPAIRABLE[text]
    assert (len(got.calls), got.produced.repairs) == (1, 0)


@pytest.mark.parametrize("text", REPAIRABLE)
def test_a_repair_sends_the_exact_invalid_reply_and_one_message(
    ask: Ask, world: str, text: str
) -> None:
    """A repair is the request, the reply as the assistant's words, and one user message."""
    got = ask([text, GOOD], world=world, repair_retries=1)
    assert got.produced.result == ModelCandidate.of(GOOD)
    assert got.produced.repairs == 1
    *original, reply, repair = got.calls[1].messages
    assert tuple(original) == got.request.messages
    assert (reply.role, reply.content) == (Role.ASSISTANT, text)
    assert repair.role is Role.USER


@pytest.mark.parametrize("text", REPAIRABLE)
def test_the_repair_message_is_closed(ask: Ask, text: str) -> None:
    """No code, defect name, field path or text of the reply stands in a repair message."""
    got = ask([text, GOOD], repair_retries=1)
    said = got.calls[1].messages[-1].content
    assert said.strip()
    assert len(said.encode()) < 500
    assert "canary" not in said
    assert "gadget" not in said
    assert re.search(r"\w_\w|[$`<>{}\[\]]|://|Error|Exception", said) is None


def test_the_message_depends_on_the_kind_of_defect_alone(ask: Ask) -> None:
    """Two replies with the same defect are answered with the same words."""
    said = {
        ask([text, GOOD], repair_retries=1).calls[1].messages[-1].content
        for text in ('{"a": 1}', '{"completely": ["different"]}')
    }
    assert len(said) == 1


def test_only_the_latest_invalid_reply_is_sent_back(ask: Ask, world: str) -> None:
    """Repairs do not pile up: the third call knows nothing of the first reply."""
    got = ask(["first", '["second"]', GOOD], world=world, repair_retries=2)
    assert [len(call.messages) for call in got.calls] == [2, 4, 4]
    assert [message.content for message in got.calls[2].messages].count('["second"]') == 1
    assert all("first" not in message.content for message in got.calls[2].messages)


@pytest.mark.parametrize("defect", UNSENDABLE)
def test_a_reply_that_can_not_be_sent_back_is_asked_for_anew(
    ask: Ask, world: str, defect: StructuralDefect
) -> None:
    """Empty, cut-off, oversized and non-Unicode replies are never sent back."""
    assert ask([UNSENDABLE[defect]]).produced.result.defect is defect
    got = ask(["not json", UNSENDABLE[defect], GOOD], world=world, repair_retries=2)
    assert [len(call.messages) for call in got.calls] == [2, 4, 2]
    assert got.calls[2].messages == got.request.messages
    assert got.produced.result == ModelCandidate.of(GOOD)


def test_a_refusal_is_final(ask: Ask, world: str) -> None:
    """A model that refused is not asked to repair its answer, whatever budget is left."""
    refusal = Reply(text=GOOD, finish_reason=FinishReason.REFUSAL)
    got = ask(["no", refusal], world=world, repair_retries=5)
    assert got.produced.result.defect is StructuralDefect.REFUSED
    assert (len(got.calls), got.produced.repairs) == (2, 1)


def test_the_last_failure_is_the_result_when_the_budget_is_gone(ask: Ask, world: str) -> None:
    """When repairs are spent, size and digest are those of the last reply."""
    got = ask(["first", "the last"], world=world, repair_retries=1)
    assert isinstance(got.produced.result, StructuralFailure)
    assert got.produced.result.response_bytes == len("the last")
    assert got.produced.repairs == 1


def test_usage_is_summed_over_all_calls(ask: Ask, world: str) -> None:
    """Tokens of replies that did not pass are counted too."""
    steps = [
        Reply(text="no", usage=Usage(input_tokens=10, output_tokens=1)),
        Reply(text=GOOD, usage=Usage(input_tokens=20, output_tokens=2)),
    ]
    got = ask(steps, world=world, repair_retries=1)
    assert got.produced.usage == Usage(input_tokens=30, output_tokens=3)


def test_unknown_usage_stays_unknown(ask: Ask, world: str) -> None:
    """One call whose tokens nobody told makes the sum unknown, not smaller."""
    steps = [
        Reply(text="no", usage=Usage(output_tokens=1)),
        Reply(text=GOOD, usage=Usage(input_tokens=20, output_tokens=2)),
    ]
    got = ask(steps, world=world, repair_retries=1)
    assert got.produced.usage == Usage(input_tokens=None, output_tokens=3)


def test_the_finish_reason_is_that_of_the_last_reply(ask: Ask, world: str) -> None:
    """What the provider said about an earlier reply is not told of the last."""
    steps = [
        Reply(text=GOOD, finish_reason=FinishReason.LENGTH),
        Reply(text=GOOD, finish_reason=FinishReason.STOP),
    ]
    got = ask(steps, world=world, repair_retries=1)
    assert got.produced.finish_reason is FinishReason.STOP


@pytest.mark.parametrize("producer", [StructuredProducer, AsyncStructuredProducer])
@pytest.mark.parametrize("budgets", [{"repair_retries": -1}, {"transport_retries": -1}])
def test_a_budget_is_not_negative(producer: Callable[..., object], budgets: dict[str, int]) -> None:
    """A negative number of retries is the caller's mistake."""
    with pytest.raises(ContractError):
        producer(object(), **budgets)
