"""What can happen to an operation (events), and what the machine asks its driver to do (effects).

`elapsed_ms` is the time since the driver began the attempt, in milliseconds.
"""

from typing import Generic, TypeAlias, TypeVar

import msgspec

from notarius.contracts import (
    Normalized,
    NormalizeRetry,
    Outcome,
    Produced,
    ProducerRequest,
)

T = TypeVar("T")


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    """What a call that ended without a reply had spent of the producer's own budgets."""

    repairs: int
    transport_retries: int


class Started(msgspec.Struct, frozen=True, kw_only=True):
    """The driver is ready to begin."""


class Replied(msgspec.Struct, frozen=True, kw_only=True):
    """The producer returned."""

    produced: Produced


class Judged(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """The normalizer returned."""

    verdict: Normalized[T] | NormalizeRetry[T]
    elapsed_ms: int


class ProviderFailed(msgspec.Struct, frozen=True, kw_only=True):
    """The producer raised a `ProviderError`; `message` is its text, made of closed words."""

    message: str
    elapsed_ms: int
    spent: Spent | None = None


class DeadlinePassed(msgspec.Struct, frozen=True, kw_only=True):
    """The operation's time is over; `elapsed_ms` is `None` if the asked-for call was not made."""

    elapsed_ms: int | None = None
    spent: Spent | None = None


class CancelRequested(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody cancelled; `elapsed_ms` is `None` if the asked-for call was not made."""

    elapsed_ms: int | None = None
    spent: Spent | None = None


class Broke(msgspec.Struct, frozen=True, kw_only=True):
    """Producer or normalizer raised something else, which the driver is about to raise again.

    `interrupted` says that it was an interruption (`KeyboardInterrupt`, `CancelledError`), not
    a fault.
    """

    interrupted: bool
    elapsed_ms: int


Event: TypeAlias = (
    Started | Replied | Judged[T] | ProviderFailed | DeadlinePassed | CancelRequested | Broke
)


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """Call the producer with exactly this request."""

    request: ProducerRequest


class Normalize(msgspec.Struct, frozen=True, kw_only=True):
    """Call the normalizer with what was produced."""

    produced: Produced


class Finish(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """Return the outcome."""

    outcome: Outcome[T]


class Raise(msgspec.Struct, frozen=True, kw_only=True):
    """Raise again what broke."""


Effect: TypeAlias = Ask | Normalize | Finish[T] | Raise
