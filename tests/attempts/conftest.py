"""Plays one scripted operation through both drivers, and holds them to the same story."""

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from notarius.attempts import AttemptMachine, AttemptPolicy, CancelToken, Hook, arun, run
from notarius.attempts.testing import FakeClock, JsonObjectContract, ScriptedProducer
from notarius.contracts import (
    AttemptRecord,
    Fallback,
    IssueCount,
    ModelCandidate,
    Normalized,
    Normalizer,
    NormalizeRetry,
    Outcome,
    Produced,
    ProducerRequest,
    Prompt,
)

PROMPT = Prompt.of("Which of c1 and c2 are the same?\r\n", system=" Answer in JSON.\n")
CONTRACT = JsonObjectContract()


@dataclass
class World:
    """What one run of a scenario can touch."""

    clock: FakeClock = field(default_factory=FakeClock)
    token: CancelToken = field(default_factory=CancelToken)
    events: list[AttemptRecord] = field(default_factory=list)
    judged: list[Produced] = field(default_factory=list)


class Judge:
    """Accepts `{"ok": NAME}`, corrects `{"bad": NAME}`, asks again without words otherwise.

    The name stands in everything that it says, so that a test can tell where a text came from.
    """

    def __init__(self, world: World) -> None:
        self.world = world

    def normalize(self, produced: Produced) -> Normalized[list[str]] | NormalizeRetry[list[str]]:
        """Judge by the one key of the reply."""
        self.world.judged.append(produced)
        candidate = produced.result
        if not isinstance(candidate, ModelCandidate):
            fallback = Fallback(value=["nothing"], preserved="All were kept apart.")
            return NormalizeRetry(
                reason_code="no_candidate", operator_message="No reply.", fallback=fallback
            )
        reply = json.loads(candidate.text)
        if "ok" in reply:
            return Normalized(value=[reply["ok"]])
        name = reply.get("bad", "unnamed")
        return NormalizeRetry(
            reason_code="groups_refused",
            operator_message=f"The proposal {name} was refused.",
            fallback=Fallback(
                value=[name], preserved=f"The rest of {name} was kept apart.", refused_groups=2
            ),
            issue_counts=(IssueCount(category="some_category", count=2),),
            candidate=candidate if "bad" in reply else None,
            guidance=f"A check found a mistake in {name}." if "bad" in reply else None,
        )


@dataclass
class Played:
    """What happened: `ended` is the outcome, or what came out instead."""

    ended: Outcome[Any] | BaseException
    requests: list[ProducerRequest]
    records: tuple[AttemptRecord, ...]
    retries_spent: int
    judged: list[Produced]
    events: list[AttemptRecord]


def _play(
    driver: str,
    steps: Sequence[object],
    policy: AttemptPolicy,
    prompt: Prompt,
    normalizer: Callable[[World], Normalizer[Any]],
    hooks: Callable[[World], Sequence[Hook]],
) -> Played:
    world = World()
    machine: AttemptMachine[Any] = AttemptMachine(prompt, policy)
    producer = ScriptedProducer([_bound(step, world) for step in steps])
    options: dict[str, Any] = {
        "contract": CONTRACT,
        "clock": world.clock,
        "cancellation": world.token,
        "hooks": [*hooks(world), world.events.append],
    }

    async def operation() -> Outcome[Any] | BaseException:
        try:
            return await arun(machine, producer, normalizer(world), **options)
        except BaseException as error:  # noqa: BLE001 - what comes out is what is tested
            return error

    if driver == "arun":
        ended = asyncio.run(operation())
    else:
        try:
            ended = run(machine, producer, normalizer(world), **options)
        except BaseException as error:  # noqa: BLE001 - what comes out is what is tested
            ended = error
    return Played(
        ended=ended,
        requests=producer.requests,
        records=machine.records,
        retries_spent=machine.retries_spent,
        judged=world.judged,
        events=world.events,
    )


def _bound(step: object, world: World) -> Any:  # noqa: ANN401 - as loose as a script may be
    return (lambda request: step(world, request)) if callable(step) else step


def play_both(
    *steps: object,
    policy: AttemptPolicy | None = None,
    prompt: Prompt = PROMPT,
    normalizer: Callable[[World], Normalizer[Any]] = Judge,
    hooks: Callable[[World], Sequence[Hook]] = lambda _: (),
) -> Played:
    """Play the steps through `run` and `arun`; both must tell the same story.

    A step is one of `ScriptedProducer`, but functions take the world and the request.
    """
    limits = AttemptPolicy() if policy is None else policy
    first, second = (
        _play(driver, steps, limits, prompt, normalizer, hooks) for driver in ("run", "arun")
    )
    for name in ("requests", "records", "retries_spent", "judged", "events"):
        assert getattr(first, name) == getattr(second, name), f"the drivers differ in {name}"
    if isinstance(first.ended, BaseException):
        assert type(first.ended) is type(second.ended)
        assert str(first.ended) == str(second.ended)
    else:
        assert first.ended == second.ended
    return first


@pytest.fixture(scope="session")
def play() -> Callable[..., Played]:
    """Return `play_both`."""
    return play_both
