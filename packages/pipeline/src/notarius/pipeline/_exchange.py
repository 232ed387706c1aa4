"""One exchange: one list is put to one model, up to its end. Knows no files and no checkpoints.

An `Exchange` says all that is needed, so that a worker in another process or on another machine
can hold it.
"""

import hashlib
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final, assert_never

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
    Outcome,
    Produced,
    Producer,
    ProducerRequest,
    ResponseContract,
    Value,
    canonical_json,
    policy_fingerprint,
)
from notarius.llmruntime import ChatBackend, StructuredProducer
from notarius.registries import (
    STANDARD_COINAGES,
    Candidate,
    Coinage,
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

Starting = Callable[[ProducerRequest], None]
"""Is told of each attempt before it is made."""


class Budgets(Value, frozen=True, kw_only=True):
    """The three budgets of an exchange. Retries count calls after the first.

    Raises `ContractError` on a number of retries that can't be.
    """

    policy: AttemptPolicy = AttemptPolicy()
    repair_retries: int = 1
    transport_retries: int = 2

    def __post_init__(self) -> None:
        """Check the ranges."""
        for retries in (self.repair_retries, self.transport_retries):
            if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
                message = "the number of retries must be a whole number, 0 or more"
                raise ContractError(message)


class Exchange(Value, frozen=True, kw_only=True):
    """A list of candidates of one registry, and what may be spent on it."""

    registry: RegistryKind
    candidates: tuple[Candidate, ...]
    coinages: tuple[Coinage, ...] = STANDARD_COINAGES
    budgets: Budgets = Budgets()

    def normalizer(self) -> RegistryNormalizer[Any, Any]:
        """Return a normalizer over the candidates."""
        return RegistryNormalizer(rules_for(self.registry, self.coinages), self.candidates)

    @property
    def input_sha256(self) -> str:
        """The digest of what the candidates say, however their file was written."""
        return hashlib.sha256(canonical_json(self.candidates)).hexdigest()


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """How an exchange ended.

    `error` is what broke it, for the caller to raise after the outcome was put on paper.
    """

    outcome: Outcome[Registry[Any]]
    error: BaseException | None = None


def rules_for(
    kind: RegistryKind, coinages: Sequence[Coinage] = STANDARD_COINAGES
) -> RegistryRules[Any, Any]:
    """Return the rules of a registry."""
    match kind:
        case "npc":
            return NpcRules()
        case "item":
            return ItemRules(coinages=coinages)
        case "location":
            return LocationRules()
        case _:
            assert_never(kind)


def fingerprint(rules: RegistryRules[Any, Any]) -> str:
    """Return the identity of the whole policy: the registry's, and what attempts are sent."""
    content = {"registry": registry_fingerprint(rules), "exchange": exchange_content()}
    return policy_fingerprint("notarius.pipeline.reconcile", content)


def hold(
    exchange: Exchange,
    normalizer: RegistryNormalizer[Any, Any],
    model: ChatBackend,
    *,
    cancellation: Cancellation | None = None,
    starting: Starting | None = None,
    hooks: Sequence[Hook] = (),
) -> Held:
    """Hold an exchange. Nothing is raised: what was paid for must be on paper in any case."""
    machine: AttemptMachine[Registry[Any]] = AttemptMachine(
        normalizer.request.prompt, exchange.budgets.policy
    )
    producer = StructuredProducer(
        model,
        repair_retries=exchange.budgets.repair_retries,
        transport_retries=exchange.budgets.transport_retries,
    )
    try:
        outcome = _outcome(
            machine,
            _Announcing(producer, starting),
            normalizer,
            cancellation=cancellation,
            hooks=(_log_attempt, *hooks),
        )
    except KeyboardInterrupt as error:
        return Held(outcome=Cancelled(records=machine.records), error=error)
    except BaseException as error:  # noqa: BLE001 - it is raised again by whoever writes the receipt
        return Held(outcome=broken(machine.records), error=error)
    return Held(outcome=outcome)


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


def broken(records: tuple[AttemptRecord, ...]) -> Failed:
    """Return how an exchange ends that the program itself broke."""
    return Failed(
        kind=FailureKind.BROKEN,
        code="program_fault",
        message="The program failed while the model was asked.",
        records=records,
    )


class _Announcing:
    """Tells somebody of each attempt before it is made."""

    def __init__(self, producer: Producer, starting: Starting | None) -> None:
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
