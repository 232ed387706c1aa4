"""One registry from one candidate file: the only place that knows attempts and registries both."""

import hashlib
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, assert_never, get_args

import msgspec

from notarius.attempts import AttemptMachine, AttemptPolicy, Hook, exchange_content, run
from notarius.contracts import (
    Accepted,
    AttemptRecord,
    Cancellation,
    Cancelled,
    ContractError,
    Failed,
    FailureKind,
    FellBack,
    Outcome,
    ProcessWarning,
    Produced,
    Producer,
    ProducerRequest,
    ResponseContract,
    policy_fingerprint,
)
from notarius.llmruntime import StructuredProducer
from notarius.pipeline._candidates import read_candidates
from notarius.pipeline._debug import DebugBackend, prepare_debug_folder
from notarius.pipeline._errors import InputError
from notarius.pipeline._files import (
    discard,
    prepare_folder,
    publish,
    publish_one,
    require_apart,
)
from notarius.pipeline._models import SIMILARITY, BackendFactory, sampling_for
from notarius.pipeline._receipt import RunFacts, outcome_name, receipt, warnings
from notarius.pipeline._similarity_backend import SimilarityBackend
from notarius.registries import (
    ItemRules,
    LocationRules,
    NpcRules,
    Registry,
    RegistryKind,
    RegistryNormalizer,
    RegistryRules,
    registry_fingerprint,
)

_LOG: Final = logging.getLogger("notarius.pipeline")

REGISTRY: Final = "registry.json"
WARNINGS: Final = "warnings.json"
RECEIPT: Final = "receipt.json"
FAILED_RECEIPT: Final = "failed-receipt.json"
"""The receipt of a run without a result, where an earlier result stays in place."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What to run and how. Retries count calls after the first."""

    registry: RegistryKind
    candidates: Path
    out: Path
    model: str = SIMILARITY
    policy: AttemptPolicy = AttemptPolicy()
    repair_retries: int = 1
    transport_retries: int = 2
    debug_exchange: Path | None = None

    def __post_init__(self) -> None:
        """Raise `ContractError` on a registry or a number of retries that can't be."""
        if self.registry not in get_args(RegistryKind):
            message = f"the registry must be one of {', '.join(get_args(RegistryKind))}"
            raise ContractError(message)
        for retries in (self.repair_retries, self.transport_retries):
            if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
                message = "the number of retries must be a whole number, 0 or more"
                raise ContractError(message)


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


def rules_for(kind: RegistryKind) -> RegistryRules[Any, Any]:
    """Return the rules of a registry."""
    match kind:
        case "npc":
            return NpcRules()
        case "item":
            return ItemRules()
        case "location":
            return LocationRules()
        case _:
            assert_never(kind)


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
    rules = rules_for(settings.registry)
    outputs = (REGISTRY, WARNINGS, RECEIPT, FAILED_RECEIPT)
    require_apart(settings.candidates, settings.out, outputs)
    candidates, data = read_candidates(settings.candidates, rules)
    try:
        normalizer = RegistryNormalizer(rules, candidates)
    except ContractError as error:
        raise InputError(f"{settings.candidates}: {error}; split the list") from None
    if settings.debug_exchange is not None:
        prepare_debug_folder(settings.debug_exchange)
    prepare_folder(settings.out, outputs)
    model = backend(settings.registry, candidates, normalizer)
    if settings.debug_exchange is not None:
        model = DebugBackend(model, settings.debug_exchange)
    facts = RunFacts(
        registry=settings.registry,
        model=settings.model,
        policy_fingerprint=_fingerprint(rules),
        input_sha256=hashlib.sha256(data).hexdigest(),
        candidates=len(candidates),
        prompt_sha256=normalizer.request.prompt.sha256,
        policy=settings.policy,
        repair_retries=settings.repair_retries,
        transport_retries=settings.transport_retries,
        sampling=sampling_for(settings.model, len(candidates)),
    )
    producer = StructuredProducer(
        model,
        repair_retries=settings.repair_retries,
        transport_retries=settings.transport_retries,
    )
    machine: AttemptMachine[Registry[Any]] = AttemptMachine(
        normalizer.request.prompt, settings.policy
    )
    try:
        outcome = _outcome(
            machine,
            _Announcing(producer, starting),
            normalizer,
            cancellation=cancellation,
            hooks=(_log_attempt, *hooks),
        )
    except KeyboardInterrupt:
        _write(settings, facts, Cancelled(records=machine.records))
        raise
    except BaseException:
        # What was paid for must be on paper, whatever happened.
        _write(settings, facts, _broken(machine.records))
        raise
    return _write(settings, facts, outcome)


def _broken(records: tuple[AttemptRecord, ...]) -> Failed:
    return Failed(
        kind=FailureKind.BROKEN,
        code="program_fault",
        message="The program failed while the model was asked.",
        records=records,
    )


def _fingerprint(rules: RegistryRules[Any, Any]) -> str:
    """Return the identity of the whole policy: the registry's, and what attempts are sent."""
    content = {"registry": registry_fingerprint(rules), "exchange": exchange_content()}
    return policy_fingerprint("notarius.pipeline.reconcile", content)


def _outcome(
    machine: AttemptMachine[Registry[Any]],
    producer: Producer,
    normalizer: RegistryNormalizer[Any, Any],
    *,
    cancellation: Cancellation | None,
    hooks: Sequence[Hook],
) -> Outcome[Registry[Any]]:
    if len(normalizer.request.ids) < 2:  # noqa: PLR2004 - one candidate has no duplicate
        return Accepted(value=normalizer.separate(), records=())
    return run(
        machine,
        producer,
        normalizer,
        contract=normalizer.contract,
        cancellation=cancellation,
        hooks=hooks,
    )


class _Announcing:
    """Tells somebody of each attempt before it is made."""

    def __init__(
        self, producer: Producer, starting: Callable[[ProducerRequest], None] | None
    ) -> None:
        self._producer = producer
        self._starting = starting

    def produce(
        self, request: ProducerRequest, *, contract: ResponseContract, cancellation: Cancellation
    ) -> Produced:
        if self._starting is not None:
            self._starting(request)
        return self._producer.produce(request, contract=contract, cancellation=cancellation)


def _log_attempt(record: AttemptRecord) -> None:
    _LOG.info("attempt %d (%s): %s", record.number, record.cause.value, record.result.value)
    _LOG.debug("attempt record: %s", record)


def _write(settings: Settings, facts: RunFacts, outcome: Outcome[Registry[Any]]) -> Summary:
    """Write what the outcome allows, and sum it up."""
    paper = receipt(facts, outcome)
    found: tuple[ProcessWarning, ...] = ()
    entries = None
    match outcome:
        case Accepted(value=registry) | FellBack(value=registry):
            found = (outcome.warning,) if isinstance(outcome, FellBack) else ()
            entries = len(registry.entries)
            files = publish(
                settings.out,
                {REGISTRY: registry, WARNINGS: warnings(found), RECEIPT: paper},
            )
            discard(settings.out / FAILED_RECEIPT)
        case Failed() | Cancelled():
            files = _write_without_result(settings.out, paper)
        case _:
            assert_never(outcome)
    return Summary(
        outcome=outcome_name(outcome),
        registry=settings.registry,
        model=settings.model,
        candidates=facts.candidates,
        entries=entries,
        attempts=len(outcome.records),
        applied_attempt=paper["applied_attempt"],
        warnings=found,
        failure=paper["failure"],
        out=str(settings.out),
        files=tuple(str(path) for path in files),
    )


def _write_without_result(folder: Path, paper: dict[str, Any]) -> tuple[Path, ...]:
    """Write the receipt alone, and never over the receipt of an earlier result."""
    if (folder / REGISTRY).exists():
        return publish_one(folder, FAILED_RECEIPT, paper)
    return publish(folder, {RECEIPT: paper})
