"""The exceptions of all packages. The class says whose fault it is; attributes carry the data.

No message ever holds text that a model wrote, guidance, or a credential, and no attribute does
(but for the key of a `RepeatedKeyError`, which whoever catches it may show only for input files).
"""

import enum
from typing import Final


class NotariusError(Exception):
    """Base of every error that a notarius package raises on purpose."""


class ContractError(NotariusError, ValueError):
    """The caller passed a value that breaks a contract.

    It is a `ValueError`, so msgspec turns it into its own `ValidationError` while decoding.
    """


class InvariantError(NotariusError):
    """A promise between two components was broken: a fault in the program, not in its input."""


class NoReplyError(NotariusError):
    """A producer ends its call without a reply.

    `repairs` and `transport_retries` are what it had spent of its own budgets by then.
    """

    repairs: int = 0
    transport_retries: int = 0


class OperationCancelledError(NoReplyError):
    """A producer saw that its operation was cancelled and stopped."""


class DeadlineExceededError(NoReplyError):
    """A producer used up the time that its request allowed."""


class ProviderErrorKind(enum.StrEnum):
    """Why a provider gave no reply at all."""

    UNREACHABLE = "unreachable"
    TIMED_OUT = "timed_out"
    RATE_LIMITED = "rate_limited"
    DENIED = "denied"
    NOT_FOUND = "not_found"
    BAD_REQUEST = "bad_request"
    SERVER_ERROR = "server_error"
    BAD_ENVELOPE = "bad_envelope"


_PROVIDER_PROSE: Final = {
    ProviderErrorKind.UNREACHABLE: "the model server could not be reached",
    ProviderErrorKind.TIMED_OUT: "the model server did not answer in time",
    ProviderErrorKind.RATE_LIMITED: "the model server refused the request: too many requests",
    ProviderErrorKind.DENIED: "the model server refused the credentials",
    ProviderErrorKind.NOT_FOUND: "the model server does not know this model or address",
    ProviderErrorKind.BAD_REQUEST: "the model server refused the request as invalid",
    ProviderErrorKind.SERVER_ERROR: "the model server failed",
    ProviderErrorKind.BAD_ENVELOPE: "the model server sent something that is not a model reply",
}


class ProviderError(NoReplyError):
    """The provider could not be reached or refused: there is no reply to judge.

    The message is made from `kind` and `status` alone, so that no response body, address or
    header can leak through it.
    """

    def __init__(
        self,
        kind: ProviderErrorKind,
        *,
        status: int | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        """Keep the kind and, where there were any, HTTP status and requested wait in seconds."""
        self.kind = kind
        self.status = status
        self.retry_after_s = retry_after_s
        super().__init__(provider_message(kind, status))

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle by its data, so that the error survives a process boundary."""
        known = (self.kind, self.status, self.retry_after_s)
        return (_rebuild_provider_error, known, self.__dict__)


def provider_message(kind: ProviderErrorKind, status: int | None) -> str:
    """Return the closed words for a provider's failure; anything but a number is no status."""
    known = isinstance(status, int) and not isinstance(status, bool)
    return _PROVIDER_PROSE[kind] + (f" (status {int(status)})" if known and status else "")


def _rebuild_provider_error(
    kind: ProviderErrorKind, status: int | None, retry_after_s: float | None
) -> ProviderError:
    return ProviderError(kind, status=status, retry_after_s=retry_after_s)
