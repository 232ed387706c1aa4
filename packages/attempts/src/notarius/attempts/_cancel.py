"""A token that one thread sets and another looks at."""

import contextlib
import threading
from collections.abc import Callable


class CancelToken:
    """Cancels an operation from another thread; once set it stays set. Thread-safe."""

    def __init__(self) -> None:
        """Begin not cancelled."""
        self._event = threading.Event()
        self._lock = threading.RLock()  # a signal handler may call in at any point
        self._callbacks: list[Callable[[], None]] = []

    @property
    def cancelled(self) -> bool:
        """Whether `cancel` was called."""
        return self._event.is_set()

    def cancel(self) -> None:
        """Cancel, and call every subscriber once, in this thread."""
        with self._lock:
            self._event.set()
            callbacks, self._callbacks = self._callbacks, []
        with contextlib.ExitStack() as every:  # one that raises must not keep the others waiting
            for callback in reversed(callbacks):
                every.callback(callback)

    def wait(self, timeout_s: float) -> bool:
        """Sleep for at most `timeout_s` seconds, less if cancelled; return `cancelled`."""
        return self._event.wait(timeout_s)

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` once on cancellation (now, if it has happened); return the undo."""
        with self._lock:
            if not self._event.is_set():
                self._callbacks.append(callback)
                return lambda: self._unsubscribe(callback)
        callback()
        return lambda: None

    def _unsubscribe(self, callback: Callable[[], None]) -> None:
        with self._lock, contextlib.suppress(ValueError):
            self._callbacks.remove(callback)
