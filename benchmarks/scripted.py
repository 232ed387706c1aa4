"""What the libraries share: a model that plays a script."""

import itertools
import json
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import httpx2
import openai
from benchmarks import workload
from benchmarks.reply_models import Complain

Exchange: TypeAlias = Callable[[], object]
"""Holds one exchange from its first request to its end, or returns what is to be awaited for it."""

COMPLAINT: Final = "The first group is wrong."
"""What is said about a reply where nothing is checked."""


class Script:
    """Plays the replies of an exchange, over and over.

    `sent` has the bytes of each request's messages as JSON, without spaces, where a client made it.
    """

    def __init__(self, attempts: int) -> None:
        """Play one refused reply after the other, and at last one that is accepted."""
        self.attempts = attempts
        self.played = 0
        self.sent: list[int] = []
        self._replies = itertools.cycle(workload.script(attempts))

    @property
    def at_end(self) -> bool:
        """Whether the latest reply is the last of an exchange."""
        return self.played % self.attempts == 0

    def reply(self) -> str:
        """Return the next reply."""
        self.played += 1
        return next(self._replies)

    def answer(self, body: bytes) -> dict[str, Any]:
        """Answer a request as a server of chat completions does."""
        if len(self.sent) < self.attempts:  # the others are the same, and this costs time
            messages = json.loads(body)["messages"]
            whole = json.dumps(messages, separators=(",", ":"), ensure_ascii=False)
            self.sent.append(len(whole.encode()))
        return envelope(self.reply())


def envelope(text: str) -> dict[str, Any]:
    """Return a reply in what a server of chat completions puts around it."""
    message = {"role": "assistant", "content": text}
    return {
        "id": "scripted",
        "object": "chat.completion",
        "created": 0,
        "model": "scripted",
        "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
        "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
    }


Rows: TypeAlias = Mapping[str, Callable[[Script], Exchange]]
"""The ways through one library, by name."""


def client(script: Script) -> openai.AsyncOpenAI:
    """Return the official client of OpenAI over a transport that has no network."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, json=script.answer(request.content))

    return openai.AsyncOpenAI(
        base_url="http://127.0.0.1/v1",
        api_key="none",
        max_retries=0,
        http_client=httpx2.AsyncClient(transport=httpx2.MockTransport(answer)),
    )


def no_checks(script: Script) -> Complain:
    """Refuse all replies of an exchange but the last, whatever they are."""
    return lambda _: "" if script.at_end else COMPLAINT
