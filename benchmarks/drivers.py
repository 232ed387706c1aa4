"""Holds scripted exchanges through one library, with a model that costs nothing.

    python -m benchmarks.drivers with_notarius|with_instructor|with_pydantic_ai

A process of its own for each, since each has an environment of its own. It reads one order a line
and answers with one line of JSON; benchmarks/performance.py takes turns among the processes. What
can be made once is made once and not measured: clients, agents, models of replies, the prompt.
"""

import asyncio
import gc
import importlib
import json
import sys
import time
import tracemalloc
from collections.abc import Coroutine
from typing import Final

from benchmarks.scripted import Rows, Script

ATTEMPTS: Final = 3
"""Of a measured exchange: two are refused, one is accepted."""


class Row:
    """One way through a library, made ready for exchanges."""

    def __init__(self, rows: Rows, name: str, runner: asyncio.Runner, script: Script) -> None:
        """Make it ready, and hold one exchange to see that it takes the attempts that it should."""
        self.sent = script.sent
        self._exchange = rows[name](script)
        self._runner = runner
        self._attempts = script.attempts
        self.hold(1)
        if script.played != script.attempts:
            raise RuntimeError(f"{name}: {script.played} attempts, not {script.attempts}")

    def hold(self, times: int) -> None:
        """Hold so many exchanges, one after the other."""
        first = self._exchange()
        if isinstance(first, Coroutine):
            self._runner.run(self._await(first, times))
        else:
            for _ in range(times - 1):
                self._exchange()

    async def _await(self, first: Coroutine[object, object, object], times: int) -> None:
        await first
        for _ in range(times - 1):
            await self._exchange()  # type: ignore[misc]  # as the first

    def seconds(self, times: int) -> float:
        """Return how much time of a processor one attempt takes, over so many exchanges."""
        gc.collect()
        began = time.process_time()
        self.hold(times)
        return (time.process_time() - began) / (times * self._attempts)

    def peak(self) -> int:
        """Return how much more is allocated at once during an exchange, in bytes."""
        gc.collect()
        tracemalloc.start()
        before, _ = tracemalloc.get_traced_memory()
        self.hold(1)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most - before


def main() -> None:
    """Carry out orders until there are no more.

    They are `[row, "seconds", exchanges]`, `[row, "peak", 1]` and `[row, "sent", attempts]`; the
    last is answered with the bytes of each request's messages.
    """
    rows: Rows = importlib.import_module(f"benchmarks.{sys.argv[1]}").ROWS
    ready: dict[str, Row] = {}
    with asyncio.Runner() as runner:
        for line in sys.stdin:
            name, what, number = json.loads(line)
            if what == "sent":
                told: object = Row(rows, name, runner, Script(number)).sent
            else:
                if name not in ready:
                    ready[name] = Row(rows, name, runner, Script(ATTEMPTS))
                told = ready[name].peak() if what == "peak" else ready[name].seconds(number)
            print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
