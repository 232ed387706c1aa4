"""Measures attempts beside two libraries, long replies, and weight; prints the tables.

    python -m benchmarks.performance [--env NAME=PYTHON ...] [--wheels DIR] [--out FILE]
        [--part NAME] [--small]

NAME is one of our packages, `instructor` or `pydantic-ai`, and PYTHON the interpreter of an
environment that has it and what it needs, and nothing else; without any, what this interpreter has
is measured. All of it runs on one core; times are those that the process had of it.
"""

import argparse
import contextlib
import datetime as dt
import itertools
import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.weight import import_ms, installed

CORE: Final = ("contracts", "attempts", "semanticreconcile", "registries")
OURS: Final = (*CORE, "llmruntime", "pipeline")
PEERS: Final = ("instructor", "pydantic-ai")
STATEMENTS: Final = {
    **{package: f"import notarius.{package}" for package in OURS},
    # Its package imports next to nothing by itself.
    "instructor": "from instructor import from_openai",
    "pydantic-ai": "from pydantic_ai import Agent",
}
ROWS: Final = {
    "sync": "blocking",
    "async": "asyncio",
    "loop": "blocking, nothing checked",
    "client": "asyncio, through the client of OpenAI",
    "registry": "blocking, with a whole registry",
}
SENT_ATTEMPTS: Final = 10
STAGES: Final = ("decode", "check", "render")
TOLD: Final = {
    "floor": "`msgspec.json.decode` alone, the floor",
    "lookups": "the floor and a look into a set for each id",
    "pydantic": "models of pydantic and the same checks",
    "checked": "ours: decoded, the same checks, split",
    "whole": "ours: all of it, with the rules about names",
    "decode": "of this: decoded",
    "check": "checked and split",
    "render": "guidance rendered",
    "apply": "applied, and the rest",
}
SHAPES: Final = {
    "one_group": ("one group of all", 1),
    "one_refused_group": ("one group of all, told apart by their names", 1),
    "overlaps": ("groups that share one id", 10),
    "repeated_groups": ("one group again and again", 1),
    "repeated_id": ("one id again and again in a group", 1),
}
"""What each shape is, and which share of the largest size it has."""
LONG: Final = 1_000_000
"""Candidates of a reply that is measured fewer times."""
LONG_REPEATS: Final = 3
GROWTH: Final = 10
"""From one size of a reply to the next."""


class Library:
    """A process that holds exchanges through one library."""

    def __init__(self, name: str, process: subprocess.Popen[str]) -> None:
        """Talk to this process."""
        self.name = name
        self._process = process

    def ask(self, row: str, what: str, number: int = 1) -> Any:  # noqa: ANN401 - as the order says
        """Give one order, and return the answer."""
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("the process has no pipes")
        print(json.dumps([row, what, number]), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"{self.name} ended at {row}, {what}")
        return json.loads(answer)


@contextlib.contextmanager
def library(name: str, python: str) -> Iterator[Library]:
    """Start the process of a library, and end it."""
    module = f"with_{name.replace('-', '_')}"
    with subprocess.Popen(  # noqa: S603 - the interpreters that we are given
        [python, "-m", "benchmarks.drivers", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield Library(name, process)
        if process.stdin:
            process.stdin.close()


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table; all columns but the first are numbers."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines) + "\n"


def attempts(pythons: Mapping[str, str], *, rounds: int, exchanges: int) -> str:
    """Measure exchanges through each library, in turns."""
    with contextlib.ExitStack() as stack:
        libraries = [
            stack.enter_context(library(name, pythons[name]))
            for name in ("notarius", *PEERS)
            if name in pythons
        ]
        ways = [
            (row, one)
            for row in ROWS
            for one in libraries
            if row != "registry" or one.name == "notarius"
        ]
        peaks = {(row, one.name): one.ask(row, "peak") for row, one in ways}
        times: dict[tuple[str, str], list[float]] = {way: [] for way in peaks}
        for _ in range(rounds):
            for row, one in ways:
                times[row, one.name].append(one.ask(row, "seconds", exchanges))
        sent = {one.name: one.ask("client", "sent", SENT_ATTEMPTS) for one in libraries}
    lines = []
    for (row, name), measured in times.items():
        ours = times.get((row, "notarius"), measured)
        ratio = statistics.median(a / b for a, b in zip(measured, ours, strict=True))
        low, middle, high = statistics.quantiles(measured, n=4)
        lines.append(
            (
                f"{ROWS[row]}: {name}",
                f"{middle * 1e6:,.0f}",
                f"{low * 1e6:,.0f} to {high * 1e6:,.0f}",
                f"{ratio:.1f}",
                f"{peaks[row, name] / 1000:,.0f}",
            )
        )
    head = ("", "µs an attempt, median", "quartiles", "times ours", "peak, KB")
    numbers = [str(number) for number in range(1, SENT_ATTEMPTS + 1)]
    return f"{table(head, lines)}\n" + table(
        ("bytes of the messages at attempt", *numbers),
        [(name, *(f"{size:,}" for size in sizes)) for name, sizes in sent.items()],
    )


def cost(python: str, subject: str, shape: str, size: int, repeats: int) -> Mapping[str, Any]:
    """Measure one subject; return the median seconds and bytes of each stage.

    What takes seconds is measured three times at most.
    """
    if size >= LONG:
        repeats = min(repeats, LONG_REPEATS)
    runs = [
        json.loads(
            subprocess.run(  # noqa: S603 - the interpreter that we are given
                [python, "-m", "benchmarks.scale", subject, shape, str(size)],
                capture_output=True,
                text=True,
                check=True,
            ).stdout
        )
        for _ in range(repeats)
    ]
    return {
        stage: [statistics.median(run[stage][at] for run in runs) for at in (0, 1)]
        for stage in runs[0]
    }


def scale(python: str, *, sizes: Sequence[int], repeats: int) -> str:
    """Measure replies of several sizes, and some of other shapes."""
    costs = {
        size: {
            stage: found
            for subject in ("floor", "lookups", "pydantic", "checked", "stages", "whole")
            for stage, found in cost(python, subject, "groups", size, repeats).items()
        }
        for size in sizes
    }
    for found in costs.values():
        seconds = found["whole"][0] - sum(found[stage][0] for stage in STAGES)
        found["apply"] = seconds, 0
    lines = []
    for subject, words in TOLD.items():
        taken = [costs[size][subject][0] for size in sizes]
        floors = [costs[size]["floor"][0] for size in sizes]
        lines.append(
            (
                words,
                *(f"{one * 1000:,.2f}" for one in taken),
                " ".join(f"{b / a:.1f}" for a, b in itertools.pairwise(taken)),
                " ".join(f"{one / least:.1f}" for one, least in zip(taken, floors, strict=True)),
            )
        )
    candidates = [f"{size:,}" for size in sizes]
    memory = [
        (TOLD[subject], *(f"{costs[size][subject][1] / 1e6:,.1f}" for size in sizes))
        for subject in ("floor", "pydantic", "checked", "whole")
    ]
    return "\n".join(
        (
            table(("milliseconds, by candidates", *candidates, "growth", "times the floor"), lines),
            table(("peak, MB, by candidates", *candidates), memory),
            shapes(python, largest=sizes[-1], repeats=repeats),
        )
    )


def shapes(python: str, *, largest: int, repeats: int) -> str:
    """Measure replies of other shapes, each in two sizes."""
    lines = []
    for shape, (words, share) in SHAPES.items():
        sizes = (largest // share // GROWTH, largest // share)
        small, large = (cost(python, "whole", shape, size, repeats)["whole"] for size in sizes)
        lines.append(
            (
                words,
                f"{sizes[1]:,}",
                f"{small[0]:,.3f}",
                f"{large[0]:,.3f}",
                f"{large[0] / small[0]:.1f}",
                f"{large[1] / 1e6:,.0f}",
            )
        )
    return table(("shape", "size", "s, a tenth of it", "s", "growth", "peak, MB"), lines)


def weight(pythons: Mapping[str, str], wheels: Path | None, *, rounds: int) -> str:
    """Measure imports, and count what is installed."""
    imports = {name: (pythons[name], STATEMENTS[name]) for name in STATEMENTS if name in pythons}
    base = {"msgspec": (pythons["contracts"], "import msgspec")}
    times: dict[str, list[float]] = {name: [] for name in (base | imports)}
    for round_ in range(rounds + 1):
        for name, (python, statement) in (base | imports).items():
            taken = import_ms(python, statement)
            if round_:  # the first one compiles
                times[name].append(taken)
    floor = statistics.median(times["msgspec"])
    lines = []
    for name, (python, statement) in imports.items():
        found = installed(python)
        foreign = [one for one in found if not one.startswith("notarius-")]
        (wheel,) = wheels.glob(f"notarius_{name}-*.whl") if wheels and name in OURS else (None,)
        low, middle, high = statistics.quantiles(times[name], n=4)
        lines.append(
            (
                f"`{statement}`",
                f"{middle:,.1f}",
                f"{low:,.1f} to {high:,.1f}",
                f"{middle - floor:+,.1f}",
                len(found),
                len(foreign),
                f"{sum(size for _, size in found.values()) / 1000:,.0f}",
                f"{wheel.stat().st_size / 1000:,.0f}" if wheel else "",
            )
        )
    head = (
        *("", "ms", "quartiles", "over msgspec", "distributions", "third-party"),
        *("installed, KB", "wheel, KB"),
    )
    return f"`import msgspec` alone takes {floor:.1f} ms.\n\n{table(head, lines)}"


def versions(pythons: Mapping[str, str]) -> str:
    """Say when and with what this was measured."""
    said = [f"Measured on {dt.datetime.now(dt.UTC):%d %B %Y}, Python {platform.python_version()}"]
    for name, python in pythons.items():
        if name in {"notarius", *PEERS}:
            found = installed(python)
            told = [
                f"{one} {found[one][0]}"
                for one in ("instructor", "pydantic-ai-slim", "pydantic", "openai", "msgspec")
                if one in found
            ]
            said.append(f"{name}: {', '.join(told)}")
    return "; ".join(said) + ".\n"


def main() -> None:
    """Measure, and print and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env", action="append", default=[], metavar="NAME=PYTHON")
    parser.add_argument("--wheels", type=Path, metavar="DIR")
    parser.add_argument("--out", type=Path, metavar="FILE")
    parser.add_argument("--part", choices=("attempts", "scale", "weight"), help="this alone")
    parser.add_argument("--small", action="store_true", help="try it out; the figures say nothing")
    options = parser.parse_args()
    given = dict(one.split("=", 1) for one in options.env)
    if unknown := given.keys() - STATEMENTS.keys():
        parser.error(f"no such library: {', '.join(sorted(unknown))}")
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # for all that is started from here
    here = sys.executable
    pythons = {"notarius": here, **(given or dict.fromkeys(CORE, here))}
    rounds, exchanges, times = (2, 1, 2) if options.small else (31, 10, 21)
    sizes = (30, 300) if options.small else (1_000, 10_000, 100_000, 1_000_000)
    parts = {
        "attempts": lambda: attempts(pythons, rounds=rounds, exchanges=exchanges),
        "scale": lambda: scale(here, sizes=sizes, repeats=1 if options.small else 7),
        "weight": lambda: weight(pythons, options.wheels, rounds=times),
    }
    text = versions(pythons)
    for name in [options.part] if options.part else parts:
        text += "\n" + parts[name]()
    print(text, end="")
    if options.out:
        options.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
