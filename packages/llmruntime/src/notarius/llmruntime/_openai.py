"""OpenAI-compatible servers, through the official client (extra `openai`).

One call is one exchange over HTTP, except that a server which refuses a kind of structured output
is asked again with a weaker kind, which is then kept for later calls: JSON Schema, JSON object,
plain text. The client's own retries are off; retries are the producer's, and are counted there.
"""

import asyncio
import contextlib
import datetime as dt
import email.utils
import enum
import json
import math
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final, assert_never

import httpx2
import msgspec
import openai

from notarius.contracts import (
    COUNT_MAX,
    ContractError,
    DeadlineExceededError,
    FinishReason,
    ProviderError,
    ProviderErrorKind,
    Reply,
    Usage,
    has_lone_surrogate,
)
from notarius.llmruntime._backend import HOSTED_URL, ChatCall, Sampling

ENVELOPE_MAX_BYTES: Final = 128 * 1024 * 1024
"""The longest response body that is read, after decompression."""
CONNECT_TIMEOUT_S: Final = 10.0
"""Seconds to wait for a connection."""
PORT_MAX: Final = 65_535
"""The highest port; the client crashes on a higher one."""
SILENCE_TIMEOUT_S: Final = 600.0
"""Seconds without a byte after which a server is given up."""
CALL_TIMEOUT_S: Final = 1800.0
"""Seconds after which a server is given up, whatever it sends: some send blanks as they think."""

_FINISH_REASONS: Final = {
    "stop": FinishReason.STOP,
    "length": FinishReason.LENGTH,
    "content_filter": FinishReason.REFUSAL,
}
_STATUS_KINDS: Final[Mapping[int, ProviderErrorKind]] = {
    HTTPStatus.UNAUTHORIZED: ProviderErrorKind.DENIED,
    HTTPStatus.FORBIDDEN: ProviderErrorKind.DENIED,
    HTTPStatus.NOT_FOUND: ProviderErrorKind.NOT_FOUND,
    HTTPStatus.REQUEST_TIMEOUT: ProviderErrorKind.TIMED_OUT,
    HTTPStatus.TOO_MANY_REQUESTS: ProviderErrorKind.RATE_LIMITED,
    HTTPStatus.NOT_IMPLEMENTED: ProviderErrorKind.BAD_REQUEST,
}


# What RFC 6750 allows in a bearer token and more, but nothing that breaks a header.
_KEY: Final = re.compile("[!-~]+")


class OutputMode(enum.Enum):
    """Kinds of structured output, strongest first."""

    JSON_SCHEMA = "json_schema"
    JSON_OBJECT = "json_object"
    PLAIN = "plain"


_WEAKER: Final = {
    OutputMode.JSON_SCHEMA: OutputMode.JSON_OBJECT,
    OutputMode.JSON_OBJECT: OutputMode.PLAIN,
}


class AsyncOpenAIBackend:
    """A chat model behind an OpenAI-compatible server. Close it with `aclose`.

    Its connections belong to one event loop, that of the first call: call and close it there.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        sampling: Sampling | None = None,
        proxies: bool = True,
    ) -> None:
        """Talk to `model` at `base_url` (the hosted service if `None`), with a key if given.

        Nothing else decides who is asked: the client's own variables for an address, an
        organization or a project are not read.
        `proxies` says whether those that the environment names are used. Raises `ContractError` if
        the address is none, the key can't stand in a header, or the name of the model is no text.
        """
        if has_lone_surrogate(model):
            message = "the name of the model is not valid Unicode text"
            raise ContractError(message)
        if api_key and _KEY.fullmatch(api_key) is None:
            message = "the API key holds a space, a line end or another character that no key has"
            raise ContractError(message)
        self._model = model
        self._sampling = sampling or Sampling()
        self._mode = OutputMode.JSON_SCHEMA
        self._loop: asyncio.AbstractEventLoop | None = None
        # The client insists on a key; without one, each call says that the header is left out
        # (it does not heed a default header that says so).
        self._headers = {} if api_key else {"Authorization": openai.Omit()}
        self._client = _client(api_key or "unused", base_url, proxies=proxies)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._client.close()

    async def acomplete(self, call: ChatCall) -> Reply:
        """Return the reply of one call; raise `ProviderError` or `DeadlineExceededError`.

        Raises `ContractError` in another event loop than that of the first call.
        """
        loop = asyncio.get_running_loop()
        if self._loop not in {None, loop}:
            message = "a backend is for one event loop; make another backend for another loop"
            raise ContractError(message)
        self._loop = loop
        left = math.inf if call.timeout_s is None else call.timeout_s
        scope = asyncio.timeout(min(left, CALL_TIMEOUT_S))
        try:
            async with scope:
                return await self._negotiate(call)
        except TimeoutError:
            if not scope.expired():
                raise
        if left > CALL_TIMEOUT_S:
            raise ProviderError(ProviderErrorKind.TIMED_OUT)
        message = "the server did not answer in the time that was left"
        raise DeadlineExceededError(message)

    async def _negotiate(self, call: ChatCall) -> Reply:
        """Make the call with the strongest kind of structured output that the server takes."""
        mode = self._mode
        while True:
            result = await self._post(call, mode)
            if isinstance(result, Reply):
                self._mode = mode
                return result
            weaker = _WEAKER.get(mode)
            if result.kind is not ProviderErrorKind.BAD_REQUEST or weaker is None:
                raise result
            mode = weaker

    async def _post(self, call: ChatCall, mode: OutputMode) -> Reply | ProviderError:
        """Send one request and return the reply, or what became of it in closed words.

        The client's errors hold bodies and addresses, so none of them is ever chained; and no
        error is raised here, so that no traceback holds the body.
        """
        try:
            async with self._client.chat.completions.with_streaming_response.create(
                **self._parameters(call, mode)
            ) as response:
                body = bytearray()
                async for chunk in response.iter_bytes():
                    body += chunk
                    if len(body) > ENVELOPE_MAX_BYTES:
                        return ProviderError(ProviderErrorKind.BAD_ENVELOPE)
                return _read_envelope(bytes(body)) or ProviderError(ProviderErrorKind.BAD_ENVELOPE)
        except openai.APIStatusError as error:
            return _status_error(error.status_code, error.response.headers)
        except (openai.APITimeoutError, httpx2.TimeoutException):
            return ProviderError(ProviderErrorKind.TIMED_OUT)
        except httpx2.DecodingError:
            return ProviderError(ProviderErrorKind.BAD_ENVELOPE)
        except (openai.APIError, httpx2.HTTPError):
            return ProviderError(ProviderErrorKind.UNREACHABLE)

    def _parameters(self, call: ChatCall, mode: OutputMode) -> dict[str, Any]:
        parameters: dict[str, Any] = {
            "model": self._model,
            "messages": [
                {"role": message.role.value, "content": message.content}
                for message in call.messages
            ],
            "timeout": openai.Timeout(SILENCE_TIMEOUT_S, connect=CONNECT_TIMEOUT_S),
            "extra_headers": self._headers,
        }
        match mode:
            case OutputMode.JSON_SCHEMA:
                schema = {"name": call.schema_name, "schema": json.loads(call.schema_json)}
                parameters["response_format"] = {"type": "json_schema", "json_schema": schema}
            case OutputMode.JSON_OBJECT:
                parameters["response_format"] = {"type": "json_object"}
            case OutputMode.PLAIN:
                pass
            case _:
                assert_never(mode)
        sampling = msgspec.structs.asdict(self._sampling)
        if self._sampling.seed is not None:
            sampling["seed"] = self._sampling.seed + call.variation
        if call.max_tokens is not None:
            sampling["max_tokens"] = call.max_tokens
        return parameters | {name: value for name, value in sampling.items() if value is not None}


def _client(api_key: str, base_url: str | None, *, proxies: bool) -> openai.AsyncOpenAI:
    """Return a client without retries of its own that does not read the bodies of errors.

    Raises `ContractError` if the address is none.
    """
    # Raised after the handler, not in it: the errors hold the address.
    with contextlib.suppress(httpx2.InvalidURL, ValueError):
        client = openai.AsyncOpenAI(
            api_key=api_key,
            base_url=HOSTED_URL if base_url is None else base_url,
            max_retries=0,
            http_client=openai.DefaultAsyncHttpxClient(
                event_hooks={"response": [_leave_error_body]}, trust_env=proxies
            ),
        )
        # An argument can't say that there are none, only what the environment says can be undone.
        client.organization = client.project = None
        client._custom_headers = {}  # noqa: SLF001 - what OPENAI_CUSTOM_HEADERS holds, for any server
        url = client.base_url
        if url.scheme in {"http", "https"} and url.host and (url.port or 0) <= PORT_MAX:
            return client
    message = "the base URL must begin with http:// or https:// and name a host"
    raise ContractError(message)


async def _leave_error_body(response: httpx2.Response) -> None:
    """Leave the body of an error: its status says all, and it may be of any length."""
    if not response.is_success and not response.has_redirect_location:
        await response.aclose()


def parse_envelope(body: bytes) -> Reply:
    """Return the reply in a chat completion; raise `ProviderError` if it is none.

    Text from a thinking channel stands in fields of its own and is not the reply. A refusal is
    told by its field as well as by the finish reason.
    """
    reply = _read_envelope(body)
    del body  # the traceback of the error would hold it
    if reply is None:
        raise ProviderError(ProviderErrorKind.BAD_ENVELOPE)
    return reply


def _read_envelope(body: bytes) -> Reply | None:
    """Return the reply, or `None`: what JSON raises holds the text and is never chained."""
    try:
        envelope = json.loads(body)
        choice = envelope["choices"][0]
        message = choice["message"]
        text = message.get("content")
        refused = bool(message.get("refusal"))
        reason = choice.get("finish_reason")
        usage = envelope.get("usage")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
    if not isinstance(text, str | None) or not isinstance(reason, str | None):
        return None
    finish = None if reason is None else _FINISH_REASONS.get(reason, FinishReason.OTHER)
    return Reply(
        text=text or "",
        finish_reason=FinishReason.REFUSAL if refused else finish,
        usage=_usage(usage),
    )


def _usage(found: object) -> Usage:
    """Return the tokens that the server counted; what it does not say is unknown."""
    if not isinstance(found, dict):
        return Usage()
    return Usage(
        input_tokens=_count(found.get("prompt_tokens")),
        output_tokens=_count(found.get("completion_tokens")),
    )


def _count(tokens: object) -> int | None:
    if isinstance(tokens, bool) or not isinstance(tokens, int):
        return None
    return tokens if 0 <= tokens <= COUNT_MAX else None


def _status_error(status: int, headers: Mapping[str, str]) -> ProviderError:
    its_own = status >= HTTPStatus.INTERNAL_SERVER_ERROR
    other = ProviderErrorKind.SERVER_ERROR if its_own else ProviderErrorKind.BAD_REQUEST
    return ProviderError(
        _STATUS_KINDS.get(status, other), status=status, retry_after_s=_retry_after(headers)
    )


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the wait that a server asks for, in seconds or as a date (RFC 9110, 10.2.3)."""
    value = headers.get("retry-after", "")
    try:
        seconds = float(value)
    except ValueError:
        try:
            at = email.utils.parsedate_to_datetime(value)
        except (ValueError, OverflowError):  # the latter where a number in it is too large
            return None
        now = dt.datetime.now(tz=at.tzinfo or dt.UTC)
        seconds = (at.replace(tzinfo=now.tzinfo) - now).total_seconds()
    return max(seconds, 0.0) if math.isfinite(seconds) else None
