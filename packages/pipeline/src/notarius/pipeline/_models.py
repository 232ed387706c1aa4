"""Who is asked: the built-in matcher, a server, or a model in this process."""

import contextlib
import hashlib
import os
import threading
import urllib.parse
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar, Final, Self

import msgspec

from notarius.contracts import Cancellation, ContractError, Reply, Value, has_lone_surrogate
from notarius.llmruntime import HOSTED_URL, BlockingBackend, ChatBackend, ChatCall, Sampling
from notarius.pipeline._errors import InputError
from notarius.pipeline._similarity_backend import SimilarityBackend
from notarius.registries import Candidate, RegistryKind, RegistryNormalizer

BackendFactory = Callable[
    [RegistryKind, Sequence[Candidate], RegistryNormalizer[Any, Any]], ChatBackend
]
"""Makes the backend for one list: from its registry, its candidates and their normalizer."""

SIMILARITY: Final = "similarity"
SERVER: Final = "openai:"
IN_PROCESS: Final = "llama:"
API_KEY_ENV: Final = "OPENAI_API_KEY"
"""The variable that holds a server's key unless another is named."""

IN_PROCESS_CONTEXT_TOKENS: Final = 16_384
"""Tokens of prompts and replies together that a model in this process has room for."""

REPLY_TOKENS: Final = 256
REPLY_TOKENS_PER_CANDIDATE: Final = 48
"""A reply may have so many tokens: every candidate could stand in a pretty-printed group."""
SAMPLING: Final = Sampling(temperature=0.3, seed=1)
"""A little above 0, so that another attempt can be another answer, with a fixed seed, so that the
same run is the same again where the server allows it."""


class ModelChoice(Value, frozen=True, kw_only=True):
    """The `--model` option and what belongs to it. Raises `InputError` if that is contradictory.

    With `keyless` no key is sent, whatever the environment holds, also that of a worker.
    """

    name: str = SIMILARITY
    base_url: str | None = None
    api_key_env: str | None = None
    keyless: bool = False
    context_tokens: int | None = None

    PRIVATE: ClassVar[frozenset[str]] = frozenset({"base_url", "api_key_env"})
    """An address may hold a password, and a user may have given the key for its variable."""

    @property
    def address(self) -> str:
        """Where the server is, whatever the environment says."""
        return HOSTED_URL if self.base_url is None else self.base_url

    @property
    def key(self) -> str | None:
        """The server's key, read from the environment now."""
        return None if self.keyless else os.environ.get(self.api_key_env or API_KEY_ENV)

    def __post_init__(self) -> None:
        """Check what can be checked without a model."""
        if self.name == SIMILARITY or self.name.startswith(IN_PROCESS):
            for option, value in (
                ("--base-url", self.base_url),
                ("--api-key-env", self.api_key_env),
            ):
                if value is not None:
                    raise InputError(f"{option}: is for a model `{SERVER}NAME`; leave it out")
        if self.name == SIMILARITY:
            return
        if has_lone_surrogate(self.name):
            raise InputError("--model: must be UTF-8; rename the file, or mend the name")
        kind, colon, which = self.name.partition(":")
        if kind + colon not in {SERVER, IN_PROCESS} or not which:
            raise InputError(
                f"--model: use `{SIMILARITY}`, `{SERVER}NAME` or `{IN_PROCESS}FILE.gguf`"
            )
        if kind + colon == IN_PROCESS and not Path(which).is_file():
            raise InputError(f"--model: no file {which}; give the path of a GGUF file")
        if self.base_url is not None:
            _require_address(self.base_url)
        if kind + colon == SERVER and not self.keyless:
            _require_key(self.api_key_env)


def _require_address(base_url: str) -> None:
    try:
        parts = urllib.parse.urlsplit(base_url)
        known = parts.scheme in {"http", "https"} and bool(parts.hostname)
        _ = parts.port
    except ValueError:
        known = False
    if not known:
        raise InputError("--base-url: give an address such as http://127.0.0.1:8080/v1")


def _require_key(variable: str | None) -> None:
    if variable is not None and variable not in os.environ:
        # Not repeated: many a user gives the key itself.
        raise InputError(
            "--api-key-env: no variable of this name is set; set it, and give its name, not the key"
        )
    key = os.environ.get(variable or API_KEY_ENV, "")
    if not (key.isascii() and key.isprintable()):
        name = variable or API_KEY_ENV
        raise InputError(f"{name}: holds characters that no key has; set it anew")


class ModelIdentity(Value, frozen=True, kw_only=True):
    """Which model is asked (`name` for people, `identity` to tell models apart) and how.

    `sampling` says how it is to write about so many candidates. `context_tokens` is the longest
    exchange that it can take, `None` for no limit.
    """

    name: str
    identity: str
    sampling: Callable[[int], Sampling | None]
    context_tokens: int | None = None

    PRIVATE: ClassVar[frozenset[str]] = frozenset({"identity"})  # an address may be part of it


def identify(choice: ModelChoice) -> ModelIdentity:
    """Return who is asked, told apart by what decides its answers.

    That is the address and the name of a model at a server, the content of a file, and for the
    matcher the versions of what it is made of. Raises `InputError` if a file can't be read.
    """
    if choice.name == SIMILARITY:
        made_of = [f"{name} {version(name)}" for name in ("notarius-pipeline", "rapidfuzz")]
        identity = f"{SIMILARITY} ({', '.join(made_of)})"
    elif choice.name.startswith(IN_PROCESS):
        identity = f"{IN_PROCESS}{_digest(Path(choice.name.removeprefix(IN_PROCESS)))}"
    else:
        identity = f"{choice.name} at {choice.address}"
    return ModelIdentity(
        name=choice.name,
        identity=identity,
        sampling=lambda candidates: sampling_for(choice.name, candidates),
        context_tokens=context_of(choice.name, choice.context_tokens),
    )


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InputError(f"{path}: can't be read ({reason}); mend its permissions") from None


def context_of(model: str, said: int | None) -> int | None:
    """Return the tokens that a model takes: what is said, else what is known, for our own only."""
    return said or (IN_PROCESS_CONTEXT_TOKENS if model.startswith(IN_PROCESS) else None)


class Models:
    """Opens the chosen model when it is first needed, and closes it at the end. Thread-safe."""

    def __init__(self, choice: ModelChoice) -> None:
        """Open nothing yet."""
        self._choice = choice
        self._stack = contextlib.ExitStack()
        self._lock = threading.Lock()
        self._opened: BlockingBackend | None = None

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close what was opened."""
        self.close()

    def close(self) -> None:
        """Close what was opened; a second time does nothing."""
        self._stack.close()

    def backend(
        self,
        kind: RegistryKind,
        candidates: Sequence[Candidate],
        normalizer: RegistryNormalizer[Any, Any],
    ) -> ChatBackend:
        """Return the backend for one list. Raises `InputError` if the model can't be had."""
        if self._choice.name == SIMILARITY:
            return SimilarityBackend(kind, candidates, normalizer)
        with self._lock:
            if self._opened is None:
                self._opened = self._stack.enter_context(self._open())
        return _Bounded(self._opened, reply_tokens(len(candidates)))

    def _open(self) -> BlockingBackend:
        kind = self._choice.name.partition(":")[0]
        try:
            if self._choice.name.startswith(SERVER):
                return self._server()
            return self._in_process()
        except ImportError:
            raise InputError(
                f"model {kind}: needs more packages; pip install 'notarius-pipeline[{kind}]'"
            ) from None
        except ContractError as error:
            raise InputError(f"model {kind}: {error}") from None

    def _server(self) -> BlockingBackend:
        from notarius.llmruntime.openai import AsyncOpenAIBackend  # noqa: PLC0415 - an extra

        return BlockingBackend(
            AsyncOpenAIBackend(
                self._choice.name.removeprefix(SERVER),
                base_url=self._choice.address,
                api_key=self._choice.key,
                sampling=SAMPLING,
            )
        )

    def _in_process(self) -> BlockingBackend:
        from notarius.llmruntime.llama import AsyncLlamaBackend  # noqa: PLC0415 - an extra

        file = Path(self._choice.name.removeprefix(IN_PROCESS))
        context = self._choice.context_tokens or IN_PROCESS_CONTEXT_TOKENS
        return BlockingBackend(AsyncLlamaBackend(file, sampling=SAMPLING, context_tokens=context))


class _Bounded:
    """A backend whose replies have at most so many tokens."""

    def __init__(self, backend: ChatBackend, max_tokens: int) -> None:
        self._backend = backend
        self._max_tokens = max_tokens

    def complete(self, call: ChatCall, *, cancellation: Cancellation) -> Reply:
        bounded = msgspec.structs.replace(call, max_tokens=self._max_tokens)
        return self._backend.complete(bounded, cancellation=cancellation)


def reply_tokens(candidates: int) -> int:
    """Return how many tokens a reply about so many candidates may have."""
    return REPLY_TOKENS + REPLY_TOKENS_PER_CANDIDATE * candidates


def sampling_for(model: str, candidates: int) -> Sampling | None:
    """Return how a model is to write about so many candidates; `None` for the matcher."""
    if model == SIMILARITY:
        return None
    return msgspec.structs.replace(SAMPLING, max_tokens=reply_tokens(candidates))
