"""The structured-output repair of one request, and its transport retries: two budgets, no I/O.

Rules
 1. A repair is asked for when a reply is structurally invalid and repair budget is left. It is
    part of the same attempt: the caller sees the reply that finally passed, or the last failure.
 2. A repair sends the request's messages, the latest invalid reply and one structural message;
    earlier invalid replies are not sent. Where the reply can't be sent back (no visible text, cut
    off, too long, no Unicode, over `SENT_BACK_MAX_BYTES`) it sends the request's messages alone.
 3. A refusal is final.
 4. A repair that runs out of time leaves the failure that it was to repair.
 5. A transport retry repeats the same call. It is for errors that may pass, and waits as long as
    the server asks, else 0.5 s doubled each time, at most `BACKOFF_MAX_S`.
"""

from typing import Final, assert_never

import msgspec

from notarius.contracts import (
    Message,
    ModelCandidate,
    NoReplyError,
    Produced,
    ProducerRequest,
    ProviderError,
    ProviderErrorKind,
    Reply,
    ResponseContract,
    Role,
    StructuralDefect,
    StructuralFailure,
    Usage,
    judge_reply,
)
from notarius.llmruntime._backend import ChatCall

BACKOFF_FIRST_S: Final = 0.5
BACKOFF_MAX_S: Final = 30.0
CALLS_PER_ATTEMPT: Final = 1000
"""Variations that are kept for the calls of one attempt."""
SENT_BACK_MAX_BYTES: Final = 64 * 1024
"""The longest invalid reply that a repair sends back."""

_MAY_PASS: Final = frozenset(
    {
        ProviderErrorKind.UNREACHABLE,
        ProviderErrorKind.TIMED_OUT,
        ProviderErrorKind.RATE_LIMITED,
        ProviderErrorKind.SERVER_ERROR,
    }
)
_START: Final = "An automated check could not read your answer: "
_END: Final = " Send the complete answer again as exactly one JSON object, and nothing else."


class Conversation:
    """One request on its way to a candidate."""

    def __init__(
        self,
        request: ProducerRequest,
        contract: ResponseContract,
        *,
        repair_retries: int,
        transport_retries: int,
    ) -> None:
        """Begin with the request's own messages."""
        self._request = request
        self._contract = contract
        self._repairs_left = repair_retries
        self._transport_left = transport_retries
        self._messages = request.messages
        self._repairs = 0
        self._transport = 0
        self._usage = Usage(input_tokens=0, output_tokens=0)
        self._last: Produced | None = None

    @property
    def last(self) -> Produced | None:
        """What the latest reply came to, if there was one, with all that was spent until now."""
        if self._last is None:
            return None
        return msgspec.structs.replace(
            self._last, repairs=self._repairs, transport_retries=self._transport
        )

    def charge(self, error: NoReplyError) -> None:
        """Note on an error what was spent before it."""
        error.repairs, error.transport_retries = self._repairs, self._transport

    def call(self, timeout_s: float | None) -> ChatCall:
        """Return the next call."""
        earlier_calls = self._repairs + self._transport
        return ChatCall(
            messages=self._messages,
            schema_name=self._contract.name,
            schema_json=self._contract.schema_json,
            timeout_s=timeout_s,
            variation=CALLS_PER_ATTEMPT * (self._request.number - 1) + earlier_calls,
        )

    def take(self, reply: Reply) -> Produced | None:
        """Take a raw reply; return what it came to, or `None` if a repair is to be asked for."""
        result = judge_reply(reply, self._contract)
        self._usage += reply.usage
        self._last = Produced(
            result=result,
            finish_reason=reply.finish_reason,
            usage=self._usage,
            repairs=self._repairs,
            transport_retries=self._transport,
        )
        if isinstance(result, ModelCandidate) or not self._spend_repair(result):
            return self._last
        self._messages = self._request.messages + _repair_messages(result, reply)
        return None

    def wait_after(self, error: NoReplyError, left_s: float) -> float | None:
        """Spend a transport retry; return the seconds to wait, or `None` if the error is final.

        It is if the wait would not end before the `left_s` seconds do.
        """
        if not isinstance(error, ProviderError) or error.kind not in _MAY_PASS:
            return None
        if self._transport_left == 0:
            return None
        doubled = BACKOFF_FIRST_S * 2.0 ** min(self._transport, 10)
        wanted = doubled if error.retry_after_s is None else error.retry_after_s
        wait = min(max(wanted, 0.0), BACKOFF_MAX_S)
        if wait >= left_s:
            return None
        self._transport_left -= 1
        self._transport += 1
        return wait

    def _spend_repair(self, failure: StructuralFailure) -> bool:
        if failure.defect is StructuralDefect.REFUSED or self._repairs_left == 0:
            return False
        self._repairs_left -= 1
        self._repairs += 1
        return True


def _repair_messages(failure: StructuralFailure, reply: Reply) -> tuple[Message, ...]:
    words = _structural_words(failure.defect)
    if words is None or failure.response_bytes > SENT_BACK_MAX_BYTES:
        return ()
    return (
        Message(role=Role.ASSISTANT, content=reply.text),
        Message(role=Role.USER, content=f"{_START}{words}{_END}"),
    )


def _structural_words(defect: StructuralDefect) -> str | None:
    """Say what is wrong with a reply that is sent back, or `None` if it can't be."""
    match defect:
        case StructuralDefect.NOT_JSON:
            return "it is not exactly one JSON object."
        case StructuralDefect.REPEATED_KEY:
            return "one of its objects has the same key twice."
        case StructuralDefect.TOO_DEEP:
            return "it is nested too deeply."
        case StructuralDefect.WRONG_SHAPE:
            return "its JSON does not have the form that was asked for."
        case (
            StructuralDefect.EMPTY
            | StructuralDefect.CUT_OFF
            | StructuralDefect.OVERSIZED
            | StructuralDefect.NOT_TEXT
            | StructuralDefect.REFUSED
        ):
            return None
        case _:
            assert_never(defect)
