"""Time that runs out during a repair: both worlds keep what the attempt had brought."""

import asyncio
import time

import pytest

from notarius.attempts import AttemptMachine, AttemptPolicy, arun, run
from notarius.contracts import (
    AttemptResult,
    Cancellation,
    DeadlineExceededError,
    FellBack,
    Prompt,
    Reply,
    Usage,
)
from notarius.llmruntime import AsyncStructuredProducer, ChatCall, StructuredProducer
from notarius.registries import NpcCandidate, NpcEntry, NpcNormalizer, Registry

KNOWN = Usage(input_tokens=3, output_tokens=4)


class SlowToRepair:
    """Chats at first, and never ends its repair in time, as it is told to."""

    def __init__(self) -> None:
        """Count the calls."""
        self.calls = 0

    def complete(self, call: ChatCall, *, cancellation: Cancellation) -> Reply:
        """Answer, or sleep until the time is over."""
        self.calls += 1
        if self.calls == 1:
            return Reply(text="Let me think.", usage=KNOWN)
        time.sleep(call.timeout_s or 0.0)
        raise DeadlineExceededError

    async def acomplete(self, call: ChatCall) -> Reply:
        """Answer, or sleep until the time is over."""
        self.calls += 1
        if self.calls == 1:
            return Reply(text="Let me think.", usage=KNOWN)
        await asyncio.sleep(call.timeout_s or 0.0)
        raise DeadlineExceededError


@pytest.mark.parametrize("world", ["threads", "asyncio"])
def test_a_repair_without_time_leaves_the_failure_it_was_to_repair(world: str) -> None:
    """The attempt is a structural failure with its digest and costs, and the fallback applies."""
    people = [NpcCandidate(source_id=name, name=name) for name in ("Orla", "Venn")]
    normalizer = NpcNormalizer(people)
    machine: AttemptMachine[Registry[NpcEntry]] = AttemptMachine(
        Prompt.of("hi"), AttemptPolicy(normalize_retries=1, deadline_s=0.2)
    )
    contract = normalizer.contract
    if world == "threads":
        blocking = StructuredProducer(SlowToRepair(), repair_retries=1)
        outcome = run(machine, blocking, normalizer, contract=contract)
    else:
        producer = AsyncStructuredProducer(SlowToRepair(), repair_retries=1)
        outcome = asyncio.run(arun(machine, producer, normalizer, contract=contract))
    assert isinstance(outcome, FellBack)
    (record,) = outcome.records
    assert (record.result, record.repairs) == (AttemptResult.STRUCTURAL, 1)
    assert record.response_bytes == len("Let me think.")
    assert record.usage == KNOWN
