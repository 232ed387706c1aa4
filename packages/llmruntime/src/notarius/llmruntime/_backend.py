"""What a model server or an in-process model must be able to do: one call, one raw reply."""

from typing import Protocol

from notarius.contracts import Cancellation, Message, Reply, Value


class ChatCall(Value, frozen=True, kw_only=True):
    """One call: exactly these messages, and the JSON Schema of the wanted reply.

    `timeout_s` is the time that is left in seconds, `None` for no limit. `bypass_cache` forbids
    a cached answer.
    """

    messages: tuple[Message, ...]
    schema_name: str
    schema_json: str
    timeout_s: float | None = None
    bypass_cache: bool = False


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
    """The same for asyncio; it is cancelled as any coroutine is."""

    async def acomplete(self, call: ChatCall) -> Reply:
        """Return the raw reply."""
        ...
