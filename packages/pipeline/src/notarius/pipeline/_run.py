"""A whole campaign: every registry, with checkpoints, on threads or on an executor."""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from notarius.attempts import CancelToken
from notarius.contracts import Cancellation, Failed, FailureKind, Usage, total_usage
from notarius.pipeline._campaign import Campaign, Config, read_campaign
from notarius.pipeline._checkpoints import Checkpoints
from notarius.pipeline._debug import prepare_debug_folder
from notarius.pipeline._errors import InputError
from notarius.pipeline._executors import open_executor
from notarius.pipeline._files import MANIFEST, alone, prepare_folder, publish_over, require_apart
from notarius.pipeline._holders import DirectHolder, ExecutorHolder, ThreadHolder
from notarius.pipeline._interrupts import LetThrough, put_off
from notarius.pipeline._models import (
    IN_PROCESS,
    SIMILARITY,
    BackendFactory,
    ModelChoice,
    ModelIdentity,
    Models,
    identify,
)
from notarius.pipeline._receipt import usage_of
from notarius.pipeline._reconcile import Summary, debugged, summary_of
from notarius.pipeline._settle import Holder, Recall, Settled, Watcher, settle
from notarius.pipeline._work import (
    OUTPUTS,
    RECEIPT,
    REGISTRY,
    WARNINGS,
    Work,
    Written,
    prepare,
    write,
)
from notarius.registries import RegistryKind

CHECKPOINTS: Final = "checkpoints.sqlite"
"""The name of the checkpoint file in the output folder, unless another is given."""
SERVED_AT_ONCE: Final = 4
"""Exchanges that a server is asked for at a time, unless another number is given."""


class RunSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What to run and how. `options` win over what the campaign's `notarius.toml` says."""

    campaign: Path
    out: Path
    options: Config = Config()
    checkpoints: Path | None = None
    retry_fallbacks: bool = False
    executor: str | None = None
    debug_exchange: Path | None = None

    @property
    def checkpoint_file(self) -> Path:
        """Where results are remembered."""
        return self.checkpoints or self.out / CHECKPOINTS


class RunSummary(msgspec.Struct, frozen=True, kw_only=True):
    """How a run ended: a summary a registry, in the order npc, item, location.

    Of the `parts` of all lists, a model was `asked` about some now, others are `remembered`, and
    nothing is to be asked about a single candidate.
    """

    model: str
    registries: tuple[Summary, ...]
    parts: int
    asked: int
    remembered: int
    usage: dict[str, int] | None
    out: str
    checkpoints: str
    files: tuple[str, ...]


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What a run would ask: for each registry its candidates, requests and their sizes."""

    model: str
    context_tokens: int | None
    registries: tuple["PlannedRegistry", ...]


class PlannedRegistry(msgspec.Struct, frozen=True, kw_only=True):
    """One registry of a plan. `remembered` requests are answered by the checkpoints already."""

    registry: str
    files: tuple[str, ...]
    candidates: int
    requests: int
    remembered: int
    prompt_bytes: int
    largest_prompt_bytes: int


class _Prepared(msgspec.Struct, frozen=True, kw_only=True):
    campaign: Campaign
    config: Config
    choice: ModelChoice
    model: ModelIdentity
    works: tuple[Work, ...]


def _prepare(campaign: Path, options: Config) -> _Prepared:
    """Read everything, and report what is wrong in all files together."""
    found = read_campaign(campaign)
    config, choice = found.under(options)
    model = identify(choice)
    works: list[Work] = []
    problems: list[str] = []
    for kind, sources in found.sources.items():
        try:
            works.append(
                prepare(
                    kind,
                    sources,
                    model,
                    budgets=config.budgets(),
                    coinages=config.coinages(),
                )
            )
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(*problems)
    return _Prepared(campaign=found, config=config, choice=choice, model=model, works=tuple(works))


def check_campaign(
    campaign: Path,
    *,
    options: Config | None = None,
    checkpoints: Path | None = None,
    retry_fallbacks: bool = False,
) -> Plan:
    """Check all files of a campaign without a model, and say what a run would ask.

    Raises `InputError` with every bad line, or if there is no such checkpoint file.
    """
    prepared = _prepare(campaign, options or Config())
    with contextlib.ExitStack() as stack:
        recall = Recall()
        if checkpoints is not None:
            if not checkpoints.exists():
                raise InputError(f"{checkpoints}: is not there; name the file of an earlier run")
            recall = Recall(
                checkpoints=stack.enter_context(Checkpoints.open(checkpoints)),
                retry_fallbacks=retry_fallbacks,
            )
        planned = tuple(
            _planned(work, prepared.campaign.sources[work.registry], recall)
            for work in prepared.works
        )
    return Plan(
        model=prepared.model.name,
        context_tokens=prepared.model.context_tokens,
        registries=planned,
    )


def _planned(work: Work, files: tuple[Path, ...], recall: Recall) -> PlannedRegistry:
    asked = [part for part in work.parts if len(part.exchange.candidates) > 1]
    sizes = [
        sum(len(m.content.encode()) for m in part.normalizer.request.prompt.messages)
        for part in asked
    ]
    return PlannedRegistry(
        registry=work.registry,
        files=tuple(map(str, files)),
        candidates=len(work.candidates),
        requests=len(asked),
        remembered=sum(recall.get(part) is not None for part in asked),
        prompt_bytes=sum(sizes),
        largest_prompt_bytes=max(sizes, default=0),
    )


def run_campaign(
    settings: RunSettings,
    *,
    backend: BackendFactory | None = None,
    cancellation: Cancellation | None = None,
    watcher: Watcher | None = None,
) -> RunSummary:
    """Reconcile all registries of a campaign, and write a folder for each and a manifest over all.

    What the checkpoints remember is not asked again. A registry is written as soon as all its
    parts have ended; without a result it is left as it was, as with `reconcile`. `backend` takes
    the place of the model.

    Raises `InputError` if something can't be used: then no model was asked and nothing was
    written. Whatever else is raised, and an `InputError` about what breaks in the middle of the
    run, comes out after everything was written; `KeyboardInterrupt` too, and the same run goes on
    where this one was stopped.
    """
    prepared = _prepare(settings.campaign, settings.options)
    for sources in prepared.campaign.sources.values():
        for source in sources:
            for kind in prepared.campaign.sources:
                require_apart(source, settings.out / kind, OUTPUTS)
    if settings.debug_exchange is not None:
        prepare_debug_folder(settings.debug_exchange)
    prepare_folder(settings.out, (RECEIPT,))
    token = CancelToken()
    with contextlib.ExitStack() as stack:
        stack.enter_context(alone(settings.out))
        for work in prepared.works:
            prepare_folder(settings.out / work.registry, OUTPUTS)
        if cancellation is not None:
            stack.callback(cancellation.subscribe(token.cancel))
        checkpoints = stack.enter_context(Checkpoints.open(settings.checkpoint_file))
        recall = Recall(checkpoints=checkpoints, retry_fallbacks=settings.retry_fallbacks)
        holder = stack.enter_context(
            _holder(settings, prepared, backend=backend, token=token, watcher=watcher)
        )
        with put_off() as let_through:
            written = _settle_and_write(
                settings, prepared, holder, recall, token, watcher, let_through
            )
            return _finish(settings, prepared, written)


def _settle_and_write(
    settings: RunSettings,
    prepared: _Prepared,
    holder: Holder,
    recall: Recall,
    token: CancelToken,
    watcher: Watcher | None,
    let_through: LetThrough,
) -> dict[RegistryKind, Written]:
    """Settle all parts together, and write each registry when its last part has ended."""
    works = {work.registry: work for work in prepared.works}
    ended: dict[RegistryKind, list[Settled]] = {kind: [] for kind in works}
    written: dict[RegistryKind, Written] = {}
    parts = [part for work in prepared.works for part in work.parts]
    with contextlib.closing(
        settle(
            parts,
            holder,
            recall=recall,
            token=token,
            deadline_s=prepared.config.deadline,
            watcher=watcher,
            let_through=let_through,
        )
    ) as all_settled:
        for settled in all_settled:
            kind = settled.part.exchange.registry
            ended[kind].append(settled)
            if len(ended[kind]) == len(works[kind].parts):
                written[kind] = write(works[kind], ended[kind], settings.out / kind)
    return written


@contextlib.contextmanager
def _holder(
    settings: RunSettings,
    prepared: _Prepared,
    *,
    backend: BackendFactory | None,
    token: CancelToken,
    watcher: Watcher | None,
) -> Iterator[Holder]:
    choice = prepared.choice
    if settings.executor is not None:
        if settings.debug_exchange is not None:
            raise InputError("--debug-exchange: works with threads only; leave out --executor")
        with open_executor(settings.executor, prepared.config.at_once) as (executor, at_once):
            yield ExecutorHolder(executor, choice, at_once)
        return
    with Models(choice) as models:
        factory = backend or models.backend
        if settings.debug_exchange is not None:
            factory = debugged(factory, settings.debug_exchange)
        direct = DirectHolder(
            factory, cancellation=token, asking=None if watcher is None else watcher.asking
        )
        at_once = prepared.config.at_once or _usual_at_once(choice.name)
        if at_once == 1:
            yield direct
            return
        with ThreadHolder(direct, at_once) as threads:
            yield threads


def _usual_at_once(model: str) -> int:
    """One for what runs on this machine's own processors, several for a server."""
    return 1 if model == SIMILARITY or model.startswith(IN_PROCESS) else SERVED_AT_ONCE


def _finish(
    settings: RunSettings, prepared: _Prepared, written: Mapping[RegistryKind, Written]
) -> RunSummary:
    """Write the receipt of the run and the manifest over all, and raise what broke it."""
    summaries = tuple(
        summary_of(work, written[work.registry], settings.out / work.registry)
        for work in prepared.works
    )
    settled = [item for one in written.values() for item in one.result.settled]
    now = total_usage(
        tuple(record for s in settled if not s.remembered for record in s.outcome.records)
    )
    paper = _receipt(prepared, written, summaries, now)
    inside = [
        settings.out / work.registry / name
        for work in prepared.works
        for name in (REGISTRY, WARNINGS, RECEIPT, MANIFEST)
    ]
    files = publish_over(settings.out, RECEIPT, paper, inside)
    for one in written.values():
        if one.result.error is not None:
            raise one.result.error
    return RunSummary(
        model=prepared.model.name,
        registries=summaries,
        parts=len(settled),
        asked=sum(_was_asked(item) for item in settled),
        remembered=sum(item.remembered for item in settled),
        usage=usage_of(now),
        out=str(settings.out),
        checkpoints=str(settings.checkpoint_file),
        files=tuple(str(path) for path in files),
    )


def _was_asked(settled: Settled) -> bool:
    """Say whether a model was asked now; a worker that is lost has left no records."""
    outcome = settled.outcome
    lost = isinstance(outcome, Failed) and outcome.kind is FailureKind.PROVIDER
    return not settled.remembered and (bool(outcome.records) or lost)


def _receipt(
    prepared: _Prepared,
    written: Mapping[RegistryKind, Written],
    summaries: tuple[Summary, ...],
    now: Usage,
) -> dict[str, Any]:
    """Return the content of the run's own `receipt.json`: what each registry came to."""
    return {
        "schema": "notarius.run_receipt.v1",
        "model": prepared.model.name,
        "context_tokens": prepared.model.context_tokens,
        "registries": {
            summary.registry: {
                "outcome": summary.outcome,
                "candidates": summary.candidates,
                "entries": summary.entries,
                "parts": len(written[work.registry].result.settled),
                "remembered": sum(s.remembered for s in written[work.registry].result.settled),
                "policy_fingerprint": work.facts.policy_fingerprint,
                "input_sha256": work.facts.input_sha256,
            }
            for summary, work in zip(summaries, prepared.works, strict=True)
        },
        "usage": usage_of(now),
    }
