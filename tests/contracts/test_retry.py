import gc
import hashlib
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from notarius.contracts import (
    CORRECTION_MODE,
    ContractError,
    Fallback,
    IssueCount,
    IssueDetails,
    Message,
    ModelCandidate,
    NormalizeRetry,
    Prompt,
    Role,
    SemanticCorrection,
)

UNICODE = st.text(st.characters(exclude_categories=["Cs"]))
REPLIES = UNICODE.filter(str.strip) | st.sampled_from(
    [
        "\r\n\t{}\r\n",
        "```json\n{}\n```",
        "\ufeff{}",
        "{} \u2028",
        "e\u0301 \u00e9",
        "\0{}",
        "{}\x1b[0m",
    ]
)
# What `str.strip` leaves of these is visible, and none of them is a control.
PROSE = st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1)
CODES = st.from_regex(r"[a-z]{2,9}_[a-z]{2,9}", fullmatch=True)
CANDIDATE = ModelCandidate.of('{"duplicate_groups": []}')

Change = Callable[[str], str]


SOUND = NormalizeRetry(
    reason_code="bad_groups",
    operator_message="Two proposed groups were refused.",
    fallback=Fallback(value=["kept"], preserved="The candidates were kept apart."),
    candidate=CANDIDATE,
    guidance="Group 1 names an entry that is not in the list.",
)


def retry(**changes: object) -> NormalizeRetry[list[str]]:
    """Return a directive with guidance, changed."""
    return msgspec.structs.replace(SOUND, **changes)


def test_guidance_and_candidate_come_together_or_not_at_all() -> None:
    """Either alone is refused; both, and neither, are legal."""
    assert retry().guidance
    assert retry(candidate=None, guidance=None).candidate is None
    for alone in ("candidate", "guidance"):
        with pytest.raises(ContractError):
            retry(**{alone: None})


@pytest.mark.parametrize("missing", ["candidate", "guidance"])
def test_guidance_without_its_candidate_is_not_decoded(missing: str) -> None:
    """A stored directive that lost one of the two is refused, not completed by guessing."""
    plain = msgspec.to_builtins(SOUND)
    del plain[missing]
    for codec in (msgspec.json, msgspec.msgpack):
        with pytest.raises(msgspec.ValidationError):
            codec.decode(codec.encode(plain), type=NormalizeRetry[list[str]])


@pytest.mark.parametrize(
    "operator_text",
    ["bad_groups", "Two proposed groups were refused.", "some_category", "other_category"],
)
@pytest.mark.parametrize("change", [str, str.upper, str.title, str.swapcase])
def test_guidance_holds_no_operator_text(operator_text: str, change: Change) -> None:
    """Guidance with its own code, message or a category in it is refused, whatever the case."""
    fields = {
        "issues": (IssueDetails(category="some_category", group_index=0),),
        "issue_counts": (IssueCount(category="other_category", count=1),),
    }
    assert retry(**fields).guidance
    for text in (
        change(operator_text),
        f"See {change(operator_text)}!",
        f"x{change(operator_text)}x",
    ):
        with pytest.raises(ContractError):
            retry(guidance=text, **fields)


@given(code=CODES, before=PROSE, after=PROSE)
def test_no_code_gets_into_guidance(code: str, before: str, after: str) -> None:
    """A reason code or category is found anywhere in the guidance."""
    for fields in (
        {"reason_code": code},
        {"issues": (IssueDetails(category=code, group_index=0),)},
        {"issue_counts": (IssueCount(category=code, count=1),)},
    ):
        assert retry(**fields).guidance
        with pytest.raises(ContractError):
            retry(guidance=before + code + after, **fields)


def test_a_clone_is_equal_and_shares_nothing_mutable() -> None:
    """Changing the value of a clone's fallback leaves the original as it was."""
    original = retry()
    twin = original.clone()
    assert twin == original
    twin.fallback.value.append("more")
    assert original.fallback.value == ["kept"]


@given(
    system=UNICODE, user=UNICODE, reply=REPLIES, guidance=PROSE,
    middle=st.lists(st.tuples(st.sampled_from(Role), UNICODE), max_size=3),
)  # fmt: skip
def test_a_correction_is_the_original_then_the_exact_reply_then_one_user_message(
    system: str, user: str, middle: list[tuple[Role, str]], reply: str, guidance: str
) -> None:
    """The original messages, the reply's very bytes as the assistant, and the guidance follow."""
    messages = (
        Message(role=Role.SYSTEM, content=system),
        *(Message(role=role, content=text) for role, text in middle),
        Message(role=Role.USER, content=user),
    )
    prompt = Prompt(messages=messages)
    candidate = ModelCandidate.of(reply)
    correction = SemanticCorrection(prompt=prompt, candidate=candidate, guidance=guidance)
    *original, assistant, last = correction.messages
    assert tuple(original) == messages == prompt.messages
    assert assistant == Message(role=Role.ASSISTANT, content=reply)
    assert hashlib.sha256(assistant.content.encode()).hexdigest() == candidate.sha256
    assert last == Message(role=Role.USER, content=guidance)


def test_the_correction_mode_is_a_stable_identity() -> None:
    """The mode is a part of every policy's identity, so it can't be blank or change unseen."""
    assert CORRECTION_MODE == "complete_original_then_latest_exact_response_then_one_correction_v1"


def test_issues_are_none_of_the_garbage_collector_s_business() -> None:
    """It goes through no issue of a long reply: each would be looked at again and again."""
    ids = tuple("c1 c2".split())  # noqa: SIM905 - a tuple that stands in the code is not tracked anyway
    issue = IssueDetails(category="some_category", group_index=0, request_ids=ids)
    assert not gc.is_tracked(issue)
