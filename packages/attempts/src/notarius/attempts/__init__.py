"""The generic producer-attempt state machine and its two drivers."""

from notarius.attempts._cancel import CancelToken
from notarius.attempts._diagram import mermaid_diagram
from notarius.attempts._drive import Clock, Hook, SystemClock, arun, run
from notarius.attempts._machine import (
    DEADLINE_CODE,
    PROVIDER_CODE,
    AttemptMachine,
    AttemptPolicy,
    State,
    TerminalPolicy,
)
from notarius.attempts._policy import exchange_content

__all__ = [
    "DEADLINE_CODE",
    "PROVIDER_CODE",
    "AttemptMachine",
    "AttemptPolicy",
    "CancelToken",
    "Clock",
    "Hook",
    "State",
    "SystemClock",
    "TerminalPolicy",
    "arun",
    "exchange_content",
    "mermaid_diagram",
    "run",
]


def __getattr__(name: str) -> str:
    """Read `__version__` from the installed metadata, only when someone asks."""
    if name == "__version__":
        from importlib.metadata import version as _version  # noqa: PLC0415 - takes long to import

        return _version("notarius-attempts")
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)
