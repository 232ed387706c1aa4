"""What a model server or an in-process model must be able to do: one call, one raw reply."""

import math
from typing import Final, Protocol

from notarius.contracts import Cancellation, ContractError, Message, Reply, Value

HOSTED_URL: Final = "https://api.openai.com/v1"
"""Where an OpenAI-compatible server is, unless an address is given."""


class ChatCall(Value, frozen=True, kw_only=True):
    """One call: exactly these messages, and the JSON Schema of the wanted reply.

    `timeout_s` is the time that is left in seconds, `None` for no limit. `variation` is 0 for the
    first call of an operation and another number for each later one: a cache must not answer those,
    and a fixed seed must be varied by it, or a retry would be the same draw again. `max_tokens`
    bounds this reply, whatever the backend's own bound is.
    """

    messages: tuple[Message, ...]
    schema_name: str
    schema_json: str
    timeout_s: float | None = None
    variation: int = 0
    max_tokens: int | None = None

    @property
    def bypass_cache(self) -> bool:
        """Whether a response cache must not answer: true for every call but the first."""
        return self.variation > 0


class Sampling(Value, frozen=True, kw_only=True):
    """How a model is to write; `None` leaves it to the server.

    `temperature` is 0 or more, `max_tokens` bounds one reply. `seed` is that of the first call;
    later calls add their variation. Raises `ContractError` on a value out of its range.
    """

    temperature: float | None = None
    seed: int | None = None
    max_tokens: int | None = None

    def __post_init__(self) -> None:
        """Check the ranges."""
        if self.temperature is not None and not 0 <= self.temperature < math.inf:
            message = "the temperature must be 0 or more"
            raise ContractError(message)
        if self.max_tokens is not None and self.max_tokens < 1:
            message = "the most tokens of a reply must be 1 or more"
            raise ContractError(message)


class ChatBackend(Protocol):
    """A model behind one blocking call.

    It makes no retries of its own. It raises `ProviderError` if there is no reply,
    `DeadlineExceededError` if the call's time is over, and `OperationCancelledError` if it
    stopped because of `cancellation`.
    """

    def complete(self, call: ChatCall, *, cancellation: Cancellation) -> Reply:
        """Return the raw reply."""
        ...


class AsyncChatBackend(Protocol):
    """A `ChatBackend` for asyncio; it is cancelled as any coroutine is."""

    async def acomplete(self, call: ChatCall) -> Reply:
        """Return the raw reply."""
        ...
