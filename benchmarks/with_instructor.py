"""instructor: over a plain function, which it takes for any model, and over the client."""

import functools
from typing import Any, Final

import instructor  # type: ignore[import-not-found]  # its own environment alone has it
import pydantic
from benchmarks import workload
from benchmarks.reply_models import Complain, DuplicateGroups, complaints
from benchmarks.scripted import Exchange, Rows, Script, client, envelope, no_checks
from openai.types.chat import ChatCompletion

_MODE: Final = instructor.Mode.JSON_SCHEMA


@functools.cache
def _completion(text: str) -> ChatCompletion:
    return ChatCompletion.model_validate(envelope(text))


def _asked(library: Any, script: Script, complain: Complain = complaints) -> Exchange:  # noqa: ANN401 - not installed where types are checked
    class Checked(DuplicateGroups):
        @pydantic.model_validator(mode="after")
        def check(self) -> "Checked":
            wrong = complain(self)
            if wrong:
                raise ValueError(wrong)
            return self

    return lambda: library.create(
        model="scripted",
        response_model=Checked,
        max_retries=script.attempts,
        messages=[
            {"role": "system", "content": workload.SYSTEM},
            {"role": "user", "content": workload.USER},
        ],
    )


def _sync(script: Script, complain: Complain = complaints) -> Exchange:
    def complete(**_: object) -> ChatCompletion:
        return _completion(script.reply())

    return _asked(instructor.from_litellm(complete, mode=_MODE), script, complain)


def _async(script: Script) -> Exchange:
    async def complete(**_: object) -> ChatCompletion:
        return _completion(script.reply())

    return _asked(instructor.from_litellm(complete, mode=_MODE), script)


def _through_client(script: Script) -> Exchange:
    return _asked(instructor.from_openai(client(script), mode=_MODE), script)


ROWS: Final[Rows] = {
    "sync": _sync,
    "async": _async,
    "client": _through_client,
    "loop": lambda script: _sync(script, no_checks(script)),
}
