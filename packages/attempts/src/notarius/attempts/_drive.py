"""The drivers: perform the effects that the machine asks for, in threads or in asyncio.

They own the clock, the cancellation and the hooks; every decision is the machine's.
"""

import contextlib
import logging
import math
import time
from collections.abc import Callable, Sequence
from typing import Final, Generic, Protocol, TypeVar, assert_never

import msgspec

from notarius.attempts._cancel import CancelToken
from notarius.attempts._events import (
    Ask,
    Broke,
    CancelRequested,
    DeadlinePassed,
    Event,
    Finish,
    Judged,
    Normalize,
    ProviderFailed,
    Raise,
    Replied,
    Spent,
    Started,
)
from notarius.attempts._machine import AttemptMachine, State
from notarius.contracts import (
    AsyncProducer,
    AttemptRecord,
    Cancellation,
    DeadlineExceededError,
    InvariantError,
    NoReplyError,
    Normalized,
    Normalizer,
    NormalizeRetry,
    Outcome,
    Produced,
    Producer,
    ProducerRequest,
    ProviderError,
    ResponseContract,
    provider_message,
)

T = TypeVar("T")

_LOG: Final = logging.getLogger("notarius.attempts")

GRACE_S: Final = 0.25
"""Seconds after its time in which an asyncio producer may end by itself, before it is cancelled."""

Hook = Callable[[AttemptRecord], None]
"""Is called with the record of each attempt as it ends."""


class Clock(Protocol):
    """Where a driver reads the time."""

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        ...


class SystemClock:
    """The clock of the machine that this runs on."""

    def monotonic(self) -> float:
        """Return `time.monotonic()`."""
        return time.monotonic()


class _Drive(Generic[T]):
    """What both drivers share: everything but the call of the producer."""

    def __init__(
        self,
        machine: AttemptMachine[T],
        clock: Clock | None,
        cancellation: Cancellation | None,
        hooks: Sequence[Hook],
    ) -> None:
        self._machine = machine
        self._clock = SystemClock() if clock is None else clock
        self.cancellation: Cancellation = CancelToken() if cancellation is None else cancellation
        self._hooks = hooks
        self._reported = len(machine.records)
        limit = machine.policy.deadline_s
        self._deadline = math.inf if limit is None else self._clock.monotonic() + limit
        self._began = 0.0
        self._begun = 0  # the number of the latest attempt that was begun

    def feed(self, event: Event[T]) -> Ask | Normalize | Finish[T]:
        """Pass an event to the machine, and the records that it closed to the hooks."""
        effect = self._machine.handle(event)
        self._report()
        if isinstance(effect, Raise):
            message = "the machine asked to raise where nothing broke"
            raise InvariantError(message)
        return effect

    def begin(self, request: ProducerRequest) -> ProducerRequest | None:
        """Return the request with the time that is left, or `None` if it must not be made."""
        self._began = self._clock.monotonic()
        left = self._deadline - self._began
        if self.cancellation.cancelled or left <= 0:
            return None
        self._begun = request.number
        return request if left == math.inf else msgspec.structs.replace(request, timeout_s=left)

    def stop(self) -> Ask | Normalize | Finish[T]:
        """End before a call is made; a cancel comes before the end of time."""
        if self.cancellation.cancelled:
            return self.feed(CancelRequested())
        return self.feed(DeadlinePassed())

    def replied(self, produced: Produced) -> Ask | Normalize | Finish[T]:
        """Take what the producer returned."""
        if type(produced) is not Produced:
            message = "a producer must return Produced"
            raise InvariantError(message)
        return self.feed(Replied(produced=produced))

    def normalize(
        self, normalizer: Normalizer[T], produced: Produced
    ) -> Ask | Normalize | Finish[T]:
        """Call the normalizer, unless somebody cancelled before or meanwhile."""
        if self.cancellation.cancelled:
            return self.feed(CancelRequested(elapsed_ms=self._elapsed_ms()))
        verdict = normalizer.normalize(produced)
        # Exact types: a subclass could answer for itself when it is checked.
        if type(verdict) not in {Normalized, NormalizeRetry}:
            message = "a normalizer must return Normalized or NormalizeRetry"
            raise InvariantError(message)
        if self.cancellation.cancelled:
            return self.feed(CancelRequested(elapsed_ms=self._elapsed_ms()))
        return self.feed(Judged(verdict=verdict, elapsed_ms=self._elapsed_ms()))

    def ended(self, error: NoReplyError) -> Ask | Normalize | Finish[T]:
        """Take what a producer raised instead of a reply; raise it again if it had no reason to."""
        event = self._event_for(error)
        if event is None:
            raise error
        return self.feed(event)

    def _event_for(self, error: NoReplyError) -> Event[T] | None:
        elapsed_ms = self._elapsed_ms()
        spent = Spent(repairs=error.repairs, transport_retries=error.transport_retries)
        if self.cancellation.cancelled:
            return CancelRequested(elapsed_ms=elapsed_ms, spent=spent)
        if isinstance(error, ProviderError):
            return ProviderFailed(
                message=provider_message(error.kind, error.status),
                elapsed_ms=elapsed_ms,
                spent=spent,
            )
        if isinstance(error, DeadlineExceededError) and self._deadline < math.inf:
            return DeadlinePassed(elapsed_ms=elapsed_ms, spent=spent)
        return None

    def abandon(self, error: BaseException) -> None:
        """Record the attempt that `error` ends, if one was begun and is not recorded yet."""
        machine = self._machine
        if machine.state in {State.PRODUCING, State.NORMALIZING} and machine.number == self._begun:
            interrupted = not isinstance(error, Exception)
            machine.handle(Broke(interrupted=interrupted, elapsed_ms=self._elapsed_ms()))
        self._report()

    def _elapsed_ms(self) -> int:
        return max(0, round((self._clock.monotonic() - self._began) * 1000))

    def _report(self) -> None:
        records = self._machine.records[self._reported :]
        self._reported = len(self._machine.records)
        for record in records:
            for hook in self._hooks:
                try:
                    hook(record)
                except Exception as error:  # noqa: BLE001 - a hook must not break the loop
                    # The type alone: the text of a hook's error could hold anything.
                    _LOG.warning("a hook raised %s; it is ignored", type(error).__name__)


def run(
    machine: AttemptMachine[T],
    producer: Producer,
    normalizer: Normalizer[T],
    *,
    contract: ResponseContract,
    clock: Clock | None = None,
    cancellation: Cancellation | None = None,
    hooks: Sequence[Hook] = (),
) -> Outcome[T]:
    """Run one operation to its end and return how it ended.

    `hooks` are called with each attempt's record as it ends; what they raise is logged by type
    and otherwise ignored. `KeyboardInterrupt`, and whatever producer or normalizer raise that
    is no `ProviderError`, comes out unchanged, after the attempt was recorded in
    `machine.records`. A producer that ignores `timeout_s` can't be stopped from here.
    """
    drive = _Drive(machine, clock, cancellation, hooks)
    try:
        effect = drive.feed(Started())
        while not isinstance(effect, Finish):
            match effect:
                case Normalize():
                    effect = drive.normalize(normalizer, effect.produced)
                case Ask():
                    request = drive.begin(effect.request)
                    if request is None:
                        effect = drive.stop()
                        continue
                    try:
                        produced = producer.produce(
                            request, contract=contract, cancellation=drive.cancellation
                        )
                    except NoReplyError as error:
                        effect = drive.ended(error)
                    else:
                        effect = drive.replied(produced)
                case _:
                    assert_never(effect)
    except BaseException as error:
        drive.abandon(error)
        raise
    return effect.outcome


async def arun(
    machine: AttemptMachine[T],
    producer: AsyncProducer,
    normalizer: Normalizer[T],
    *,
    contract: ResponseContract,
    clock: Clock | None = None,
    cancellation: Cancellation | None = None,
    hooks: Sequence[Hook] = (),
) -> Outcome[T]:
    """Do what `run` does, in asyncio.

    The producer is cancelled when the time is over or the token is set. `CancelledError` comes
    out unchanged, after the attempt was recorded in `machine.records`.
    """
    drive = _Drive(machine, clock, cancellation, hooks)
    try:
        effect = drive.feed(Started())
        while not isinstance(effect, Finish):
            match effect:
                case Normalize():
                    effect = drive.normalize(normalizer, effect.produced)
                case Ask():
                    request = drive.begin(effect.request)
                    if request is None:
                        effect = drive.stop()
                        continue
                    try:
                        produced = await _bounded(producer, request, contract, drive.cancellation)
                    except NoReplyError as error:
                        effect = drive.ended(error)
                    else:
                        effect = drive.replied(produced)
                case _:
                    assert_never(effect)
    except BaseException as error:
        drive.abandon(error)
        raise
    return effect.outcome


async def _bounded(
    producer: AsyncProducer,
    request: ProducerRequest,
    contract: ResponseContract,
    cancellation: Cancellation,
) -> Produced:
    """Await the producer, but no longer than its time and no further than a cancel.

    A producer keeps to its time by itself, and then may still have something to return; this is
    for one that does not.
    """
    import asyncio  # noqa: PLC0415 - takes long to import, and `run` does without it

    loop = asyncio.get_running_loop()
    limit = None if request.timeout_s is None else request.timeout_s + GRACE_S
    scope = asyncio.timeout(limit)

    def expire() -> None:
        with contextlib.suppress(RuntimeError):  # the scope has ended meanwhile
            scope.reschedule(loop.time())

    def expire_soon() -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(expire)

    try:
        async with scope:
            unsubscribe = cancellation.subscribe(expire_soon)
            try:
                return await producer.aproduce(request, contract=contract)
            finally:
                unsubscribe()
    except TimeoutError:
        if not scope.expired():
            raise  # the producer's own
        message = "the producer was stopped"
        raise DeadlineExceededError(message) from None
