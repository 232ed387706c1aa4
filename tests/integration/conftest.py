"""The whole stack without files: a scripted model behind both producers and both drivers."""

import asyncio
import json
from collections.abc import Callable, Iterable, Sequence
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from notarius.attempts import AttemptMachine, AttemptPolicy, TerminalPolicy, arun, run
from notarius.contracts import FinishReason, Reply
from notarius.llmruntime import AsyncStructuredProducer, ChatCall, StructuredProducer
from notarius.registries import (
    Candidate,
    ItemRules,
    LocationRules,
    NpcRules,
    RegistryNormalizer,
    RegistryRules,
)

RULES: dict[str, RegistryRules[Any, Any]] = {
    "npc": NpcRules(),
    "item": ItemRules(),
    "location": LocationRules(),
}
# In each list c1 and c2 can be one, c3 and c4 can't, and the others are nobody's duplicates.
NAMES = {
    "npc": ["Lord Percival", "Percy", "Mr. Bennet", "Mrs. Bennet", "Vex", "Old Tom"],
    "item": ["rope", "hempen rope", "5 gp", "3 sp", "healing potion", "gold ring"],
    "location": ["Emon", "City of Emon", "Cell 3", "Cell 4", "the mill", "Reedford"],
}


class ScriptedBackend:
    """Plays texts, replies and errors for both kinds of producers; keeps the calls."""

    def __init__(self, steps: Iterable[Any]) -> None:
        """Take the script."""
        self._steps = iter(steps)
        self.calls: list[ChatCall] = []

    def complete(self, call: ChatCall, *, cancellation: object) -> Reply:
        """Play the next step."""
        return self._play(call)

    async def acomplete(self, call: ChatCall) -> Reply:
        """Play the next step, after the others had their turn."""
        await asyncio.sleep(0)
        return self._play(call)

    def _play(self, call: ChatCall) -> Reply:
        self.calls.append(call)
        step = next(self._steps)
        answer = step(call) if callable(step) else step
        if isinstance(answer, BaseException):
            raise answer
        if isinstance(answer, str):
            return Reply(text=answer, finish_reason=FinishReason.STOP)
        assert isinstance(answer, Reply)
        return answer


def _candidates(kind: str, records: Sequence[dict[str, Any] | str] | None) -> list[Candidate]:
    """Make candidates of names or of records, with source ids where they have none."""
    given = NAMES[kind] if records is None else records
    full = [{"name": record} if isinstance(record, str) else record for record in given]
    return [
        msgspec.convert({"source_id": f"s{number}", **record}, RULES[kind].candidate_type)
        for number, record in enumerate(full, start=1)
    ]


class Exchange:
    """One registry's exchange: `begin` makes the parts, `in_threads` and `in_asyncio` run it."""

    def __init__(
        self,
        kind: str,
        steps: Iterable[Any],
        *,
        records: Sequence[dict[str, Any] | str] | None = None,
        normalize_retries: int = 2,
        repair_retries: int = 0,
        transport_retries: int = 0,
        terminal: TerminalPolicy = TerminalPolicy.FALLBACK,
    ) -> None:
        """Make all parts."""
        self.candidates = _candidates(kind, records)
        self.normalizer = RegistryNormalizer(RULES[kind], self.candidates)
        self.backend = ScriptedBackend(steps)
        self.prompt = self.normalizer.request.prompt
        policy = AttemptPolicy(normalize_retries=normalize_retries, terminal=terminal)
        self.machine: AttemptMachine[Any] = AttemptMachine(self.prompt, policy)
        self._budgets = {"repair_retries": repair_retries, "transport_retries": transport_retries}

    def in_threads(self) -> SimpleNamespace:
        """Run with `run`."""
        producer = StructuredProducer(self.backend, **self._budgets)
        contract = self.normalizer.contract
        return self._seen(run(self.machine, producer, self.normalizer, contract=contract))

    async def aplay(self) -> SimpleNamespace:
        """Run with `arun`, in the running event loop."""
        producer = AsyncStructuredProducer(self.backend, **self._budgets)
        contract = self.normalizer.contract
        return self._seen(await arun(self.machine, producer, self.normalizer, contract=contract))

    def in_asyncio(self) -> SimpleNamespace:
        """Run with `arun`."""
        return asyncio.run(self.aplay())

    def _seen(self, outcome: Any) -> SimpleNamespace:  # noqa: ANN401 - any outcome
        original = self.prompt.messages
        calls = self.backend.calls
        return SimpleNamespace(
            outcome=outcome,
            # How long something took is the only thing that may differ between two runs.
            records=[msgspec.structs.replace(r, duration_ms=0) for r in outcome.records],
            calls=calls,
            original=original,
            added=[call.messages[len(original) :] for call in calls],
            candidates=self.candidates,
            normalizer=self.normalizer,
        )


@pytest.fixture(scope="session")
def exchange() -> type[Exchange]:
    """Make an exchange of one registry with a scripted model."""
    return Exchange


@pytest.fixture(scope="session")
def play() -> Callable[..., SimpleNamespace]:
    """Run an exchange with `run`, and again with `arun`; require that both are the same."""

    def run_both(kind: str, steps: Sequence[Any], **options: Any) -> SimpleNamespace:  # noqa: ANN401 - passed on
        got = Exchange(kind, steps, **options).in_threads()
        other = Exchange(kind, steps, **options).in_asyncio()
        assert got.calls == other.calls
        assert got.records == other.records
        assert type(got.outcome) is type(other.outcome)
        for name in ("value", "warning", "applied_attempt", "kind", "message"):
            assert getattr(got.outcome, name, None) == getattr(other.outcome, name, None)
        return got

    return run_both


@pytest.fixture(scope="session")
def groups() -> Callable[..., str]:
    """Write a reply: a list of ids a group; the first is canonical unless `canonical` says."""

    def write(*lists: list[str], canonical: str | None = None) -> str:
        proposed = [
            {"name": "any", "candidate_ids": ids, "canonical_id": canonical or ids[0]}
            for ids in lists
        ]
        return json.dumps({"duplicate_groups": proposed})

    return write


@pytest.fixture(params=["npc", "item", "location"])
def kind(request: pytest.FixtureRequest) -> str:
    """Each registry."""
    return str(request.param)
