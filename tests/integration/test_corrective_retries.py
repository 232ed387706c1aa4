import hashlib
import json
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from notarius.contracts import (
    GUIDANCE_MAX_BYTES,
    SAMPLE_MAX_BYTES,
    SAMPLES_MAX,
    WARNING_MESSAGE_MAX_BYTES,
    Accepted,
    AttemptCause,
    FellBack,
    FinishReason,
    Reply,
    Role,
    StructuralDefect,
)
from notarius.registries import CURRENCY_GUIDANCE, INVALID_OUTPUT, UNSAFE_GROUPS
from notarius.semanticreconcile import REPLY_MAX_BYTES, IssueCategory

Play = Callable[..., SimpleNamespace]
Groups = Callable[..., str]
NONE = '{"duplicate_groups": []}'


@pytest.fixture
def defective(groups: Groups) -> dict[IssueCategory, str]:
    """A proposal for each category that has a defect of it."""
    return {
        IssueCategory.UNKNOWN_CANDIDATE: groups(["c1", "c99"]),
        IssueCategory.REPEATED_CANDIDATE: groups(["c1", "c2", "c2"]),
        IssueCategory.TOO_FEW_CANDIDATES: groups(["c1"]),
        IssueCategory.CANONICAL_NOT_IN_GROUP: groups(["c1", "c2"], canonical="c5"),
        IssueCategory.OVERLAPPING_GROUPS: groups(["c1", "c2"], ["c2", "c5"]),
        IssueCategory.REPEATED_GROUP: groups(["c1", "c2"], ["c2", "c1"], canonical="c1"),
        IssueCategory.TYPED_APPLICATION_REFUSED: groups(["c3", "c4"]),
    }


@pytest.mark.parametrize("category", IssueCategory)
def test_every_defect_is_answered_with_the_exact_reply_and_prose(
    play: Play, kind: str, defective: dict[IssueCategory, str], category: IssueCategory
) -> None:
    """Attempt 2 is the original, the exact reply and guidance; no code reaches the model."""
    bad = f"\n {defective[category]}\r\n"
    got = play(kind, [bad, NONE])
    assert isinstance(got.outcome, Accepted)
    assert category in [issue.category for issue in got.records[0].issue_counts]
    reply, guidance = got.added[1]
    assert (reply.role, reply.content, guidance.role) == (Role.ASSISTANT, bad, Role.USER)
    assert got.calls[1].messages[:-2] == got.calls[0].messages == got.original
    assert guidance.content.strip()
    assert got.records[1].guidance_sha256 == hashlib.sha256(guidance.content.encode()).hexdigest()
    sent = " ".join(message.content for call in got.calls for message in call.messages)
    assert [code for code in (*IssueCategory, UNSAFE_GROUPS, INVALID_OUTPUT) if code in sent] == []


def test_every_category_has_its_own_words(
    play: Play, kind: str, defective: dict[IssueCategory, str]
) -> None:
    """Seven defects are explained in seven different ways."""
    assert set(defective) == set(IssueCategory)
    said = {play(kind, [bad, NONE]).added[1][1].content for bad in defective.values()}
    assert len(said) == len(IssueCategory)


STRUCTURAL = {
    StructuralDefect.EMPTY: " \n",
    StructuralDefect.CUT_OFF: Reply(text=NONE, finish_reason=FinishReason.LENGTH),
    StructuralDefect.REFUSED: Reply(text=NONE, finish_reason=FinishReason.REFUSAL),
    StructuralDefect.OVERSIZED: " " * REPLY_MAX_BYTES + NONE,
    StructuralDefect.NOT_TEXT: '{"duplicate_groups": [], "x": "\ud800"}',
    StructuralDefect.NOT_JSON: f"```json\n{NONE}\n```",
    StructuralDefect.REPEATED_KEY: '{"duplicate_groups": [], "duplicate_groups": []}',
    StructuralDefect.TOO_DEEP: '{"duplicate_groups": ' + "[" * 10**5 + "]" * 10**5 + "}",
    StructuralDefect.WRONG_SHAPE: '[{"entity": 1}]',
}


@pytest.mark.parametrize("defect", StructuralDefect)
def test_a_structural_failure_is_retried_without_feedback(
    play: Play, kind: str, defect: StructuralDefect
) -> None:
    """Where there is no valid candidate the bare original prompt is sent again."""
    reply = STRUCTURAL[defect]
    if defect is StructuralDefect.TOO_DEEP:
        # Deep nesting where any value may stand; elsewhere the shape is wrong already.
        reply = '{"duplicate_groups": [], "x": ' + "[" * 10**5 + "]" * 10**5 + "}"
    got = play(kind, [reply, NONE])
    assert isinstance(got.outcome, Accepted)
    assert [record.structural_defect for record in got.records] == [defect, None]
    assert got.records[1].cause is AttemptCause.STRUCTURAL_RETRY
    assert got.records[1].guidance_sha256 is None
    assert got.added == [(), ()]


def test_money_has_a_rule_of_its_own_for_items_alone(play: Play, groups: Groups) -> None:
    """Mixed coins, or coins and a thing, add the item rule after the shared words."""
    mixed = {
        "coins": groups(["c3", "c4"]),
        "coin and thing": groups(["c3", "c6"]),
        "coin, thing and invention": groups(["c3", "c6", "c99"]),
    }
    for name, bad in mixed.items():
        guidance = play("item", [bad, NONE]).added[1][1].content
        assert guidance.count(CURRENCY_GUIDANCE) == 1, name
        assert guidance.index("Group 1") < guidance.index(CURRENCY_GUIDANCE), name
    for bad in (groups(["c1", "c99"]), groups(["c3"]), groups(["c1", "c2"], ["c2", "c5"])):
        assert CURRENCY_GUIDANCE not in play("item", [bad, NONE]).added[1][1].content


@pytest.mark.parametrize("other", ["npc", "location"])
def test_other_registries_know_no_money(play: Play, groups: Groups, other: str) -> None:
    """The same names in another registry get the shared words alone."""
    names = ["Cell 3", "Cell 4", "Mr. Gold", "Mrs. Gold", "5 gp", "3 sp"]
    bad = groups(["c1", "c2", "c3", "c4", "c5", "c6"])
    guidance = play(other, [bad, NONE], records=names).added[1][1].content
    assert "money" not in guidance
    assert "coin" not in guidance


def test_only_the_configured_budget_is_spent(play: Play, kind: str, groups: Groups) -> None:
    """Corrections come out of the stage's retries: N retries are N + 1 calls, 0 is one call."""
    for retries in range(4):
        got = play(kind, [groups(["c3", "c4"])] * 4, normalize_retries=retries, repair_retries=3)
        assert len(got.calls) == retries + 1
        assert [len(added) for added in got.added] == [0] + [2] * retries
        assert [record.repairs for record in got.records] == [0] * (retries + 1)


def test_exhaustion_keeps_what_is_safe_and_explains_the_rest(
    play: Play, kind: str, groups: Groups
) -> None:
    """Safe groups apply, affected candidates stay apart, one bounded warning tells both."""
    bad = groups(["c1", "c2"], ["c3", "c4"], ["c5", "INVENTED"])
    got = play(kind, [groups(["c9", "c8"]), "prose", bad])
    assert isinstance(got.outcome, FellBack)
    entries = got.outcome.value.entries
    assert [entry.source_ids for entry in entries][:3] == [("s1", "s2"), ("s3",), ("s4",)]
    warning = got.outcome.warning
    assert (warning.code, warning.refused_groups) == (UNSAFE_GROUPS, 2)
    assert got.outcome.applied_attempt == 3
    for told in ("not offered", "can't be one entry", "separately"):
        assert told in warning.message
    names = [candidate.name for candidate in got.candidates]
    assert all(name in " ".join(warning.samples) for name in names[2:5])
    assert all(name not in " ".join(warning.samples) for name in names[:2])
    assert "INVENTED" not in repr(warning)


def test_the_warning_tells_the_final_cause(play: Play, kind: str, groups: Groups) -> None:
    """After a refused proposal and a cut-off reply the warning is about the cut-off one."""
    cut_off = Reply(text="{", finish_reason=FinishReason.LENGTH)
    got = play(kind, [groups(["c1", "c2"], ["c3", "c4"]), cut_off], normalize_retries=1)
    assert got.outcome.warning.code == INVALID_OUTPUT
    assert got.outcome.applied_attempt == 1
    assert "cut off" in got.outcome.warning.message
    assert "separately" in got.outcome.warning.message
    assert got.outcome.value.entries[0].source_ids == ("s1", "s2")


def test_messages_are_bounded_for_every_reply(play: Play, kind: str) -> None:
    """Guidance and warning have a size that does not depend on how much is wrong."""
    names = [f"{'long ' * 100}name {number}" for number in range(40)]
    lists = [["c1", "c2", "c3"], *([f"c{n % 40 + 1}", f"x{n}"] for n in range(4999))]
    bad = json.dumps(
        {"duplicate_groups": [{"candidate_ids": i, "canonical_id": i[0]} for i in lists]}
    )
    got = play(kind, [bad, bad], records=names, normalize_retries=1)
    guidance = got.added[1][1].content
    assert len(guidance.encode()) <= GUIDANCE_MAX_BYTES
    assert '{"duplicate_groups": [' in guidance
    warning = got.outcome.warning
    assert len(warning.message.encode()) <= WARNING_MESSAGE_MAX_BYTES
    assert len(warning.samples) <= SAMPLES_MAX
    assert all(len(sample.encode()) <= SAMPLE_MAX_BYTES for sample in warning.samples)
    assert warning.refused_groups == 5000
