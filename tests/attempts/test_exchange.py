from collections.abc import Callable
from hashlib import sha256
from typing import Any

import pytest

from notarius.attempts import AttemptPolicy
from notarius.contracts import (
    Accepted,
    AttemptCause,
    AttemptResult,
    FellBack,
    FinishReason,
    Message,
    ModelCandidate,
    Produced,
    Prompt,
    Reply,
    Role,
    StructuralDefect,
)

Play = Callable[..., Any]
PROMPT = Prompt(
    messages=(
        Message(role=Role.SYSTEM, content="\r\n rules "),
        Message(role=Role.USER, content="an example"),
        Message(role=Role.ASSISTANT, content="{}"),
        Message(role=Role.USER, content="the question\n"),
    )
)
BARE = len(PROMPT.messages)
FOUR = AttemptPolicy(normalize_retries=4)

INITIAL = AttemptCause.INITIAL
FRESH = AttemptCause.STRUCTURAL_RETRY
AGAIN = AttemptCause.MODULE_RETRY
CORRECTED = AttemptCause.CORRECTIVE_RETRY
CUT_OFF = Reply(text='{"ok": "never"}', finish_reason=FinishReason.LENGTH)

# Scripts that end in an accepted reply, and why each attempt is made.
SCRIPTS: list[tuple[list[object], list[AttemptCause]]] = [
    (['{"ok": "a"}'], [INITIAL]),
    (['{"bad": "a"}', '{"ok": "b"}'], [INITIAL, CORRECTED]),
    (['{"again": "a"}', '{"ok": "b"}'], [INITIAL, AGAIN]),
    (["", '{"ok": "b"}'], [INITIAL, FRESH]),
    (["no JSON", '{"ok": "b"}'], [INITIAL, FRESH]),
    ([CUT_OFF, '{"ok": "b"}'], [INITIAL, FRESH]),
    (['{"bad": "a"}', '{"bad": "b"}', '{"ok": "c"}'], [INITIAL, CORRECTED, CORRECTED]),
    (['{"bad": "a"}', "", '{"ok": "c"}'], [INITIAL, CORRECTED, FRESH]),
    (['{"bad": "a"}', '{"again": "b"}', '{"ok": "c"}'], [INITIAL, CORRECTED, AGAIN]),
    (["", '{"bad": "b"}', '{"ok": "c"}'], [INITIAL, FRESH, CORRECTED]),
    (
        ['{"bad": "a"}', "[]", '{"bad": "c"}', '{"again": "d"}', '{"ok": "e"}'],
        [INITIAL, CORRECTED, FRESH, CORRECTED, AGAIN],
    ),
]


@pytest.mark.parametrize(("script", "causes"), SCRIPTS)
def test_each_attempt_is_asked_as_its_cause_demands(
    script: list[object], causes: list[AttemptCause], play: Play
) -> None:
    """A correction shows the reply before it and one remark; any other retry is the bare prompt."""
    played = play(*script, policy=FOUR, prompt=PROMPT)
    assert isinstance(played.ended, Accepted)
    assert [request.cause for request in played.requests] == causes
    assert [request.number for request in played.requests] == list(range(1, len(script) + 1))
    for before, request in zip(["", *script], played.requests, strict=False):
        assert request.messages[:BARE] == PROMPT.messages
        added = request.messages[BARE:]
        if request.cause is not CORRECTED:
            assert added == ()
        else:
            reply, remark = added
            assert reply == Message(role=Role.ASSISTANT, content=str(before))
            assert remark.role is Role.USER


@pytest.mark.parametrize(("script", "causes"), SCRIPTS)
def test_each_attempt_leaves_its_provenance(
    script: list[object], causes: list[AttemptCause], play: Play
) -> None:
    """One record an attempt: digests of what was sent and received, and what came of it."""
    played = play(*script, policy=FOUR, prompt=PROMPT)
    assert [record.cause for record in played.records] == causes
    assert played.records == played.ended.records
    for step, request, record in zip(script, played.requests, played.records, strict=True):
        data = (step.text if isinstance(step, Reply) else str(step)).encode()
        assert record.number == request.number
        assert record.request_sha256 == request.sha256
        assert record.request_messages == len(request.messages)
        assert record.response_sha256 == sha256(data).hexdigest()
        assert record.response_bytes == len(data)
        if request.cause is CORRECTED:
            remark = request.messages[-1].content.encode()
            assert record.guidance_sha256 == sha256(remark).hexdigest()
            assert record.guidance_bytes == len(remark)
        else:
            assert (record.guidance_sha256, record.guidance_bytes) == (None, None)


def test_a_record_tells_what_was_refused(play: Play) -> None:
    """Result, reason, issue counts, defect and finish reason stand in the attempt's record."""
    played = play('{"bad": "a"}', CUT_OFF, '{"ok": "c"}')
    refused, cut_off, accepted = played.records
    assert refused.result is AttemptResult.REFUSED
    assert refused.reason_code == "groups_refused"
    assert [(c.category, c.count) for c in refused.issue_counts] == [("some_category", 2)]
    assert refused.structural_defect is None
    assert cut_off.result is AttemptResult.STRUCTURAL
    assert cut_off.structural_defect is StructuralDefect.CUT_OFF
    assert cut_off.finish_reason is FinishReason.LENGTH
    assert (cut_off.reason_code, cut_off.issue_counts) == ("no_candidate", ())
    assert accepted.result is AttemptResult.ACCEPTED
    assert (accepted.reason_code, accepted.issue_counts) == (None, ())


@pytest.mark.parametrize(
    "text",
    [
        '\r\n\t {"bad": "a"}\n\n',
        '{"bad":"a","x":"e\u0301 \u00e9 \u2028 \U0001f409 \u200b"}',
        '{"bad": "a", "bad": "a"}',
        '{"bad": "a", "x": "' + "y" * 40_000 + '"}',
    ],
)
def test_the_reply_goes_back_byte_for_byte(text: str, play: Play) -> None:
    """Nothing is stripped, normalised, parsed and written again, or shortened."""
    played = play(text, '{"ok": "b"}')
    assert played.requests[1].messages[-2].content.encode() == text.encode()
    assert played.records[0].response_sha256 == sha256(text.encode()).hexdigest()


def test_only_the_latest_reply_is_ever_sent(play: Play) -> None:
    """Neither replies nor guidance of earlier attempts pile up."""
    names = [f"proposal-{number}" for number in range(6)]
    played = play(
        *(f'{{"bad": "{name}"}}' for name in names), policy=AttemptPolicy(normalize_retries=5)
    )
    for number, request in enumerate(played.requests):
        sent = "".join(message.content for message in request.messages)
        assert [name for name in names if name in sent] == names[max(0, number - 1) : number]


def test_no_operator_text_is_ever_sent(play: Play) -> None:
    """Codes, categories, operator messages and fallback texts stay with the operator."""
    played = play('{"bad": "a"}', "", '{"bad": "c"}', policy=FOUR, prompt=Prompt.of("question"))
    sent = "".join(m.content for request in played.requests for m in request.messages)
    assert "a check" in sent.casefold()
    for private in ("groups_refused", "some_category", "was refused", "kept apart", "empty_reply"):
        assert private not in sent


def test_the_size_of_a_request_does_not_depend_on_the_attempt(play: Play) -> None:
    """Six attempts with replies of 40 KB: each corrective request is as long as the other."""
    replies = [f'{{"bad": "{number}", "x": "{"y" * 40_000}"}}' for number in range(6)]
    played = play(*replies, policy=AttemptPolicy(normalize_retries=5))
    sizes = [sum(len(m.content.encode()) for m in request.messages) for request in played.requests]
    assert len(sizes) == 6
    assert len(set(sizes[1:])) == 1


def test_what_the_caller_passed_in_is_unchanged(play: Play) -> None:
    """Prompt and policy are the same objects with the same content afterwards."""
    prompt, policy = Prompt.of("question", system="rules"), AttemptPolicy(normalize_retries=3)
    twins = (Prompt.of("question", system="rules"), AttemptPolicy(normalize_retries=3))
    produced = Produced(result=ModelCandidate.of('{"bad": "a"}'), repairs=2)
    played = play(produced, '{"bad": "b"}', "", "", prompt=prompt, policy=policy)
    assert isinstance(played.ended, FellBack)
    assert (prompt, policy) == twins
    assert produced == Produced(result=ModelCandidate.of('{"bad": "a"}'), repairs=2)
    assert played.judged[0] is produced
