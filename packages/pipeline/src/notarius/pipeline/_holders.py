"""Where exchanges are held: in this thread, in threads, or by any executor."""

import atexit
import concurrent.futures
import functools
import pickle
from collections.abc import Callable, Sequence
from typing import Self

from notarius.attempts import CancelToken, Hook
from notarius.contracts import Cancellation, ProducerRequest
from notarius.pipeline._errors import InputError
from notarius.pipeline._exchange import Exchange, Held, broken, hold
from notarius.pipeline._models import BackendFactory, ModelChoice, Models
from notarius.pipeline._settle import Part

Asking = Callable[[Part, ProducerRequest], None]
"""Is told of each attempt before it is made, from the thread that makes it."""


class DirectHolder:
    """Holds one exchange after the other in the thread that asks for it."""

    at_once = 1

    def __init__(
        self,
        factory: BackendFactory,
        *,
        cancellation: Cancellation,
        asking: Asking | None = None,
        hooks: Sequence[Hook] = (),
    ) -> None:
        """Make a backend for each exchange with `factory`."""
        self._factory = factory
        self._cancellation = cancellation
        self._asking = asking
        self._hooks = hooks

    def submit(self, part: Part) -> "concurrent.futures.Future[Held]":
        """Hold it now; the future is done."""
        future: concurrent.futures.Future[Held] = concurrent.futures.Future()
        try:
            future.set_result(self.hold(part))
        except InputError as error:
            future.set_exception(error)
        return future

    def hold(self, part: Part) -> Held:
        """Hold it in this thread. Raises `InputError` if there is no model to be had."""

        def starting(request: ProducerRequest) -> None:
            if self._asking is not None:
                self._asking(part, request)

        exchange = part.exchange
        try:
            model = self._factory(exchange.registry, exchange.candidates, part.normalizer)
        except InputError:
            raise
        except Exception as error:  # noqa: BLE001 - it is raised again by whoever writes the receipt
            return Held(outcome=broken(()), error=error)
        return hold(
            exchange,
            part.normalizer,
            model,
            cancellation=self._cancellation,
            starting=starting,
            hooks=self._hooks,
        )


class ThreadHolder:
    """Holds several exchanges at a time, each in a thread."""

    def __init__(self, inner: DirectHolder, at_once: int) -> None:
        """Hold as `inner` does, `at_once` at a time."""
        self.at_once = at_once
        self._inner = inner
        self._threads = concurrent.futures.ThreadPoolExecutor(at_once, "notarius-exchange")

    def submit(self, part: Part) -> "concurrent.futures.Future[Held]":
        """Begin to hold it."""
        return self._threads.submit(self._inner.hold, part)

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Wait for the threads, which have nothing left to do."""
        self._threads.shutdown()


class ExecutorHolder:
    """Has exchanges held by an executor, perhaps in other processes or on other machines.

    What is sent there is the exchange and the model's name; a key is read from the environment
    of the worker. An exchange that runs there can't be cancelled from here.
    """

    def __init__(
        self, executor: concurrent.futures.Executor, choice: ModelChoice, at_once: int
    ) -> None:
        """Have so many exchanges held at a time: what waits there can't be given less time."""
        self.at_once = at_once
        self._executor = executor
        self._choice = choice

    def submit(self, part: Part) -> "concurrent.futures.Future[Held]":
        """Send it away."""
        return self._executor.submit(hold_elsewhere, part.exchange, self._choice)


def hold_elsewhere(exchange: Exchange, choice: ModelChoice) -> Held:
    """Hold an exchange in a worker, which keeps its model open for the next one."""
    normalizer = exchange.normalizer()
    model = _models_here(choice).backend(exchange.registry, exchange.candidates, normalizer)
    held = hold(exchange, normalizer, model, cancellation=CancelToken())
    return Held(outcome=held.outcome, error=_sendable(held.error))


@functools.lru_cache(maxsize=1)
def _models_here(choice: ModelChoice) -> Models:
    models = Models(choice)
    atexit.register(models.close)
    return models


def _sendable(error: BaseException | None) -> BaseException | None:
    try:
        pickle.dumps(error)
    except Exception:  # noqa: BLE001 - an error's own parts may refuse in any way
        return RuntimeError(type(error).__name__)
    return error
