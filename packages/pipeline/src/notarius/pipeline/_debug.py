"""The opt-in folder of raw exchanges: the only place where model texts are ever written."""

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from notarius.contracts import Cancellation, Reply, canonical_json
from notarius.llmruntime import ChatBackend, ChatCall
from notarius.pipeline._errors import InputError

_REQUEST: Final = "request.json"
_RESPONSE: Final = "response.txt"
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def prepare_debug_folder(folder: Path) -> None:
    """Make the folder, for its owner alone.

    Raises `InputError` if it exists and others may look into it, or if it can't be made.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        mode = folder.stat().st_mode
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InputError(f"{folder}: can't be made ({reason}); choose another place") from None
    if mode & _OTHERS:
        raise InputError(
            f"{folder}: others may look into it, and raw model texts go there; "
            "close it (chmod 700) or name a folder that does not exist yet"
        )


class DebugBackend:
    """Writes each call and each raw reply of a backend into a private folder, exactly."""

    def __init__(self, backend: ChatBackend, folder: Path) -> None:
        """Write into `folder`, with numbers that it does not hold yet.

        Several may write into one folder at a time.
        """
        self._backend = backend
        self._folder = folder
        self._number = 0

    def complete(self, call: ChatCall, *, cancellation: Cancellation) -> Reply:
        """Write the call, make it, and write the reply."""
        request = {
            "messages": [
                {"role": message.role.value, "content": message.content}
                for message in call.messages
            ],
            "schema": call.schema_name,
            "timeout_s": call.timeout_s,
        }
        with self._told():
            self._write_next(canonical_json(request))
        reply = self._backend.complete(call, cancellation=cancellation)
        with self._told():
            _create(self._path(_RESPONSE), reply.text.encode("utf-8", "surrogatepass"))
        return reply

    def _write_next(self, request: bytes) -> None:
        """Write a request under the next number: that is whose request could be made."""
        while True:
            self._number += 1
            if not self._path(_RESPONSE).exists():
                with contextlib.suppress(FileExistsError):
                    _create(self._path(_REQUEST), request)
                    return

    def _path(self, what: str) -> Path:
        return self._folder / f"call-{self._number:04}.{what}"

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            reason = error.strerror or type(error).__name__
            remedy = "make room, or leave the option out"
            raise InputError(f"{self._folder}: can't be written to ({reason}); {remedy}") from None


def _create(path: Path, data: bytes) -> None:
    """Write a new file. Raises `FileExistsError` if there is one of that name."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as handle:
        handle.write(data)
