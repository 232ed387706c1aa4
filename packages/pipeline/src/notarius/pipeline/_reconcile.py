"""One registry from one candidate file: `reconcile`, what the command of that name does."""

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import get_args

import msgspec

from notarius.attempts import AttemptPolicy, CancelToken, Hook
from notarius.contracts import Cancellation, ContractError, ProcessWarning, ProducerRequest
from notarius.pipeline._debug import DebugBackend, prepare_debug_folder
from notarius.pipeline._exchange import Budgets
from notarius.pipeline._files import prepare_folder, require_apart
from notarius.pipeline._holders import DirectHolder
from notarius.pipeline._interrupts import put_off
from notarius.pipeline._models import (
    SIMILARITY,
    BackendFactory,
    ModelIdentity,
    context_of,
    sampling_for,
)
from notarius.pipeline._settle import Recall, settle
from notarius.pipeline._similarity_backend import SimilarityBackend
from notarius.pipeline._work import FAILED_RECEIPT, OUTPUTS, Work, Written, prepare, write
from notarius.registries import RegistryKind

__all__ = ["FAILED_RECEIPT", "Settings", "Summary", "reconcile"]


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What to run and how. Retries count calls after the first.

    `context_tokens` is the longest exchange that the model can take; a list that would need more
    is asked about in parts. `None` is no limit, but for a model in this process the room it has.
    """

    registry: RegistryKind
    candidates: Path
    out: Path
    model: str = SIMILARITY
    policy: AttemptPolicy = AttemptPolicy()
    repair_retries: int = 1
    transport_retries: int = 2
    context_tokens: int | None = None
    debug_exchange: Path | None = None

    def __post_init__(self) -> None:
        """Raise `ContractError` on a registry or a number of retries that can't be."""
        if self.registry not in get_args(RegistryKind):
            message = f"the registry must be one of {', '.join(get_args(RegistryKind))}"
            raise ContractError(message)
        _ = self.budgets

    @property
    def budgets(self) -> Budgets:
        """The three budgets together."""
        return Budgets(
            policy=self.policy,
            repair_retries=self.repair_retries,
            transport_retries=self.transport_retries,
        )


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """How a run ended. `entries` is `None` where there is no registry."""

    outcome: str
    registry: str
    model: str
    candidates: int
    entries: int | None
    attempts: int
    applied_attempt: int | None
    warnings: tuple[ProcessWarning, ...]
    failure: dict[str, str] | None
    out: str
    files: tuple[str, ...]


def reconcile(
    settings: Settings,
    *,
    backend: BackendFactory = SimilarityBackend,
    cancellation: Cancellation | None = None,
    starting: Callable[[ProducerRequest], None] | None = None,
    hooks: Sequence[Hook] = (),
) -> Summary:
    """Read the candidates, reconcile them, and write registry, warnings, receipt and manifest.

    `starting` is called before each attempt, `hooks` after it. Without a result (failed or
    cancelled) no registry is written and an earlier one is left as it is.

    Raises `InputError` if the input or the output place can't be used: then no model was asked
    and no output was written. Whatever else is raised while the model is asked comes out after the
    receipt was written.
    """
    require_apart(settings.candidates, settings.out, OUTPUTS)
    model = ModelIdentity(
        name=settings.model,
        identity=settings.model,
        sampling=lambda candidates: sampling_for(settings.model, candidates),
        context_tokens=context_of(settings.model, settings.context_tokens),
    )
    work = prepare(settings.registry, [settings.candidates], model, budgets=settings.budgets)
    factory = backend
    if settings.debug_exchange is not None:
        prepare_debug_folder(settings.debug_exchange)
        factory = debugged(backend, settings.debug_exchange)
    prepare_folder(settings.out, OUTPUTS)
    token = CancelToken()
    with contextlib.ExitStack() as undo:
        if cancellation is not None:
            undo.callback(cancellation.subscribe(token.cancel))
        holder = DirectHolder(
            factory,
            cancellation=token,
            asking=None if starting is None else lambda _, request: starting(request),
            hooks=hooks,
        )
        let_through = undo.enter_context(put_off())
        settled = list(
            settle(
                work.parts,
                holder,
                recall=Recall(),
                token=token,
                deadline_s=settings.policy.deadline_s,
                let_through=let_through,
            )
        )
        written = write(work, settled, settings.out)
    if written.result.error is not None:
        raise written.result.error
    return summary_of(work, written, settings.out)


def debugged(factory: BackendFactory, folder: Path) -> BackendFactory:
    """Have every backend write its exchanges into a folder."""
    return lambda *about: DebugBackend(factory(*about), folder)


def summary_of(work: Work, written: Written, out: Path) -> Summary:
    """Sum up what became of a registry."""
    result = written.result
    failed = result.failure
    return Summary(
        outcome=result.outcome,
        registry=work.registry,
        model=work.facts.model,
        candidates=len(work.candidates),
        entries=None if result.registry is None else len(result.registry.entries),
        attempts=len(result.records),
        applied_attempt=result.applied_attempt,
        warnings=() if result.warning is None else (result.warning,),
        failure=None
        if failed is None
        else {"kind": failed.kind.value, "code": failed.code, "message": failed.message},
        out=str(out),
        files=tuple(str(path) for path in written.files),
    )
