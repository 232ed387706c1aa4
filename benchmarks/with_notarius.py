"""Ours: the two drivers over a scripted producer, and over the client of the other libraries."""

import json
from typing import Any, Final

from benchmarks import workload
from benchmarks.scripted import COMPLAINT, Exchange, Rows, Script, client

from notarius.attempts import AttemptMachine, AttemptPolicy, arun, run
from notarius.attempts.testing import ScriptedProducer
from notarius.contracts import (
    Fallback,
    FinishReason,
    ModelCandidate,
    Normalized,
    Normalizer,
    NormalizeRetry,
    Produced,
    Prompt,
    Reply,
)
from notarius.llmruntime import AsyncStructuredProducer, ChatCall
from notarius.registries import NpcCandidate, NpcNormalizer
from notarius.semanticreconcile import (
    Proposal,
    ReconciliationContract,
    SafeGroup,
    parse_proposal,
    render_guidance,
    split_proposal,
)

_PROMPT: Final = Prompt.of(workload.USER, system=workload.SYSTEM)
_CONTRACT: Final = ReconciliationContract()


class SameChecks:
    """Makes the checks that the other libraries make, and no more."""

    def normalize(
        self, produced: Produced
    ) -> Normalized[tuple[SafeGroup, ...]] | NormalizeRetry[tuple[SafeGroup, ...]]:
        """Accept a reply, or refuse it with guidance."""
        candidate = produced.result
        proposal = parse_proposal(getattr(candidate, "text", ""))
        if not isinstance(candidate, ModelCandidate) or not isinstance(proposal, Proposal):
            raise TypeError("the script has no such reply")
        split = split_proposal(proposal, workload.OFFERED, lambda _: None)
        if not split.refused:
            return Normalized(value=split.safe)
        return NormalizeRetry(
            reason_code="unsafe_groups",
            operator_message="Some groups were not safe to apply.",
            fallback=Fallback(value=split.safe, preserved="The others stay separate."),
            issues=split.issues,
            issue_counts=split.issue_counts,
            candidate=candidate,
            guidance=render_guidance(split.refused, kept=split.safe),
        )


class NoChecks:
    """Refuses all replies but the last, whatever they are."""

    def __init__(self, script: Script) -> None:
        """Know where the script is."""
        self._script = script

    def normalize(self, produced: Produced) -> Normalized[None] | NormalizeRetry[None]:
        """Accept or refuse."""
        candidate = produced.result
        if self._script.at_end or not isinstance(candidate, ModelCandidate):
            return Normalized(value=None)
        return NormalizeRetry(
            reason_code="unsafe_groups",
            operator_message="Some groups were not safe to apply.",
            fallback=Fallback(value=None, preserved="All stay separate."),
            candidate=candidate,
            guidance=COMPLAINT,
        )


class Client:
    """A chat backend over the client, as its simplest user would write it."""

    def __init__(self, script: Script) -> None:
        """Let the client answer from a script."""
        self._client = client(script)

    async def acomplete(self, call: ChatCall) -> Reply:
        """Make one call."""
        schema = {"name": call.schema_name, "schema": json.loads(call.schema_json)}
        request: Any = {
            "messages": [{"role": m.role.value, "content": m.content} for m in call.messages],
            "response_format": {"type": "json_schema", "json_schema": schema},
        }
        completion = await self._client.chat.completions.create(model="scripted", **request)
        text = completion.choices[0].message.content or ""
        return Reply(text=text, finish_reason=FinishReason.STOP)


def _machine(script: Script) -> AttemptMachine[Any]:
    return AttemptMachine(_PROMPT, AttemptPolicy(normalize_retries=script.attempts - 1))


def _model(script: Script) -> ScriptedProducer:
    return ScriptedProducer([lambda _: script.reply()] * script.attempts)


def _sync(script: Script, normalizer: Normalizer[Any]) -> Exchange:
    return lambda: run(_machine(script), _model(script), normalizer, contract=_CONTRACT)


def _async(script: Script) -> Exchange:
    return lambda: arun(_machine(script), _model(script), SameChecks(), contract=_CONTRACT)


def _through_client(script: Script) -> Exchange:
    producer = AsyncStructuredProducer(Client(script))
    return lambda: arun(_machine(script), producer, SameChecks(), contract=_CONTRACT)


def _registry(script: Script) -> Exchange:
    people = [NpcCandidate(source_id=f"s-{name}", name=name) for name in workload.NAMES]
    return _sync(script, NpcNormalizer(people))


ROWS: Final[Rows] = {
    "sync": lambda script: _sync(script, SameChecks()),
    "async": _async,
    "client": _through_client,
    "loop": lambda script: _sync(script, NoChecks(script)),
    "registry": _registry,
}
