"""Holds one exchange that begins with a given refused reply: ours, a blind one, another wording."""

from typing import Any, Final

import msgspec
from benchmarks.lists import CandidateList, Turn, turn_of
from benchmarks.wordings import WORDINGS, Wording

from notarius.attempts import AttemptMachine, AttemptPolicy, arun
from notarius.contracts import (
    Normalized,
    NormalizeRetry,
    Produced,
    ProducerRequest,
    Prompt,
    Reply,
    ResponseContract,
    StructuralDefect,
    judge_reply,
)
from notarius.llmruntime import AsyncChatBackend, ChatCall
from notarius.registries import CURRENCY_GUIDANCE, RegistryNormalizer
from notarius.semanticreconcile import parse_proposal

OURS: Final = "ours"
BLIND: Final = "blind"
CALLS_PER_ATTEMPT: Final = 1000
"""As the product numbers its calls, so that a fixed seed gives the same draws."""


class _Recording:
    """A producer that answers the first attempt with a given reply and asks for the others."""

    def __init__(self, listed: CandidateList, backend: AsyncChatBackend, first: Reply) -> None:
        self._listed = listed
        self._backend = backend
        self._last = first
        self.turns = [turn_of(listed, first, None)]

    async def aproduce(self, request: ProducerRequest, *, contract: ResponseContract) -> Produced:
        reply = self._last
        if request.number > 1:
            reply = await self._backend.acomplete(
                ChatCall(
                    messages=request.messages,
                    schema_name=contract.name,
                    schema_json=contract.schema_json,
                    variation=CALLS_PER_ATTEMPT * (request.number - 1),
                )
            )
            self.turns.append(turn_of(self._listed, reply, self._last))
            self._last = reply
        return Produced(
            result=judge_reply(reply, contract),
            finish_reason=reply.finish_reason,
            usage=reply.usage,
        )


class _Worded:
    """A normalizer whose guidance is worded otherwise, or left out."""

    def __init__(self, inner: RegistryNormalizer[Any, Any], wording: Wording | None) -> None:
        self._inner = inner
        self._wording = wording

    def normalize(self, produced: Produced) -> Normalized[Any] | NormalizeRetry[Any]:
        verdict = self._inner.normalize(produced)
        if isinstance(verdict, Normalized) or verdict.candidate is None:
            return verdict
        proposal = parse_proposal(verdict.candidate.text)
        if self._wording is None or isinstance(proposal, StructuralDefect):
            return msgspec.structs.replace(verdict, guidance=None, candidate=None)
        split = self._inner.split(proposal)
        broken = any(group.typed and group.typed.domain_rule for group in split.refused)
        rule = CURRENCY_GUIDANCE if broken else None
        return msgspec.structs.replace(verdict, guidance=self._wording(split, rule))


async def hold(
    listed: CandidateList,
    first: Reply,
    backend: AsyncChatBackend,
    *,
    prompt: Prompt,
    budget: int,
    arm: str,
) -> list[Turn]:
    """Hold one exchange to its end; return what each attempt was worth, `first` included.

    `arm` is `ours`, `blind`, or the name of one of `WORDINGS`.
    """
    producer = _Recording(listed, backend, first)
    inner = listed.normalizer()
    machine: AttemptMachine[Any] = AttemptMachine(prompt, AttemptPolicy(normalize_retries=budget))
    wording = None if arm in {OURS, BLIND} else WORDINGS[arm]
    normalizer = inner if arm == OURS else _Worded(inner, wording)
    await arun(machine, producer, normalizer, contract=inner.contract)
    return producer.turns
