"""Turns a prompt into one exact, structurally valid response, within budgets of its own."""

from importlib.metadata import version as _version

from notarius.llmruntime._backend import (
    HOSTED_URL,
    AsyncChatBackend,
    ChatBackend,
    ChatCall,
    Sampling,
)
from notarius.llmruntime._blocking import BlockingBackend
from notarius.llmruntime._structured import AsyncStructuredProducer, StructuredProducer

__all__ = [
    "HOSTED_URL",
    "AsyncChatBackend",
    "AsyncStructuredProducer",
    "BlockingBackend",
    "ChatBackend",
    "ChatCall",
    "Sampling",
    "StructuredProducer",
]


def __getattr__(name: str) -> str:
    """Read `__version__` from the installed metadata, only when someone asks."""
    if name == "__version__":
        return _version("notarius-llmruntime")
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)
