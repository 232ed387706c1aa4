"""An asyncio backend for threads: one event loop in a thread of its own."""

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable
from types import TracebackType
from typing import ParamSpec, Protocol, Self, TypeVar

from notarius.contracts import Cancellation, ContractError, OperationCancelledError, Reply
from notarius.llmruntime._backend import AsyncChatBackend, ChatCall

P = ParamSpec("P")
T = TypeVar("T")


class _Closable(AsyncChatBackend, Protocol):
    async def aclose(self) -> None:
        """Close all connections."""


class BlockingBackend:
    """A `ChatBackend` over an asyncio one, so that each kind of server is written once.

    A call can be cancelled from any thread: its coroutine is, which closes the request. Close it
    (or use it as a context manager) to end the thread; calls that are still waiting are cancelled.
    """

    def __init__(self, backend: _Closable) -> None:
        """Start the loop."""
        self._backend = backend
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(_Unawaited())
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="notarius-llm", daemon=True
        )
        self._lock = threading.Lock()
        self._closed = False
        self._waiting: set[concurrent.futures.Future[Reply]] = set()
        self._thread.start()

    def complete(self, call: ChatCall, *, cancellation: Cancellation) -> Reply:
        """Return the reply of one call. Raises `ContractError` if the backend was closed."""
        with self._lock:
            if self._closed:
                message = "the backend is closed"
                raise ContractError(message)
            future = asyncio.run_coroutine_threadsafe(self._backend.acomplete(call), self._loop)
            self._waiting.add(future)
        unsubscribe = cancellation.subscribe(lambda: _cancel(future))
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            message = "the call was cancelled"
            raise OperationCancelledError(message) from None
        finally:
            # Also when the wait itself was interrupted, say by the keyboard.
            future.cancel()
            unsubscribe()
            self._waiting.discard(future)

    def close(self) -> None:
        """Cancel what is still running, close the backend and end the thread."""
        with self._lock:  # so that no call is begun behind the last one that is cancelled
            if self._closed:
                return
            self._closed = True
        try:
            asyncio.run_coroutine_threadsafe(self._shut_down(), self._loop).result()
        finally:
            # Where the closing itself was interrupted, a call may not have ended.
            for future in tuple(self._waiting):
                future.cancel()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    async def _shut_down(self) -> None:
        calls = asyncio.all_tasks() - {asyncio.current_task()}
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        await self._backend.aclose()

    def __enter__(self) -> Self:
        """Return the backend itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()


class _Unawaited(concurrent.futures.ThreadPoolExecutor):
    """Threads that the end of the program does not wait for.

    The loop looks up the names of servers in some, and nothing can interrupt that: a resolver that
    does not answer would hold a program that was told to end.
    """

    def submit(
        self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> concurrent.futures.Future[T]:
        """Begin at once, in a thread of its own."""
        future: concurrent.futures.Future[T] = concurrent.futures.Future()
        future.set_running_or_notify_cancel()

        def work() -> None:
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:  # noqa: BLE001 - it is raised again by whoever waits
                future.set_exception(error)

        threading.Thread(target=work, name="notarius-lookup", daemon=True).start()
        return future


def _cancel(future: concurrent.futures.Future[Reply]) -> None:
    future.cancel()
