"""Measures what dividing a list into blocks costs: which true pairs no request could find.

    python benchmarks/blocking.py [DATA_DIR]     # ../shared/data unless given

Recall is the share of the true pairs whose two candidates stand in one block. Beside it: the
same for blocks cut from the list as it is, and as sorted by name; and the most that any division
could reach, since an entity with more candidates than a block holds can't stay whole. `entity`,
the truth, is read here alone. Lists that fit as a whole are left out of a context's rows, and so
are those of which two candidates do not fit, which are counted.
"""

import json
import random
import resource
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from notarius.pipeline import InputError
from notarius.pipeline._blocks import Budget, line_tokens, plan_blocks
from notarius.registries import (
    Candidate,
    ItemCandidate,
    LocationCandidate,
    NpcCandidate,
    RegistryKind,
)

CONTEXTS: Final = (2048, 4096, 8192, 16384)
TYPES: Final[dict[RegistryKind, type[Candidate]]] = {
    "npc": NpcCandidate,
    "item": ItemCandidate,
    "location": LocationCandidate,
}
MANY: Final = 20_000
DATA: Final = Path(__file__).parents[2] / "shared" / "data"


class Labelled(NamedTuple):
    """A list, and the truth about it."""

    name: str
    kind: RegistryKind
    candidates: Sequence[Candidate]
    truth: Sequence[str]

    def pairs(self, blocks: Iterable[Sequence[int]]) -> int:
        """Count the true pairs that stand in one block."""
        uses = (Counter(self.truth[index] for index in block) for block in blocks)
        return sum(n * (n - 1) // 2 for counts in uses for n in counts.values())


class Result(NamedTuple):
    """How many requests there are, and how many true pairs each division keeps."""

    requests: int
    requests_sorted: int
    kept: int
    as_it_is: int
    by_name: int
    most: int
    pairs: int

    def row(self, name: str, candidates: int, context: int) -> str:
        """Return a row of the table."""
        recalls = (self.kept, self.as_it_is, self.by_name, self.most)
        cells = (
            name,
            f"{candidates:,}",
            f"{context:,}",
            f"{self.requests:,}",
            f"{self.requests_sorted:,}",
            *(f"{recall / self.pairs:.3f}" for recall in recalls),
        )
        return f"| {' | '.join(cells)} |"


HEAD: Final = (
    "| list | candidates | context | blocks | if cut from sorted | **recall** | cut as it is |"
    " cut from sorted | at most |\n"
    "|---|---:|---:|---:|---:|---:|---:|---:|---:|"
)


def main() -> None:
    """Print the tables."""
    data = Path(sys.argv[1]) if len(sys.argv) > 1 else DATA
    files = [
        read(kind, file) for kind in TYPES for file in sorted((data / "registry" / kind).glob("*"))
    ]
    if not files:
        sys.exit(f"no labelled data at {data}")
    merged = [merge(kind, [each for each in files if each.kind == kind]) for kind in TYPES]
    print(HEAD)
    for context in CONTEXTS:
        for title, lists in (("all files", files), ("all merged", merged)):
            report(title, lists, context)
    print()
    print(speed(next(each for each in merged if each.kind == "npc").candidates))


def report(title: str, lists: Sequence[Labelled], context: int) -> None:
    """Print a row for each list that needs dividing, and one for their sum."""
    found: list[tuple[Labelled, Result]] = []
    refused = 0
    for each in lists:
        try:
            result = measure(each, context)
        except InputError:
            refused += 1
            continue
        if result.requests > 1:
            found.append((each, result))
            print(result.row(each.name, len(each.candidates), context))
    if found:
        total = Result(*map(sum, zip(*(result for _, result in found), strict=True)))
        print(total.row(f"**{title}**", sum(len(each.candidates) for each, _ in found), context))
    if refused:
        print(f"| {title}: {refused} of {len(lists)} refused | | {context:,} | | | | | | |")


def read(kind: RegistryKind, file: Path) -> Labelled:
    """Read a labelled file."""
    rows: list[dict[str, Any]] = [json.loads(line) for line in file.read_text().splitlines()]
    truth = [row.pop("entity") for row in rows]
    return Labelled(file.stem, kind, msgspec.convert(rows, list[TYPES[kind]]), truth)  # type: ignore[valid-type]  # a type chosen at run time


def merge(kind: RegistryKind, lists: Sequence[Labelled]) -> Labelled:
    """Put the lists of a registry together, as if they came from one file."""
    candidates = [
        msgspec.structs.replace(candidate, source_id=f"{each.name}/{candidate.source_id}")
        for each in lists
        for candidate in each.candidates
    ]
    return Labelled(f"{kind}, merged", kind, candidates, [e for each in lists for e in each.truth])


def measure(listed: Labelled, context: int) -> Result:
    """Divide a list in every way."""
    candidates = listed.candidates
    blocks = plan_blocks(listed.kind, candidates, context_tokens=context)
    budget = Budget.of(listed.kind, context)
    tokens = line_tokens(listed.kind, candidates)
    by_name = sorted(range(len(tokens)), key=lambda index: candidates[index].name.casefold())
    entities: dict[str, list[int]] = defaultdict(list)
    for index in sorted(range(len(tokens)), key=tokens.__getitem__):
        entities[listed.truth[index]].append(index)
    cut_sorted = cut(budget, tokens, by_name)
    return Result(
        requests=len(blocks),
        requests_sorted=len(cut_sorted),
        kept=listed.pairs(blocks),
        as_it_is=listed.pairs(cut(budget, tokens, range(len(tokens)))),
        by_name=listed.pairs(cut_sorted),
        most=sum(listed.pairs(cut(budget, tokens, of)) for of in entities.values()),
        pairs=listed.pairs([range(len(tokens))]),
    )


def cut(budget: Budget, tokens: Sequence[int], order: Iterable[int]) -> list[list[int]]:
    """Cut a list, in an order, into blocks as full as they can be."""
    blocks: list[list[int]] = []
    used = 0
    for index in order:
        if not blocks or not budget.fits(used + tokens[index], len(blocks[-1]) + 1):
            blocks.append([])
            used = 0
        blocks[-1].append(index)
        used += tokens[index]
    return blocks


def speed(real: Sequence[Candidate]) -> str:
    """Divide a long list of names made from the words of real ones; say what that took."""
    rng = random.Random(1)  # noqa: S311 - a draw that can be repeated
    words = sorted({word for candidate in real for word in candidate.name.split()})

    def name(most: int) -> str:
        return " ".join(rng.sample(words, rng.randint(1, most)))

    candidates = [
        NpcCandidate(
            source_id=f"s{number}",
            name=name(3),
            aliases=tuple(name(2) for _ in range(rng.choice((0, 0, 1, 2)))),
            description=rng.choice(real).description,
        )
        for number in range(MANY)
    ]
    start = time.process_time()
    blocks = plan_blocks("npc", candidates, context_tokens=CONTEXTS[-2])
    seconds = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return (
        f"{MANY:,} made-up candidates, context {CONTEXTS[-2]:,}: {len(blocks):,} blocks in "
        f"{seconds:.1f} s of processor time; the most memory this process had was {peak:,} MiB."
    )


if __name__ == "__main__":
    main()
