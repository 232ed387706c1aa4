"""Our producers over a real server pass the suites that users run theirs through."""

import asyncio
import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any, TypeAlias

import pytest

from notarius.attempts.testing import AsyncProducerConformance, ProducerConformance
from notarius.contracts import (
    AsyncProducer,
    ContractError,
    FinishReason,
    Message,
    Produced,
    Producer,
    ProducerRequest,
    ProviderError,
    Reply,
    ResponseContract,
    Role,
)
from notarius.llmruntime import (
    AsyncStructuredProducer,
    BlockingBackend,
    ChatCall,
    StructuredProducer,
)
from notarius.llmruntime.openai import AsyncOpenAIBackend
from notarius.semanticreconcile import ReconciliationContract

pytestmark = pytest.mark.allow_hosts(["127.0.0.1"])
Server: TypeAlias = Any  # the fixture's class can't be imported
REASONS = {FinishReason.LENGTH: "length", FinishReason.REFUSAL: "content_filter", None: None}


class _OverServers:
    """Each producer has a server of its own."""

    @pytest.fixture(autouse=True)
    def _servers(self, make_server: Callable[[], Any], say: SimpleNamespace) -> Iterator[None]:
        self._make_server, self._say = make_server, say
        self._asked: dict[Any, Any] = {}
        self._backends: list[AsyncOpenAIBackend] = []
        with contextlib.ExitStack() as self._opened:
            yield

    def backend(self, replies: Sequence[Reply | ProviderError]) -> tuple[Any, Any]:
        """Return a server that plays the replies, and a backend for it."""
        server = self._make_server()
        server.plays(*map(self._response, replies))
        self._backends.append(AsyncOpenAIBackend("tiny", base_url=server.origin))
        return server, self._backends[-1]

    def received(self, producer: Any) -> Sequence[tuple[Message, ...]]:  # noqa: ANN401 - either kind
        """Read the messages out of the recorded requests."""
        return [
            tuple(
                Message(role=Role(sent["role"]), content=sent["content"])
                for sent in asked.body["messages"]
            )
            for asked in self._asked[producer].requests
        ]

    def _response(self, reply: Reply | ProviderError) -> bytes:
        if isinstance(reply, ProviderError):
            body: bytes = self._say.http(reply.status, b"{}")
            return body
        known = {
            "prompt_tokens": reply.usage.input_tokens,
            "completion_tokens": reply.usage.output_tokens,
        }
        said = self._say.envelope(reply.text, REASONS[reply.finish_reason], usage=known)
        response: bytes = self._say.http(200, json.dumps(said).encode())
        return response


class TestBlocking(_OverServers, ProducerConformance):
    """The blocking producer, over its own thread."""

    def make_producer(self, replies: Sequence[Reply | ProviderError]) -> Producer:
        """Close the backend after the test."""
        server, backend = self.backend(replies)
        producer = StructuredProducer(self._opened.enter_context(BlockingBackend(backend)))
        self._asked[producer] = server
        return producer

    def make_contract(self) -> ResponseContract:
        """Take the real contract."""
        return ReconciliationContract()


class TestAsync(_OverServers, AsyncProducerConformance):
    """The asyncio producer, in one event loop: its connections belong to that."""

    @pytest.fixture(autouse=True)
    def _loop(self, _servers: None) -> Iterator[None]:
        with asyncio.Runner() as self._runner:
            yield
            for backend in self._backends:
                self._runner.run(backend.aclose())

    def call(self, producer: AsyncProducer, request: ProducerRequest) -> Produced:
        """Make each call of a test in the same loop."""
        return self._runner.run(producer.aproduce(request, contract=self.make_contract()))

    def make_producer(self, replies: Sequence[Reply | ProviderError]) -> Any:  # noqa: ANN401 - the base class takes the blocking kind
        """Put the producer over a server of its own."""
        server, backend = self.backend(replies)
        producer = AsyncStructuredProducer(backend)
        self._asked[producer] = server
        return producer

    def make_contract(self) -> ResponseContract:
        """Take the real contract."""
        return ReconciliationContract()


def test_another_event_loop_is_the_callers_mistake(
    server: Server,
    say: SimpleNamespace,
    make_call: Callable[..., ChatCall],
) -> None:
    """A connection belongs to one loop: a call from another is refused before it breaks there."""
    server.plays(say.chat())
    backend = AsyncOpenAIBackend("tiny", base_url=server.origin)
    with asyncio.Runner() as runner:
        runner.run(backend.acomplete(make_call()))
        with pytest.raises(ContractError):
            asyncio.run(backend.acomplete(make_call()))
        runner.run(backend.aclose())
    assert len(server.requests) == 1
