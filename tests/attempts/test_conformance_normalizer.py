"""The suite passes for a normalizer that keeps its rules; each rule fails for one that does not."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from notarius.attempts.testing import JsonObjectContract, NormalizerConformance
from notarius.contracts import (
    Fallback,
    ModelCandidate,
    Normalized,
    Normalizer,
    NormalizeRetry,
    Produced,
    ResponseContract,
    StructuralDefect,
    StructuralFailure,
)

Verdict = Normalized[list[str]] | NormalizeRetry[list[str]]
RULES = [name for name in dir(NormalizerConformance) if name.startswith("test_")]
IN_WORDS = r"[a-z] [a-z]"


class Judge:
    """Accepts `{"good": 1}`, corrects every other candidate."""

    def normalize(self, produced: Produced) -> Verdict:
        """Judge."""
        if not isinstance(produced.result, ModelCandidate):
            return self.refuse("no_candidate", None)
        if "good" in produced.result.text:
            return Normalized(value=["all"])
        return self.refuse("bad_groups", produced.result)

    def refuse(self, code: str, candidate: ModelCandidate | None) -> NormalizeRetry[list[str]]:
        """Ask again."""
        return NormalizeRetry(
            reason_code=code,
            operator_message="Refused.",
            fallback=Fallback(value=[code], preserved="Kept apart."),
            candidate=candidate,
            guidance=None if candidate is None else "A check found a mistake.",
        )


class TestJudge(NormalizerConformance):
    """A normalizer that keeps every rule."""

    accepted_reply = '{"good": 1}'
    refused_reply = '{"bad": 1}'

    def make_normalizer(self) -> Normalizer[Any]:
        """Return it."""
        return Judge()

    def make_contract(self) -> ResponseContract:
        """Any object will do."""
        return JsonObjectContract()


def test_a_normalizer_is_given_what_a_producer_could_give() -> None:
    """Both examples, and failures of every kind, of which nobody has seen a reply."""
    seen: list[ModelCandidate | StructuralFailure] = []

    class Watching(Judge):
        def normalize(self, produced: Produced) -> Verdict:
            seen.append(produced.result)
            return super().normalize(produced)

    class Suite(TestJudge):
        def make_normalizer(self) -> Normalizer[Any]:
            return Watching()

    for rule in RULES:
        getattr(Suite(), rule)()
    texts = {result.text for result in seen if isinstance(result, ModelCandidate)}
    assert texts == {TestJudge.accepted_reply, TestJudge.refused_reply}
    failures = [result for result in seen if isinstance(result, StructuralFailure)]
    assert {failure.defect for failure in failures} == set(StructuralDefect)
    assert {failure.response_bytes for failure in failures} == {0}


def accepts_all(judge: Judge, produced: Produced) -> Verdict:
    """Accept even what is no candidate."""
    return Normalized(value=["all"])


def refuses_all(judge: Judge, produced: Produced) -> Verdict:
    """Accept nothing."""
    result = produced.result
    return judge.refuse("bad_groups", result if isinstance(result, ModelCandidate) else None)


def strips(judge: Judge, produced: Produced) -> Verdict:
    """Give back another text than the reply's."""
    verdict = Judge.normalize(judge, produced)
    if isinstance(verdict, NormalizeRetry) and verdict.candidate is not None:
        other = ModelCandidate.of(verdict.candidate.text.replace(" ", ""))
        return msgspec.structs.replace(verdict, candidate=other)
    return verdict


def silent(judge: Judge, produced: Produced) -> Verdict:
    """Give no guidance."""
    verdict = Judge.normalize(judge, produced)
    if isinstance(verdict, NormalizeRetry):
        return msgspec.structs.replace(verdict, candidate=None, guidance=None)
    return verdict


def makes_up(judge: Judge, produced: Produced) -> Verdict:
    """Pretend that there was a candidate."""
    if isinstance(produced.result, StructuralFailure):
        return judge.refuse("no_candidate", ModelCandidate.of("{}"))
    return Judge.normalize(judge, produced)


def remembers() -> Callable[[Judge, Produced], Verdict]:
    """Return what puts the number of calls into what it accepts."""
    calls: list[Produced] = []

    def normalize(judge: Judge, produced: Produced) -> Verdict:
        calls.append(produced)
        verdict = Judge.normalize(judge, produced)
        if isinstance(verdict, Normalized):
            return Normalized(value=[str(len(calls))])
        fallback = Fallback(value=[str(len(calls))], preserved="Kept apart.")
        return msgspec.structs.replace(verdict, fallback=fallback)

    return normalize


NORMALIZER_FAULTS: list[tuple[str, Callable[[Judge, Produced], Verdict]]] = [
    ("test_accepts", refuses_all),
    ("test_refusal_pairs_guidance_with_the_exact_reply", accepts_all),
    ("test_refusal_pairs_guidance_with_the_exact_reply", strips),
    ("test_refusal_pairs_guidance_with_the_exact_reply", silent),
    ("test_structural_failure_gives_no_guidance", accepts_all),
    ("test_structural_failure_gives_no_guidance", makes_up),
    ("test_no_memory_between_attempts", remembers()),
    ("test_deterministic", remembers()),
    ("test_exhaustion_leaves_one_warning", accepts_all),
    ("test_exhaustion_leaves_one_warning", remembers()),
]


class TestNormalizerRules:
    """Each rule for normalizers is able to fail."""

    def test_every_rule_has_a_fault_here(self) -> None:
        """A new rule of the suite needs a normalizer that breaks it."""
        covered = {rule for rule, _ in NORMALIZER_FAULTS} | {"test_replies_are_candidates"}
        assert covered == set(RULES)

    @pytest.mark.parametrize(("rule", "fault"), NORMALIZER_FAULTS)
    def test_a_rule_fails_for_what_breaks_it(
        self, rule: str, fault: Callable[[Judge, Produced], Verdict]
    ) -> None:
        """Each rule catches the normalizer that breaks it."""

        class Faulty(Judge):
            normalize = fault  # type: ignore[assignment]  # mypy sees no method

        class Suite(TestJudge):
            def make_normalizer(self) -> Normalizer[Any]:
                return Faulty()

        with pytest.raises(AssertionError, match=IN_WORDS):
            getattr(Suite(), rule)()

    @pytest.mark.parametrize("which", ["accepted_reply", "refused_reply"])
    def test_an_example_that_is_no_candidate_is_told(self, which: str) -> None:
        """Both examples must meet the contract, or the suite would test something else."""
        suite = type("Suite", (TestJudge,), {which: "no JSON"})()
        with pytest.raises(AssertionError, match=IN_WORDS):
            suite.test_replies_are_candidates()
