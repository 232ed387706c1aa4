"""What is sent to a model: messages, the original prompt, and one request."""

import enum
from typing import ClassVar, Self

from notarius.contracts._errors import ContractError
from notarius.contracts._json import canonical_json
from notarius.contracts._limits import PROMPT_MAX_BYTES
from notarius.contracts._text import (
    encoded,
    require_count,
    require_instance,
    require_tuple,
    sha256_hex,
)
from notarius.contracts._value import Value


class Role(enum.StrEnum):
    """Who speaks in a conversation."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"


class Message(Value, frozen=True, kw_only=True):
    """One message; its content is kept byte for byte and never shown.

    Raises `ContractError` if the content is no text or holds a lone surrogate.
    """

    role: Role
    content: str

    PRIVATE: ClassVar[frozenset[str]] = frozenset({"content"})

    def __post_init__(self) -> None:
        """Check the types and that the content can be sent as UTF-8."""
        require_instance(self.role, Role, "the role of a message")
        encoded(self.content, "the content of a message")


class Prompt(Value, frozen=True, kw_only=True):
    """A complete original prompt: one or more messages, of which the last is the user's.

    Raises `ContractError` on an empty prompt, another last role, or more than
    `PROMPT_MAX_BYTES` of content.
    """

    messages: tuple[Message, ...]

    def __post_init__(self) -> None:
        """Check shape and size."""
        require_tuple(self.messages, Message, "the messages of a prompt")
        if not self.messages or self.messages[-1].role is not Role.USER:
            message = "a prompt needs at least one message and must end with a user message"
            raise ContractError(message)
        size = sum(len(item.content.encode()) for item in self.messages)
        if size > PROMPT_MAX_BYTES:
            message = f"the prompt has {size} bytes; at most {PROMPT_MAX_BYTES} are allowed"
            raise ContractError(message)

    @classmethod
    def of(cls, user: str, *, system: str | None = None) -> Self:
        """Return a prompt of one user message, after a system message if one is given."""
        first = () if system is None else (Message(role=Role.SYSTEM, content=system),)
        return cls(messages=(*first, Message(role=Role.USER, content=user)))

    @property
    def sha256(self) -> str:
        """Digest of roles and contents, 64 hexadecimal digits."""
        return messages_sha256(self.messages)


class AttemptCause(enum.StrEnum):
    """Why an attempt was made."""

    INITIAL = "initial"
    STRUCTURAL_RETRY = "structural_retry"
    """The reply before had no valid candidate: the bare original prompt again."""
    MODULE_RETRY = "module_retry"
    """The normalizer asked again without guidance: the bare original prompt again."""
    CORRECTIVE_RETRY = "corrective_retry"
    """The normalizer gave guidance: original prompt, latest exact reply, one correction."""


class ProducerRequest(Value, frozen=True, kw_only=True):
    """One request to a producer: exactly these messages, in this order.

    `number` counts attempts from 1. `timeout_s` is what is left of the operation's time in
    seconds, `None` without a deadline. Raises `ContractError` on a value out of its range.
    """

    messages: tuple[Message, ...]
    number: int
    cause: AttemptCause
    timeout_s: float | None = None

    def __post_init__(self) -> None:
        """Check the types and ranges."""
        require_tuple(self.messages, Message, "the messages of a request")
        if not self.messages or self.messages[-1].role is not Role.USER:
            message = "a request needs at least one message and must end with a user message"
            raise ContractError(message)
        require_count(self.number, "the number of an attempt", minimum=1)
        require_instance(self.cause, AttemptCause, "the cause of an attempt")
        if self.timeout_s is not None and not self.timeout_s > 0:
            message = "the time left for a request must be more than 0 seconds"
            raise ContractError(message)

    @property
    def sha256(self) -> str:
        """Digest of roles and contents, 64 hexadecimal digits."""
        return messages_sha256(self.messages)

    @property
    def bypass_cache(self) -> bool:
        """Whether a response cache must not answer: true for every attempt after the first."""
        return self.number > 1


def messages_sha256(messages: tuple[Message, ...]) -> str:
    """Return the digest of a conversation, in an encoding that no two conversations share."""
    return sha256_hex(canonical_json([[item.role, item.content] for item in messages]))
