"""Settles the parts of a run: remembered results are taken, the others are held somewhere.

A part is one exchange. What is settled is handed back as it comes, so that a registry can be
written as soon as its last part is there. A result goes into the checkpoints before it is handed
back: after a crash only exchanges that were still being held are held again.
"""

import concurrent.futures
import contextlib
import math
import time
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from typing import Any, Final, Protocol

import msgspec
from msgspec.structs import replace

from notarius.attempts import DEADLINE_CODE, CancelToken, TerminalPolicy
from notarius.contracts import (
    Accepted,
    AttemptRecord,
    Cancelled,
    Failed,
    FailureKind,
    FellBack,
    Outcome,
    ProducerRequest,
    canonical_json,
)
from notarius.pipeline._checkpoints import Checkpoints, Remembered
from notarius.pipeline._errors import InputError
from notarius.pipeline._exchange import Exchange, Held, rules_for
from notarius.pipeline._interrupts import LetThrough
from notarius.registries import Registry, RegistryNormalizer

# Where one exchange ends so, the next would too, and would cost as much again.
_CONTAGIOUS: Final = frozenset({FailureKind.PROVIDER, FailureKind.DEADLINE, FailureKind.BROKEN})
_LEAST_S: Final = 1e-9  # a deadline must be more than 0


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One exchange of a run: `number` counts from 1 within its registry, `key` names its result."""

    number: int
    exchange: Exchange
    normalizer: RegistryNormalizer[Any, Any]
    key: str


class Settled(msgspec.Struct, frozen=True, kw_only=True):
    """How a part ended.

    `error` broke it, for the caller to raise after the outcome was put on paper. For a
    `remembered` outcome nothing was spent now.
    """

    part: Part
    outcome: Outcome[Registry[Any]]
    error: BaseException | None = None
    remembered: bool = False


class Holder(Protocol):
    """Where exchanges are held; `at_once` says how many at a time."""

    at_once: int

    def submit(self, part: Part) -> "concurrent.futures.Future[Held]":
        """Begin to hold an exchange."""
        ...


class Watcher(Protocol):
    """Is told how a run goes on; may be called from any thread."""

    def planned(self, parts: Sequence[Part]) -> None:
        """Tell what the run consists of, before anything else."""
        ...

    def asking(self, part: Part, request: ProducerRequest) -> None:
        """Tell that an attempt begins."""
        ...

    def settled(self, settled: Settled) -> None:
        """Tell that a part has ended."""
        ...


class Recall(msgspec.Struct, frozen=True, kw_only=True):
    """What is remembered, and which of it may be taken."""

    checkpoints: Checkpoints | None = None
    retry_fallbacks: bool = False

    def get(self, part: Part) -> Outcome[Registry[Any]] | None:
        """Return the remembered outcome of a part, if there is one that will do.

        A fallback will not do where spent retries are to be a failure. Raises `InputError` if what
        is remembered is no registry of this kind and of these candidates, each of them once, or if
        its records are not of its attempts.
        """
        found = None if self.checkpoints is None else self.checkpoints.get(part.key)
        if self.checkpoints is None or found is None:
            return None
        rules = rules_for(part.exchange.registry)
        # A generic alias of a type that is chosen here: msgspec reads it, mypy can't.
        try:
            registry: Registry[Any] = msgspec.json.decode(
                found.registry,
                type=Registry[rules.entry_type],  # type: ignore[name-defined]
            )
        except (msgspec.DecodeError, ValueError, RecursionError):
            raise self.checkpoints.damaged() from None
        held = sorted(source_id for entry in registry.entries for source_id in entry.source_ids)
        if (
            registry.schema != rules.schema
            or held != sorted(candidate.source_id for candidate in part.exchange.candidates)
            or not all(entry.source_ids for entry in registry.entries)
            or not _speaks_of(found.records, part.normalizer.request.ids)
        ):
            raise self.checkpoints.damaged()
        if found.warning is None:
            return Accepted(value=registry, records=found.records)
        fail = part.exchange.budgets.policy.terminal is TerminalPolicy.FAIL
        if self.retry_fallbacks or fail or found.applied_attempt is None:
            return None
        return FellBack(
            value=registry,
            records=found.records,
            warning=found.warning,
            applied_attempt=found.applied_attempt,
        )

    def put(self, part: Part, outcome: Outcome[Registry[Any]]) -> None:
        """Remember an outcome for which a model was asked and which holds a registry.

        A fallback for want of time is not: with more time the model could have done better.
        """
        if self.checkpoints is None or not outcome.records:
            return
        match outcome:
            case Accepted(value=registry, records=records):
                remembered = Remembered(
                    outcome="accepted",
                    registry=msgspec.Raw(canonical_json(registry)),
                    records=records,
                    applied_attempt=len(records),
                    warning=None,
                )
            case FellBack() if outcome.warning.code == DEADLINE_CODE:
                return
            case FellBack(value=registry, records=records):
                remembered = Remembered(
                    outcome="fell_back",
                    registry=msgspec.Raw(canonical_json(registry)),
                    records=records,
                    applied_attempt=outcome.applied_attempt,
                    warning=outcome.warning,
                )
            case Failed() | Cancelled():
                return
        self.checkpoints.put(part.key, remembered)


def _speaks_of(records: Sequence[AttemptRecord], ids: Sequence[str]) -> bool:
    """Tell whether records are of attempts at a request with these ids."""
    numbers = [record.number for record in records]
    issues = (issue for record in records for issue in record.issues)
    named = {request_id for issue in issues for request_id in issue.request_ids}
    return numbers == list(range(1, len(numbers) + 1)) and named.issubset(ids)


def settle(
    parts: Sequence[Part],
    holder: Holder,
    *,
    recall: Recall,
    token: CancelToken,
    deadline_s: float | None = None,
    watcher: Watcher | None = None,
    let_through: LetThrough = contextlib.nullcontext,
) -> Generator[Settled, None, None]:
    """Settle all parts, and hand each back when it has ended, in no fixed order.

    `deadline_s` is the time for all of them together. When one fails in a way that the others
    would share, or the run is interrupted, no other is begun: those end as cancelled. An
    interruption is waited for in `let_through` alone, and comes out as the error of a part; so does
    an `InputError` in the middle of a run. It is raised if what is remembered can't be read, or no
    model can be had: then nothing was handed back yet.
    """
    if watcher is not None:
        watcher.planned(parts)
    waiting, to_ask = _recalled(parts, recall, watcher)
    end = math.inf if deadline_s is None else time.monotonic() + deadline_s
    had = False  # whether a model can be had
    with contextlib.closing(_Rest(to_ask, holder, token, end, let_through)) as rest:
        for ended in rest:
            settled = rest.put(ended, recall)
            if watcher is not None:
                watcher.settled(settled)
            waiting.append(settled)
            had = had or not isinstance(settled.outcome, Cancelled) or bool(settled.outcome.records)
            if had:
                yield from waiting
                waiting.clear()
    for settled in waiting:
        if isinstance(settled.error, InputError):
            raise settled.error
    yield from waiting


def _recalled(
    parts: Sequence[Part], recall: Recall, watcher: Watcher | None
) -> tuple[list[Settled], deque[Part]]:
    """Return the parts that are remembered, and those for which a model has to be asked."""
    remembered: list[Settled] = []
    to_ask: deque[Part] = deque()
    for part in parts:
        outcome = recall.get(part)
        if outcome is None:
            to_ask.append(part)
            continue
        settled = Settled(part=part, outcome=outcome, remembered=True)
        if watcher is not None:
            watcher.settled(settled)
        remembered.append(settled)
    return remembered, to_ask


class _Rest:
    """The parts for which a model has to be asked."""

    def __init__(
        self,
        to_ask: deque[Part],
        holder: Holder,
        token: CancelToken,
        end: float,
        let_through: LetThrough,
    ) -> None:
        self._to_ask = to_ask
        self._holder = holder
        self._token = token
        self._end = end
        self._let_through = let_through
        self._running: dict[concurrent.futures.Future[Held], Part] = {}
        self._interrupt: KeyboardInterrupt | None = None
        self._stopped = False

    def __iter__(self) -> Iterator[Settled]:
        """Hand back what ends, and at last what was never begun."""
        while self._running or (self._to_ask and not self._stopped):
            try:
                done = self._step()
            except KeyboardInterrupt as error:
                self.interrupted(error)
                continue
            for future in done:
                settled = _settled(self._running.pop(future), future)
                if isinstance(settled.outcome, Cancelled):
                    settled = replace(settled, error=settled.error or self._interrupt)
                if _stops(settled) or self._token.cancelled:
                    self.stop()
                yield settled
        for part in self._to_ask:
            yield Settled(part=part, outcome=Cancelled(records=()), error=self._interrupt)

    def _step(self) -> "set[concurrent.futures.Future[Held]]":
        """Begin what there is room for, and wait until something has ended."""
        while self._to_ask and not self._stopped and len(self._running) < self._holder.at_once:
            part = self._to_ask[0]
            with self._let_through():
                future = self._holder.submit(_within(part, self._end))
            self._running[future] = self._to_ask.popleft()
        with self._let_through():
            return concurrent.futures.wait(
                self._running, return_when=concurrent.futures.FIRST_COMPLETED
            ).done

    def put(self, settled: Settled, recall: Recall) -> Settled:
        """Remember a result; if that fails it is lost for the next run, but one of this run."""
        try:
            with self._let_through():
                recall.put(settled.part, settled.outcome)
        except KeyboardInterrupt as error:
            self.interrupted(error)
            return replace(settled, error=settled.error or error)
        except InputError as error:
            # What can't be remembered should not be asked and paid for.
            self.stop()
            return replace(settled, error=settled.error or error)
        return settled

    def interrupted(self, error: KeyboardInterrupt) -> None:
        """Begin nothing more, and end what is running; twice is the way to say: at once."""
        if self._interrupt is not None:
            raise error
        self._interrupt = error
        self._token.cancel()
        self.stop()

    def stop(self) -> None:
        """Begin nothing more; what a model is asked about already may end."""
        self._stopped = True
        for future in self._running:
            future.cancel()

    def close(self) -> None:
        """Stop what is still running, if the caller has given up."""
        if self._running:
            self._token.cancel()
            self.stop()
            with self._let_through():
                concurrent.futures.wait(self._running)


def _within(part: Part, end: float) -> Part:
    """Give a part the time that is left."""
    if end == math.inf:
        return part
    left = max(_LEAST_S, end - time.monotonic())
    budgets = part.exchange.budgets
    budgets = replace(budgets, policy=replace(budgets.policy, deadline_s=left))
    return replace(part, exchange=replace(part.exchange, budgets=budgets))


def _settled(part: Part, future: "concurrent.futures.Future[Held]") -> Settled:
    try:
        held = future.result()
    except concurrent.futures.CancelledError:
        return Settled(part=part, outcome=Cancelled(records=()))
    except InputError as error:  # there is no model to be had, or no place for its exchanges
        return Settled(part=part, outcome=Cancelled(records=()), error=error)
    except Exception as error:  # noqa: BLE001 - an executor raises whatever it likes
        # The type alone: the text of its error could hold anything.
        lost = f"A worker was lost while the model was asked ({type(error).__name__})."
        return Settled(
            part=part,
            outcome=Failed(kind=FailureKind.PROVIDER, code="worker_lost", message=lost, records=()),
        )
    return Settled(part=part, outcome=held.outcome, error=held.error)


def _stops(settled: Settled) -> bool:
    if settled.error is not None or isinstance(settled.outcome, Cancelled):
        return True
    return isinstance(settled.outcome, Failed) and settled.outcome.kind in _CONTAGIOUS
