"""pydantic-ai: over its `FunctionModel`, which it has for tests, and over the client."""

from typing import Any, Final

from benchmarks import workload
from benchmarks.reply_models import Complain, DuplicateGroups, complaints
from benchmarks.scripted import Exchange, Rows, Script, client, no_checks
from pydantic_ai import Agent, ModelRetry, NativeOutput  # type: ignore[import-not-found]  # its own environment alone has it
from pydantic_ai.messages import ModelResponse, TextPart  # type: ignore[import-not-found]  # as above
from pydantic_ai.models.function import FunctionModel  # type: ignore[import-not-found]  # as above
from pydantic_ai.models.openai import OpenAIChatModel  # type: ignore[import-not-found]  # as above
from pydantic_ai.providers.openai import OpenAIProvider  # type: ignore[import-not-found]  # as above


def _agent(model: Any, script: Script, complain: Complain = complaints) -> Any:  # noqa: ANN401 - not installed where types are checked
    agent = Agent(
        model,
        output_type=NativeOutput(DuplicateGroups),
        system_prompt=workload.SYSTEM,
        retries=script.attempts,
    )

    @agent.output_validator  # type: ignore[untyped-decorator]  # as above
    def check(output: DuplicateGroups) -> DuplicateGroups:
        wrong = complain(output)
        if wrong:
            raise ModelRetry(wrong)
        return output

    return agent


def _fake(script: Script, complain: Complain = complaints) -> Any:  # noqa: ANN401 - as above
    def answer(*_: object) -> Any:  # noqa: ANN401 - as above
        return ModelResponse(parts=[TextPart(script.reply())])

    return _agent(FunctionModel(answer), script, complain)


def _sync(script: Script, complain: Complain = complaints) -> Exchange:
    agent = _fake(script, complain)
    return lambda: agent.run_sync(workload.USER)


def _async(script: Script) -> Exchange:
    agent = _fake(script)
    return lambda: agent.run(workload.USER)


def _through_client(script: Script) -> Exchange:
    provider = OpenAIProvider(openai_client=client(script))
    agent = _agent(OpenAIChatModel("scripted", provider=provider), script)
    return lambda: agent.run(workload.USER)


ROWS: Final[Rows] = {
    "sync": _sync,
    "async": _async,
    "client": _through_client,
    "loop": lambda script: _sync(script, no_checks(script)),
}
