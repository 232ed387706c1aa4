"""The work on one registry: candidate files read and divided into parts, and its output written."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from notarius.contracts import ContractError, ProcessWarning, canonical_json
from notarius.pipeline._blocks import plan_blocks
from notarius.pipeline._candidates import read_candidates
from notarius.pipeline._checkpoints import checkpoint_key
from notarius.pipeline._errors import InputError
from notarius.pipeline._exchange import Budgets, Exchange, fingerprint, rules_for
from notarius.pipeline._files import publish, publish_beside
from notarius.pipeline._models import ModelIdentity
from notarius.pipeline._receipt import RunFacts, receipt, warnings
from notarius.pipeline._result import Result, result_of
from notarius.pipeline._settle import Part, Settled
from notarius.registries import STANDARD_COINAGES, Candidate, Coinage, RegistryKind

REGISTRY: Final = "registry.json"
WARNINGS: Final = "warnings.json"
RECEIPT: Final = "receipt.json"
FAILED_RECEIPT: Final = "failed-receipt.json"
"""The receipt of a run without a result, where an earlier result stays in place."""
OUTPUTS: Final = (REGISTRY, WARNINGS, RECEIPT, FAILED_RECEIPT)


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """One registry, ready to be asked about."""

    registry: RegistryKind
    candidates: tuple[Candidate, ...]
    parts: tuple[Part, ...]
    facts: RunFacts


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a registry, and the files that say so."""

    result: Result
    files: tuple[Path, ...]


def prepare(
    registry: RegistryKind,
    sources: Sequence[Path],
    model: ModelIdentity,
    *,
    budgets: Budgets,
    coinages: Sequence[Coinage] = STANDARD_COINAGES,
) -> Work:
    """Read the candidates of one registry and divide them into parts that the model can take.

    Raises `InputError` if a file can't be used, or if two candidates alone are too much.
    """
    rules = rules_for(registry, coinages)
    candidates, digest = read_candidates(sources, rules)
    blocks = plan_blocks(
        registry,
        candidates,
        context_tokens=model.context_tokens,
        budgets=budgets,
        coinages=coinages,
    )
    policy = fingerprint(rules)
    parts = []
    for number, block in enumerate(blocks or ((),), start=1):
        exchange = Exchange(
            registry=registry,
            candidates=tuple(candidates[index] for index in block),
            coinages=tuple(coinages),
            budgets=budgets,
        )
        try:
            normalizer = exchange.normalizer()
        except ContractError as error:
            raise InputError(f"{sources[0]}: {error}; split the list") from None
        key = checkpoint_key(
            registry=registry,
            policy_fingerprint=policy,
            input_sha256=exchange.input_sha256,
            prompt_sha256=normalizer.request.prompt.sha256,
            model=model.identity,
            sampling=model.sampling(len(block)),
        )
        parts.append(Part(number=number, exchange=exchange, normalizer=normalizer, key=key))
    prompts = [part.normalizer.request.prompt.sha256 for part in parts]
    together = hashlib.sha256(canonical_json(prompts)).hexdigest()
    return Work(
        registry=registry,
        candidates=candidates,
        parts=tuple(parts),
        facts=RunFacts(
            registry=registry,
            model=model.name,
            policy_fingerprint=policy,
            input_sha256=digest,
            candidates=len(candidates),
            prompt_sha256=prompts[0] if len(prompts) == 1 else together,
            budgets=budgets,
            sampling=model.sampling(max(len(part.exchange.candidates) for part in parts)),
        ),
    )


def write(work: Work, settled: Sequence[Settled], out: Path) -> Written:
    """Write what the parts came to into a folder.

    Without a result no registry is written, an earlier one is left as it is, and the receipt goes
    beside it. Raises `InputError` if the folder can't be written to.
    """
    result = result_of(work.candidates, settled)
    paper = receipt(work.facts, result)
    if result.registry is None:
        # Never over the receipt of an earlier result.
        files = publish_beside(out, RECEIPT, paper, earlier=REGISTRY, aside=FAILED_RECEIPT)
        return Written(result=result, files=files)
    found: tuple[ProcessWarning, ...] = () if result.warning is None else (result.warning,)
    files = publish(
        out,
        {REGISTRY: result.registry, WARNINGS: warnings(found), RECEIPT: paper},
        outdated=FAILED_RECEIPT,
    )
    return Written(result=result, files=files)
