"""The three roles that other packages, and users, implement."""

from collections.abc import Callable
from typing import Protocol, TypeVar

from notarius.contracts._messages import ProducerRequest
from notarius.contracts._reply import Produced, ResponseContract
from notarius.contracts._retry import Normalized, NormalizeRetry

T = TypeVar("T")


class Cancellation(Protocol):
    """What a producer may know of cancellation from another thread."""

    @property
    def cancelled(self) -> bool:
        """Whether the operation was cancelled."""
        ...

    def wait(self, timeout_s: float) -> bool:
        """Sleep for at most `timeout_s` seconds, less if cancelled; return `cancelled`."""
        ...

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` once on cancellation (now, if it has happened); return the undo."""
        ...


class Producer(Protocol):
    """Turns one request into one reply.

    It must send exactly `request.messages`, judge the reply with `judge_reply`, and not answer
    from a cache if `request.bypass_cache`. It raises `ProviderError` if there is no reply,
    `DeadlineExceededError` if `request.timeout_s` is over, and `OperationCancelledError` if it
    stopped because of `cancellation`.
    """

    def produce(
        self, request: ProducerRequest, *, contract: ResponseContract, cancellation: Cancellation
    ) -> Produced:
        """Return the candidate or the structural failure."""
        ...


class AsyncProducer(Protocol):
    """A `Producer` for asyncio; it is cancelled as any coroutine is."""

    async def aproduce(self, request: ProducerRequest, *, contract: ResponseContract) -> Produced:
        """Return the candidate or the structural failure."""
        ...


class Normalizer(Protocol[T]):
    """Turns what was produced into a value, or into the directive to ask again.

    It is called for structural failures too, and then returns a directive without guidance
    whose fallback holds what can be had without any reply. It must be deterministic and must
    not change between attempts.
    """

    def normalize(self, produced: Produced) -> Normalized[T] | NormalizeRetry[T]:
        """Return the applied value, or the directive with its fallback."""
        ...
