"""Our own producers and normalizers pass the suites that users run theirs through."""

from collections.abc import Sequence
from typing import Any, ClassVar

from notarius.attempts.testing import (
    AsyncProducerConformance,
    JsonObjectContract,
    NormalizerConformance,
    ProducerConformance,
)
from notarius.contracts import Message, Producer, ProviderError, Reply, ResponseContract
from notarius.llmruntime import AsyncStructuredProducer, ChatCall, StructuredProducer
from notarius.registries import (
    ItemCandidate,
    ItemNormalizer,
    LocationCandidate,
    LocationNormalizer,
    NpcCandidate,
    NpcNormalizer,
)
from notarius.semanticreconcile import ReconciliationContract


class Backend:
    """Gives the answers in order."""

    def __init__(self, replies: Sequence[Reply | ProviderError]) -> None:
        """Take the answers."""
        self._replies = iter(replies)
        self.received: list[tuple[Message, ...]] = []

    def complete(self, call: ChatCall, *, cancellation: object) -> Reply:
        """Give the next."""
        self.received.append(call.messages)
        answer = next(self._replies)
        if isinstance(answer, ProviderError):
            raise answer
        return answer

    async def acomplete(self, call: ChatCall) -> Reply:
        """Give the next."""
        return self.complete(call, cancellation=None)


class TestStructuredProducer(ProducerConformance):
    """The blocking producer is a `Producer` as the machine wants it."""

    def make_producer(self, replies: Sequence[Reply | ProviderError]) -> Producer:
        """Put the producer over a scripted backend."""
        return StructuredProducer(Backend(replies))

    def received(self, producer: Any) -> Sequence[tuple[Message, ...]]:  # noqa: ANN401 - ours
        """Return what the backend got."""
        backend: Backend = producer._backend
        return backend.received

    def make_contract(self) -> ResponseContract:
        """Take any object."""
        return JsonObjectContract()


class TestAsyncStructuredProducer(AsyncProducerConformance):
    """The asyncio producer is an `AsyncProducer` as the machine wants it."""

    def make_producer(self, replies: Sequence[Reply | ProviderError]) -> Any:  # noqa: ANN401 - the base class takes the blocking kind
        """Put the producer over a scripted backend."""
        return AsyncStructuredProducer(Backend(replies))

    def received(self, producer: Any) -> Sequence[tuple[Message, ...]]:  # noqa: ANN401 - ours
        """Return what the backend got."""
        backend: Backend = producer._backend
        return backend.received

    def make_contract(self) -> ResponseContract:
        """Take the real contract."""
        return ReconciliationContract()


class RegistryConformance(NormalizerConformance):
    """What the three registries' normalizers have in common here."""

    accepted_reply: ClassVar[str] = (
        ' {"duplicate_groups": [{"candidate_ids": ["c2", "c1"], "canonical_id": "c2"}]}\n'
    )
    refused_reply: ClassVar[str] = (
        '{"duplicate_groups": [{"candidate_ids": ["c1", "c2"], "canonical_id": "c1"},'
        ' {"candidate_ids": ["c3", "c4"], "canonical_id": "c3"}]}'
    )

    def make_contract(self) -> ResponseContract:
        """Take the real contract."""
        return ReconciliationContract()


class TestNpcNormalizer(RegistryConformance):
    """The machine can rely on the NPC normalizer."""

    def make_normalizer(self) -> NpcNormalizer:
        """Two names of one person, and a couple."""
        names = ("Percy", "Percival", "Mr. Bennet", "Mrs. Bennet")
        return NpcNormalizer([NpcCandidate(source_id=name, name=name) for name in names])


class TestItemNormalizer(RegistryConformance):
    """The machine can rely on the item normalizer."""

    def make_normalizer(self) -> ItemNormalizer:
        """Two names of one coin, and two different coins."""
        names = ("5 gp", "gold coins", "silver", "copper pieces")
        return ItemNormalizer([ItemCandidate(source_id=name, name=name) for name in names])


class TestLocationNormalizer(RegistryConformance):
    """The machine can rely on the location normalizer."""

    def make_normalizer(self) -> LocationNormalizer:
        """Two names of one town, and two gates."""
        names = ("Emon", "City of Emon", "North Gate", "South Gate")
        return LocationNormalizer([LocationCandidate(source_id=name, name=name) for name in names])
