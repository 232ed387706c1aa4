"""Measures what a corrective exchange is worth with a real small model.

First replies about real candidate lists are collected. Those that can be read and are refused are
the start of one exchange an arm, all from the same reply and with the same retry budget.

    python -m benchmarks.repair --model NAME --base-url URL --out results.jsonl \
        --part report --lists coins=20,people=5 --sizes 8,10 \
        --arms ours,blind --peer instructor=PYTHON --peer pydantic-ai=PYTHON

`PYTHON` is that of an environment with the library and `notarius-registries`. The results hold
counts, never a text of a model.
"""

import argparse
import asyncio
import random
import sys
import time
from pathlib import Path

import msgspec
from benchmarks.exchanges import BLIND, OURS, hold
from benchmarks.lists import DATA, CandidateList, Job, Result, Turn, draw, turn_of
from benchmarks.prompts import PROMPTS, prompt_for

from notarius.contracts import ProviderError
from notarius.llmruntime import ChatCall, Sampling
from notarius.llmruntime.openai import AsyncOpenAIBackend

ROOT = Path(__file__).parents[1]
LINE_MAX = 1 << 24


class Peer:
    """A process that runs another library; one exchange at a time."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        """Take a process that waits for jobs."""
        self._process = process
        self._gate = asyncio.Lock()

    @classmethod
    async def start(cls, name: str, python: str, base_url: str) -> "Peer":
        """Start the process with the Python of the library's own environment."""
        return cls(
            await asyncio.create_subprocess_exec(
                *(python, "-m", "benchmarks.peers", name, base_url),
                cwd=ROOT,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                limit=LINE_MAX,
            )
        )

    async def hold(self, job: Job) -> list[Turn]:
        """Return the turns of one exchange."""
        async with self._gate:
            if self._process.stdin is None or self._process.stdout is None:
                raise RuntimeError("the process has no pipes")
            self._process.stdin.write(msgspec.json.encode(job) + b"\n")
            line = await self._process.stdout.readline()
            return msgspec.json.decode(line, type=list[Turn])

    async def end(self) -> None:
        """Let the process end."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        await self._process.wait()


async def measure(
    listed: CandidateList,
    backend: AsyncOpenAIBackend,
    peers: dict[str, Peer],
    options: argparse.Namespace,
) -> Result:
    """Ask about one list, and hold the exchanges if the reply is refused."""
    normalizer = listed.normalizer()
    prompt = prompt_for(options.prompt, listed, normalizer.request.prompt)
    reply = await backend.acomplete(
        ChatCall(
            messages=prompt.messages,
            schema_name=normalizer.contract.name,
            schema_json=normalizer.contract.schema_json,
        )
    )
    first = turn_of(listed, reply, None)
    arms: dict[str, list[Turn]] = {}
    if first.score.refused:
        job = Job(
            listed=listed,
            messages=prompt.messages,
            reply=reply.text,
            budget=options.budget,
            temperature=options.temperature,
            max_tokens=options.max_tokens,
        )
        ours = [
            hold(listed, reply, backend, prompt=prompt, budget=options.budget, arm=arm)
            for arm in options.arms
        ]
        turns = await asyncio.gather(*ours, *(peer.hold(job) for peer in peers.values()))
        arms = dict(zip((*options.arms, *peers), turns, strict=True))
    return Result(
        model=options.model,
        prompt=options.prompt,
        subject=listed.subject,
        file=listed.file,
        size=len(listed.rows),
        first=first,
        arms=arms,
    )


async def run(options: argparse.Namespace) -> None:
    """Measure list by list, and write each result as it comes."""
    lists = draw(DATA, options.part, options.seed, options.lists, options.sizes)
    # So that a run that is stopped early has something of each subject.
    random.Random(options.seed).shuffle(lists)  # noqa: S311 - a draw that can be repeated
    sampling = Sampling(temperature=options.temperature, seed=1, max_tokens=options.max_tokens)
    backend = AsyncOpenAIBackend(options.model, base_url=options.base_url, sampling=sampling)
    peers = {
        name: await Peer.start(name, python, options.base_url)
        for name, _, python in (given.partition("=") for given in options.peer)
    }
    began = time.monotonic()
    refused = 0
    for number, listed in enumerate(lists, start=1):
        try:
            result = await measure(listed, backend, peers, options)
        except ProviderError as error:
            print(f"list {number}: no answer ({error.kind.value})", file=sys.stderr)
            continue
        refused += bool(result.arms)
        with options.out.open("ab") as file:
            file.write(msgspec.json.encode(result) + b"\n")
        print(f"{number} lists, {refused} refused, {time.monotonic() - began:.0f} s", flush=True)
        if options.refused is not None and refused >= options.refused:
            break
    for peer in peers.values():
        await peer.end()
    await backend.aclose()


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--model", required=True, help="name of the model, for the server too")
    parser.add_argument("--base-url", required=True)
    parser.add_argument("--out", type=Path, required=True, help="is added to")
    parser.add_argument("--part", choices=("tune", "report"), default="tune")
    parser.add_argument("--seed", type=int, default=1, help="of the draw of lists")
    parser.add_argument("--lists", type=_counts, required=True, help="coins=N,items=N,…")
    parser.add_argument("--sizes", type=_numbers, default=[8, 9, 10])
    parser.add_argument("--prompt", default=OURS, choices=PROMPTS)
    parser.add_argument("--arms", type=_names, default=[OURS, BLIND], help="`,`-separated; or none")
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=PYTHON")
    parser.add_argument("--budget", type=int, default=2, help="retries of each exchange")
    parser.add_argument("--refused", type=int, metavar="N", help="stop after so many")
    parser.add_argument("--temperature", type=float, default=0.3)
    parser.add_argument("--max-tokens", type=int, default=768)
    return parser.parse_args(arguments)


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def _numbers(text: str) -> list[int]:
    return [int(number) for number in _names(text)]


def _counts(text: str) -> dict[str, int]:
    return {name: int(count) for name, _, count in (p.partition("=") for p in _names(text))}


if __name__ == "__main__":
    asyncio.run(run(parse()))
