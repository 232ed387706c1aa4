"""What a terminal shows of a run while it goes on; nothing anywhere else."""

import contextlib
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, TextIO

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from notarius.contracts import AttemptCause, ProducerRequest
from notarius.pipeline._settle import Part, Settled, Watcher

_CAUSES: Final = {
    AttemptCause.INITIAL: "asking",
    AttemptCause.STRUCTURAL_RETRY: "asking again, the last answer could not be read",
    AttemptCause.MODULE_RETRY: "asking again",
    AttemptCause.CORRECTIVE_RETRY: "asking for a corrected answer",
}


def _shown(*, quiet: bool) -> bool:
    # Not rich's idea of a terminal: FORCE_COLOR makes one of a file. Python has no stream where
    # standard error was closed before it began, as a service's may be.
    stream: TextIO | None = sys.stderr
    return not quiet and stream is not None and stream.isatty()


@contextlib.contextmanager
def reconcile_progress(
    registry: str, source: Path, most: int, *, quiet: bool
) -> Iterator[Callable[[ProducerRequest], None] | None]:
    """Show what is being asked about one registry."""
    if not _shown(quiet=quiet):
        yield None
        return
    console = Console(stderr=True)
    with console.status(f"{registry}: reading {escape(repr(source.name))}") as status:

        def starting(request: ProducerRequest) -> None:
            status.update(f"{registry}: {_attempt(request, most)}")

        yield starting


@contextlib.contextmanager
def run_progress(*, quiet: bool) -> Iterator[Watcher | None]:
    """Show what is being asked about each registry of a campaign, and for how long."""
    if not _shown(quiet=quiet):
        yield None
        return
    columns = (
        TextColumn("{task.fields[registry]}"),
        BarColumn(bar_width=20),
        TextColumn("{task.completed:.0f}/{task.total:.0f}"),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    # What is left to say when it ends, the summary says.
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        yield _RunProgress(progress)


class _RunProgress:
    """A line for each registry: parts that have ended, and the latest attempt."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._lock = threading.Lock()
        self._tasks: dict[str, TaskID] = {}

    def planned(self, parts: Sequence[Part]) -> None:
        for registry, total in Counter(part.exchange.registry for part in parts).items():
            self._tasks[registry] = self._progress.add_task(
                "", total=total, registry=f"{registry:<8}"
            )

    def asking(self, part: Part, request: ProducerRequest) -> None:
        most = part.exchange.budgets.policy.normalize_retries + 1
        self._say(part, f"part {part.number}: {_attempt(request, most)}")

    def settled(self, settled: Settled) -> None:
        with self._lock:
            self._progress.advance(self._tasks[settled.part.exchange.registry])
        if settled.remembered:
            self._say(settled.part, f"part {settled.part.number}: known from before")

    def _say(self, part: Part, text: str) -> None:
        with self._lock:
            self._progress.update(self._tasks[part.exchange.registry], description=text)


def _attempt(request: ProducerRequest, most: int) -> str:
    return f"attempt {request.number} of at most {most}, {_CAUSES[request.cause]}"
