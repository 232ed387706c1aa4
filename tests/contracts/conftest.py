"""An example of every public struct, with the private text that a test wants in it."""

from collections.abc import Callable

import pytest

from notarius import contracts as c

Make = Callable[[type[c.Value], str], c.Value]


def _examples(private: str) -> list[c.Value]:
    """Return one value of each public struct; each place for private text holds `private`."""
    message = c.Message(role=c.Role.USER, content=private)
    prompt = c.Prompt.of(private, system=private)
    usage = c.Usage(input_tokens=120, output_tokens=7)
    candidate = c.ModelCandidate.of(private)
    failure = c.StructuralFailure(
        defect=c.StructuralDefect.CUT_OFF, response_sha256="a" * 64, response_bytes=17
    )
    issue = c.IssueDetails(category="some_category", group_index=1, request_ids=("c1", "c9"))
    count = c.IssueCount(category="some_category", count=2)
    fallback = c.Fallback(
        value={"kept": private}, preserved="Kept apart.", refused_groups=2, samples=("A, B",)
    )
    warning = c.ProcessWarning(
        code="some_code", message="Two groups were refused.", refused_groups=2, samples=("A, B",)
    )
    record = c.AttemptRecord(
        number=2,
        cause=c.AttemptCause.CORRECTIVE_RETRY,
        result=c.AttemptResult.REFUSED,
        request_sha256="b" * 64,
        request_messages=4,
        duration_ms=31,
        response_sha256="c" * 64,
        response_bytes=88,
        finish_reason=c.FinishReason.STOP,
        structural_defect=None,
        reason_code="some_code",
        issue_counts=(count,),
        guidance_sha256="d" * 64,
        guidance_bytes=90,
        usage=usage,
        repairs=1,
        transport_retries=1,
    )
    return [
        message,
        prompt,
        usage,
        candidate,
        failure,
        issue,
        count,
        fallback,
        warning,
        record,
        c.Value(),
        c.Reply(text=private, finish_reason=c.FinishReason.STOP, usage=usage),
        c.ProducerRequest(
            messages=(message,), number=2, cause=c.AttemptCause.STRUCTURAL_RETRY, timeout_s=2.5
        ),
        c.Produced(
            result=candidate, finish_reason=c.FinishReason.STOP, usage=usage, repairs=1
        ),
        c.Normalized(value={"kept": private}),
        c.NormalizeRetry(
            reason_code="some_code",
            operator_message="Two groups were refused.",
            fallback=fallback,
            issues=(issue,),
            issue_counts=(count,),
            candidate=candidate,
            guidance=private,
        ),
        c.SemanticCorrection(prompt=prompt, candidate=candidate, guidance=private),
        c.Accepted(value={"kept": private}, records=(record,)),
        c.FellBack(value={"kept": private}, warning=warning, applied_attempt=1, records=(record,)),
        c.Failed(
            kind=c.FailureKind.EXHAUSTED, code="some_code", message="No.", records=(record,)
        ),
        c.Cancelled(records=(record,)),
    ]  # fmt: skip


@pytest.fixture(scope="session")
def make() -> Make:
    """Return what builds the example of a public struct around a private text."""

    def build(struct: type[c.Value], private: str) -> c.Value:
        return next(value for value in _examples(private) if type(value) is struct)

    return build
