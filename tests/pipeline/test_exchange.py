import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from notarius.attempts import AttemptPolicy, CancelToken, TerminalPolicy
from notarius.contracts import ProviderError, ProviderErrorKind, Reply, Usage
from notarius.pipeline import Settings, Summary, reconcile

Write = Callable[..., Path]
Scripted = Callable[..., Any]
Groups = Callable[..., str]
Go = Callable[..., Summary]
DOWN = ProviderError(ProviderErrorKind.UNREACHABLE)


@pytest.fixture
def go(candidate_file: Write, out: Path) -> Go:
    """Reconcile the usual people with a scripted model; other budgets than the first are 0."""

    def run(
        model: Callable[..., Any],
        *,
        normalize_retries: int = 2,
        terminal: TerminalPolicy = TerminalPolicy.FALLBACK,
        repair_retries: int = 0,
        transport_retries: int = 0,
        cancellation: CancelToken | None = None,
    ) -> Summary:
        settings = Settings(
            registry="npc",
            candidates=candidate_file(),
            out=out,
            policy=AttemptPolicy(normalize_retries=normalize_retries, terminal=terminal),
            repair_retries=repair_retries,
            transport_retries=transport_retries,
        )
        return reconcile(settings, backend=model, cancellation=cancellation)

    return run


def written(out: Path, name: str) -> Any:  # noqa: ANN401 - a JSON value
    """Return the content of an output file."""
    return json.loads((out / name).read_bytes())


def digest(text: str) -> str:
    """Return the SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def test_a_refused_answer_is_corrected_at_the_second_attempt(
    go: Go, out: Path, scripted: Scripted, groups: Groups
) -> None:
    """The second call is the original, the exact reply and one correction; then all is well."""
    bad = f"\r\n {groups(['c1', 'c2'], ['c3', 'c4'])} \n"
    model = scripted([bad, groups(["c1", "c2"])])
    summary = go(model)
    assert (summary.outcome, summary.attempts, summary.warnings) == ("accepted", 2, ())
    *original, reply, correction = model.messages(2)
    assert original == model.messages(1)
    assert reply == ("assistant", bad)
    assert correction[0] == "user"
    assert correction[1].strip()
    assert len(written(out, "registry.json")["entries"]) == 3


def test_the_correction_knows_only_the_final_reply_of_an_attempt(
    go: Go, scripted: Scripted, groups: Groups
) -> None:
    """A repair inside attempt 1 leaves no trace in attempt 2."""
    bad = groups(["c3", "c4"])
    model = scripted(["not json at all", bad, groups()])
    assert go(model, repair_retries=1).attempts == 2
    assert [role for role, _ in model.messages(2)][-2:] == ["assistant", "user"]
    assert model.messages(3)[-2] == ("assistant", bad)
    assert len(model.messages(3)) == len(model.messages(1)) + 2
    assert all("not json at all" not in content for _, content in model.messages(3))


def test_exhaustion_applies_what_is_safe_and_warns_once(
    go: Go, out: Path, scripted: Scripted, groups: Groups
) -> None:
    """After the last refusal safe groups apply, the others stay apart, one warning says so."""
    bad = groups(["c1", "c2"], ["c3", "c4"], ["c4", "invented-id"])
    summary = go(scripted([bad] * 3))
    assert (summary.outcome, summary.applied_attempt, summary.entries) == ("fell_back", 3, 3)
    (warning,) = written(out, "warnings.json")["warnings"]
    assert (warning["kind"], warning["refused_groups"]) == ("process", 2)
    assert warning["message"] == summary.warnings[0].message
    assert "separately" in warning["message"]
    assert any("Mr. Bennet" in sample for sample in warning["samples"])
    assert "invented-id" not in json.dumps(warning)
    sources = [entry["source_ids"] for entry in written(out, "registry.json")["entries"]]
    assert sources == [["e1-1", "e2-1"], ["e2-2"], ["e3-1"]]


def test_a_later_unusable_reply_does_not_undo_safe_groups(
    go: Go, out: Path, scripted: Scripted, groups: Groups
) -> None:
    """The latest valid answer is what is fallen back on; the warning tells the final cause."""
    summary = go(scripted([groups(["c1", "c2"], ["c3", "c4"]), "", "prose"]))
    assert (summary.outcome, summary.applied_attempt, summary.entries) == ("fell_back", 1, 3)
    attempts = written(out, "receipt.json")["attempts"]
    assert summary.warnings[0].code == attempts[-1]["reason_code"] != attempts[0]["reason_code"]


def test_without_any_usable_reply_everything_stays_separate(
    go: Go, out: Path, scripted: Scripted
) -> None:
    """Three unreadable replies are three fresh attempts, and a registry of single candidates."""
    model = scripted(["prose", "", "[]"])
    summary = go(model)
    assert (summary.outcome, summary.entries) == ("fell_back", 4)
    assert model.messages(1) == model.messages(2) == model.messages(3)
    causes = [attempt["cause"] for attempt in written(out, "receipt.json")["attempts"]]
    assert causes == ["initial", "structural_retry", "structural_retry"]


def test_a_fresh_retry_follows_a_corrective_one_that_failed(
    go: Go, out: Path, scripted: Scripted, groups: Groups
) -> None:
    """After an unreadable corrected answer the bare original is sent, without old feedback."""
    model = scripted([groups(["c3", "c4"]), "prose", groups(["c1", "c2"])])
    assert go(model).outcome == "accepted"
    assert model.messages(3) == model.messages(1)
    causes = [attempt["cause"] for attempt in written(out, "receipt.json")["attempts"]]
    assert causes == ["initial", "corrective_retry", "structural_retry"]


@pytest.mark.parametrize("last", ["fail", "provider"])
def test_a_failure_writes_no_registry(
    go: Go, out: Path, scripted: Scripted, groups: Groups, last: str
) -> None:
    """Without a result only the receipt is written, and it says why."""
    bad = groups(["c3", "c4"])
    model = scripted([bad, DOWN if last == "provider" else bad])
    summary = go(model, normalize_retries=1, terminal=TerminalPolicy.FAIL)
    assert (summary.outcome, summary.entries, summary.applied_attempt) == ("failed", None, None)
    assert sorted(path.name for path in out.iterdir()) == ["manifest.json", "receipt.json"]
    receipt = written(out, "receipt.json")
    assert receipt["failure"] == summary.failure
    assert receipt["failure"]["kind"] == {"fail": "exhausted"}.get(last, last)
    assert len(receipt["attempts"]) == 2


def test_the_receipt_holds_digests_of_what_was_really_sent(
    go: Go, out: Path, scripted: Scripted, groups: Groups, candidate_file: Write
) -> None:
    """Every digest and size can be recomputed from input, requests, replies and guidance."""
    replies = [groups(["c1", "c2"], ["c3", "c4"]), groups(["c9", "c1"]), "é prose"]
    model = scripted(replies)
    go(model)
    receipt = written(out, "receipt.json")
    assert receipt["input"]["sha256"] == hashlib.sha256(candidate_file().read_bytes()).hexdigest()
    assert receipt["prompt_sha256"] == receipt["attempts"][0]["request_sha256"]
    for number, (attempt, reply) in enumerate(zip(receipt["attempts"], replies, strict=True), 1):
        sent = [list(message) for message in model.messages(number)]
        plain = json.dumps(sent, ensure_ascii=False, separators=(",", ":"))
        assert attempt["number"] == number
        assert attempt["request_sha256"] == digest(plain)
        assert attempt["request_messages"] == len(sent)
        assert attempt["response_sha256"] == digest(reply)
        assert attempt["response_bytes"] == len(reply.encode())
        assert attempt["finish_reason"] == "stop"
        guidance = sent[-1][1] if number > 1 else None
        assert attempt["guidance_sha256"] == (guidance and digest(guidance))
        assert attempt["guidance_bytes"] == (guidance and len(guidance.encode()))
    assert [attempt["issue_counts"] for attempt in receipt["attempts"]] == [
        {"typed_application_refused": 1},
        {"unknown_candidate": 1},
        {},
    ]


def test_each_budget_is_accounted_for_apart(
    go: Go, out: Path, scripted: Scripted, groups: Groups
) -> None:
    """What was spent of the three budgets stands in the receipt, each under its own name."""
    busy = ProviderError(ProviderErrorKind.RATE_LIMITED, retry_after_s=0.0)
    model = scripted([busy, "no", groups(["c3", "c4"]), "no", busy, groups()])
    go(model, repair_retries=1, transport_retries=1)
    budgets = written(out, "receipt.json")["budgets"]
    assert budgets["normalize_retries"] == {"allowed": 2, "spent": 1}
    assert budgets["repair_retries"] == {"allowed_per_attempt": 1, "spent": 2}
    assert budgets["transport_retries"] == {"allowed_per_attempt": 1, "spent": 2}


def test_usage_is_summed_and_unknown_stays_unknown(
    go: Go, out: Path, scripted: Scripted, groups: Groups
) -> None:
    """Tokens of refused attempts count; a provider that says nothing is null, never 0."""
    known = Usage(input_tokens=100, output_tokens=7)
    replies = [Reply(text=groups(["c3", "c4"]), usage=known), Reply(text=groups(), usage=known)]
    go(scripted(replies))
    assert written(out, "receipt.json")["usage"] == {"input_tokens": 200, "output_tokens": 14}
    go(scripted([replies[0], Reply(text=groups())]))
    receipt = written(out, "receipt.json")
    assert receipt["attempts"][1]["usage"] is None
    assert receipt["usage"] is None


@pytest.mark.parametrize("when", ["before", "during"])
def test_a_cancel_leaves_no_result(
    go: Go, out: Path, scripted: Scripted, groups: Groups, when: str
) -> None:
    """A cancelled run writes its receipt with the attempts made, and no registry."""
    token = CancelToken()

    def cancelling() -> str:
        token.cancel()
        return groups(["c1", "c2"])

    if when == "before":
        token.cancel()
    model = scripted([groups(["c3", "c4"]), cancelling])
    summary = go(model, cancellation=token)
    assert (summary.outcome, summary.entries) == ("cancelled", None)
    receipt = written(out, "receipt.json")
    assert receipt["outcome"] == "cancelled"
    results = [attempt["result"] for attempt in receipt["attempts"]]
    assert results == ([] if when == "before" else ["refused", "cancelled"])
    assert len(model.calls) == len(results)


def test_hooks_hear_of_every_attempt(
    candidate_file: Write, out: Path, scripted: Scripted, groups: Groups
) -> None:
    """Progress and hooks see each attempt once, in order."""
    heard: list[tuple[str, int]] = []
    reconcile(
        Settings(registry="npc", candidates=candidate_file(), out=out),
        backend=scripted([groups(["c3", "c4"]), groups()]),
        starting=lambda request: heard.append(("starting", request.number)),
        hooks=[lambda record: heard.append((record.result.value, record.number))],
    )
    assert heard == [("starting", 1), ("refused", 1), ("starting", 2), ("accepted", 2)]
