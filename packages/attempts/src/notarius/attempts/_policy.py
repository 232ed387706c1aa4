"""The machine's behaviour as data, for fingerprints of whoever uses it."""

from typing import Final

from notarius.attempts._events import Ask, Finish, Judged, Replied, Started
from notarius.attempts._machine import AttemptMachine, AttemptPolicy
from notarius.contracts import (
    Fallback,
    ModelCandidate,
    NormalizeRetry,
    Produced,
    Prompt,
    StructuralDefect,
    StructuralFailure,
)

_LOST: Final = StructuralFailure(
    defect=StructuralDefect.CUT_OFF, response_sha256="0" * 64, response_bytes=0
)
_SCRIPT: Final[tuple[tuple[ModelCandidate | StructuralFailure, str | None], ...]] = (
    (ModelCandidate.of("first reply"), "first correction"),
    (ModelCandidate.of("second reply"), "second correction"),
    (_LOST, None),
    (ModelCandidate.of("fourth reply"), None),
    (_LOST, None),
)


def exchange_content() -> object:
    """Return what the machine sends in a fixed exchange of every kind, and how it ends.

    A machine that sends or applies something else gives something else here, so that results
    made with it get another identity.
    """
    machine: AttemptMachine[str] = AttemptMachine(
        Prompt.of("question", system="system"), AttemptPolicy(normalize_retries=len(_SCRIPT) - 1)
    )
    effect = machine.handle(Started())
    sent: list[object] = []
    for number, (result, guidance) in enumerate(_SCRIPT, start=1):
        if not isinstance(effect, Ask):
            break
        sent.append([effect.request.cause, effect.request.messages])
        machine.handle(Replied(produced=Produced(result=result)))
        retry: NormalizeRetry[str] = NormalizeRetry(
            reason_code="probe_reason",
            operator_message=f"Failure {number}.",
            fallback=Fallback(value=f"value {number}", preserved=f"Preserved {number}."),
            candidate=result if guidance and isinstance(result, ModelCandidate) else None,
            guidance=guidance,
        )
        effect = machine.handle(Judged(verdict=retry, elapsed_ms=0))
    return {"sent": sent, "end": effect.outcome if isinstance(effect, Finish) else None}
