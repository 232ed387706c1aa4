"""llama.cpp in this process (extra `llama`), spoken to as any other server.

The model runs in this process, behind the server that llama.cpp brings: on loopback alone, on a
free port, with a key that only this process knows. So sampling, structured output, token counts and
cancellation are those of an external server.
"""

import secrets
from pathlib import Path
from typing import Any, Final

import xllamacpp  # type: ignore[import-untyped]  # it has no types

from notarius.contracts import ContractError, Reply
from notarius.llmruntime._backend import ChatCall, Sampling
from notarius.llmruntime._openai import AsyncOpenAIBackend

CONTEXT_TOKENS: Final = 16_384
"""Tokens of prompt and reply together."""


class AsyncLlamaBackend:
    """A GGUF file, run by llama.cpp in this process. Close it with `aclose`."""

    def __init__(
        self,
        file: Path,
        *,
        sampling: Sampling | None = None,
        context_tokens: int = CONTEXT_TOKENS,
        threads: int | None = None,
    ) -> None:
        """Load the model, which takes seconds.

        Raises `ContractError` if the file can't be read or is no model.
        """
        key = secrets.token_urlsafe(32)
        parameters = xllamacpp.CommonParams()
        parameters.model.path = str(file)
        parameters.n_ctx = context_tokens
        parameters.n_parallel = 1
        parameters.verbosity = -1
        parameters.api_keys = [key]
        parameters.endpoint_metrics = True  # for `_load`
        if threads is not None:
            parameters.cpuparams.n_threads = threads
        self._server: Any = _load(parameters)
        self._client = AsyncOpenAIBackend(
            file.name,
            base_url=f"{self._server.listening_address}/v1",
            api_key=key,
            sampling=sampling,
            proxies=False,
        )

    async def acomplete(self, call: ChatCall) -> Reply:
        """Return the reply of one call; raise `ProviderError` or `DeadlineExceededError`."""
        return await self._client.acomplete(call)

    async def aclose(self) -> None:
        """Close the connections and unload the model."""
        await self._client.aclose()
        self._server = None


def _load(parameters: Any) -> Any:  # noqa: ANN401 - xllamacpp has no types
    loaded: list[Any] = []
    reason = ""
    try:
        # In one step, so that an interrupt while it loads can't come before it is in the list.
        loaded.extend(map(xllamacpp.Server, [parameters]))
    except Exception as error:  # noqa: BLE001 - it raises whatever C++ threw
        reason = type(error).__name__
    finally:
        # One that is dropped before its loop runs hangs for ever; an answer shows that it does.
        for server in loaded:
            server.handle_metrics()
    if loaded:
        return loaded[0]
    message = f"llama.cpp could not load the model ({reason}); is it a whole GGUF file?"
    raise ContractError(message)
