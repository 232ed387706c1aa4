"""Runs instructor or pydantic-ai, for real, from the same refused reply.

A process of its own for each, since the libraries need different versions of the same client.
It reads one job a line and writes the turns of one exchange a line:

    python -m benchmarks.peers instructor|pydantic-ai BASE_URL

Each library is used the way its manual describes for a check that no schema can express: a
validator of the response model that raises `ValueError` (instructor), an output validator that
raises `ModelRetry` (pydantic-ai). What the checks say is the same for both and as concrete as
ours: group, ids, and what the entries are. The first request of an exchange is answered with the
given reply, the others go to the server.
"""

import asyncio
import contextlib
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any, Final

import httpx2
import msgspec
import openai
import pydantic
from benchmarks.lists import CandidateList, Job, Turn, turn_of

from notarius.contracts import FinishReason, Reply, StructuralDefect, Usage
from notarius.semanticreconcile import ALL_CATEGORIES, RefusedGroup, parse_proposal

WORDS: Final = {
    "unknown_candidate": "names an id that is not in the candidate list",
    "repeated_candidate": "names an id twice",
    "too_few_candidates": "has fewer than two different ids",
    "canonical_not_in_group": "has a canonical_id that is not one of its candidate_ids",
    "overlapping_groups": "shares ids with another group",
    "repeated_group": "repeats another group",
    "typed_application_refused": "puts entries together that can't be one",
}


class Group(pydantic.BaseModel):
    """A group as the peers' users would declare it."""

    name: str
    candidate_ids: list[str]
    canonical_id: str


def complaints(listed: CandidateList, text: str) -> str:
    """Return what the checks say about a reply, or nothing."""
    proposal = parse_proposal(text)
    if isinstance(proposal, StructuralDefect):
        return ""
    return "\n".join(map(_complaint, listed.normalizer().split(proposal).refused))


def _complaint(group: RefusedGroup) -> str:
    found = [WORDS[category] for category in ALL_CATEGORIES if group.has(category)]
    said = f"duplicate_groups[{group.index}] {', '.join(found)}"
    if group.typed is not None:
        parts = "; ".join(
            f"{part.label}: {', '.join(part.ids)}" if part.label else ", ".join(part.ids)
            for part in group.typed.parts
        )
        said += f": {group.typed.reason} ({parts})"
    if group.shared:
        said += f" (shared: {', '.join(group.shared)})"
    return said


class Replay(httpx2.AsyncHTTPTransport):
    """Answers the first request with a given reply, forwards the others, and keeps all replies."""

    def __init__(self, first: str) -> None:
        super().__init__()
        self._first: str | None = first
        self.replies: list[Reply] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Answer one request."""
        if self._first is not None:
            envelope = _envelope(self._first)
            self._first = None
        else:
            response = await super().handle_async_request(request)
            body = await response.aread()
            if response.status_code != 200:  # noqa: PLR2004 - OK
                raise RuntimeError(f"the server said {response.status_code}")
            envelope = json.loads(body)
        choice = envelope["choices"][0]
        length = choice["finish_reason"] == "length"
        self.replies.append(
            Reply(
                text=choice["message"]["content"],
                finish_reason=FinishReason.LENGTH if length else FinishReason.STOP,
                usage=Usage(input_tokens=envelope["usage"]["prompt_tokens"] or None),
            )
        )
        return httpx2.Response(200, json=envelope, request=request)


def _envelope(text: str) -> dict[str, Any]:
    return {
        "id": "first",
        "object": "chat.completion",
        "created": 0,
        "model": "replayed",
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": text},
            }
        ],
        "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
    }


async def run_instructor(job: Job, client: openai.AsyncOpenAI) -> None:
    """Run one exchange through instructor."""
    import instructor  # type: ignore[import-not-found]  # noqa: PLC0415 - one of the two is there
    from instructor.core import (  # type: ignore[import-not-found]  # noqa: PLC0415 - as above
        IncompleteOutputException,  # a reply that was cut off ends its exchange at once
        InstructorRetryException,
    )

    class DuplicateGroups(pydantic.BaseModel):
        duplicate_groups: list[Group]

        @pydantic.model_validator(mode="after")
        def check(self) -> "DuplicateGroups":
            wrong = complaints(job.listed, self.model_dump_json())
            if wrong:
                raise ValueError(wrong)
            return self

    with contextlib.suppress(InstructorRetryException, IncompleteOutputException):
        await instructor.from_openai(client, mode=instructor.Mode.JSON_SCHEMA).create(
            model="model",
            response_model=DuplicateGroups,
            max_retries=job.budget,
            messages=[{"role": m.role.value, "content": m.content} for m in job.messages],
            temperature=job.temperature,
            seed=1,
            max_tokens=job.max_tokens,
        )


async def run_pydantic_ai(job: Job, client: openai.AsyncOpenAI) -> None:
    """Run one exchange through pydantic-ai."""
    from pydantic_ai import Agent, ModelRetry, NativeOutput  # type: ignore[import-not-found]  # noqa: PLC0415 - as above
    from pydantic_ai.exceptions import UnexpectedModelBehavior  # type: ignore[import-not-found]  # noqa: PLC0415 - as above
    from pydantic_ai.models.openai import OpenAIChatModel  # type: ignore[import-not-found]  # noqa: PLC0415 - as above
    from pydantic_ai.providers.openai import OpenAIProvider  # type: ignore[import-not-found]  # noqa: PLC0415 - as above
    from pydantic_ai.settings import ModelSettings  # type: ignore[import-not-found]  # noqa: PLC0415 - as above

    class DuplicateGroups(pydantic.BaseModel):
        duplicate_groups: list[Group]

    system, user = (message.content for message in job.messages)
    agent = Agent(
        OpenAIChatModel("model", provider=OpenAIProvider(openai_client=client)),
        output_type=NativeOutput(DuplicateGroups),
        system_prompt=system,
        retries=job.budget,
        model_settings=ModelSettings(
            temperature=job.temperature, seed=1, max_tokens=job.max_tokens
        ),
    )

    @agent.output_validator  # type: ignore[untyped-decorator]  # it is not installed here
    def check(output: DuplicateGroups) -> DuplicateGroups:
        wrong = complaints(job.listed, output.model_dump_json())
        if wrong:
            raise ModelRetry(wrong)
        return output

    with contextlib.suppress(UnexpectedModelBehavior):
        await agent.run(user)


PEERS: Final[dict[str, Callable[[Job, openai.AsyncOpenAI], Awaitable[None]]]] = {
    "instructor": run_instructor,
    "pydantic-ai": run_pydantic_ai,
}


async def exchange(peer: str, base_url: str, job: Job) -> list[Turn]:
    """Run one exchange, and judge each of its replies as ours are judged."""
    transport = Replay(job.reply)
    client = openai.AsyncOpenAI(
        base_url=base_url,
        api_key="none",
        max_retries=0,
        timeout=3600,
        http_client=httpx2.AsyncClient(transport=transport, timeout=3600),
    )
    await PEERS[peer](job, client)
    await client.close()
    replies = transport.replies
    return [turn_of(job.listed, *pair) for pair in zip(replies, [None, *replies], strict=False)]


def main() -> None:
    """Work on jobs until there are no more."""
    peer, base_url = sys.argv[1:]
    for line in sys.stdin:
        job = msgspec.json.decode(line, type=Job)
        turns = asyncio.run(exchange(peer, base_url, job))
        print(msgspec.json.encode(turns).decode(), flush=True)


if __name__ == "__main__":
    main()
