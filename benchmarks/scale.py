"""Measures one thing about one long reply, cold, in a process of its own.

    python -m benchmarks.scale SUBJECT SHAPE CANDIDATES

It prints one line of JSON: for each stage the seconds of a processor that it took, and by how many
bytes the process grew at most meanwhile (from Linux's /proc). The subjects:

- `floor`: `msgspec.json.decode` of the reply's bytes, untyped;
- `lookups`: the same, then one look into a set for each id, in a plain loop;
- `pydantic`: the reply as models of pydantic, then the checks as a user of those would write them;
- `checked`: ours as far as that: decoded, the same checks, split into safe and refused groups;
- `stages`: ours one by one: decode, all checks with the rules about names, the guidance;
- `whole`: all that a normalizer does about a reply, the registry with one entry for each group and
  for each other candidate included;
- `calls`: how many calls of functions this takes, in the place of seconds.
"""

import gc
import itertools
import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, TypeVar

import msgspec
from benchmarks import workload

from notarius.contracts import ModelCandidate, Produced
from notarius.registries import NpcCandidate, NpcNormalizer
from notarius.semanticreconcile import (
    Proposal,
    parse_proposal,
    render_guidance,
    request_ids,
    split_proposal,
)

T = TypeVar("T")
Costs = dict[str, tuple[float, int]]


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A reply about so many candidates."""

    text: str
    shape: str
    size: int


WARMING: Final = 30
"""Candidates of the list with which everything is tried before it is measured."""


def _groups(*groups: list[str]) -> str:
    proposed = [{"candidate_ids": ids, "canonical_id": ids[0]} for ids in groups]
    return json.dumps({"duplicate_groups": proposed}, separators=(",", ":"))


SHAPES: Final[Mapping[str, Callable[[int], str]]] = {
    "groups": lambda size: workload.reply(
        groups=size // workload.GROUP_SIZE, offered=size, faulty=True
    ),
    "one_group": lambda size: _groups(list(request_ids(size))),
    "one_refused_group": lambda size: _groups(list(request_ids(size))),
    "overlaps": lambda size: _groups(*(["c1", other] for other in request_ids(size)[1:])),
    "repeated_groups": lambda size: _groups(*[["c1", "c2"]] * size),
    "repeated_id": lambda size: _groups(["c1"] * size),
}
"""The reply about so many candidates: with a third of its groups faulty, or of another kind.

`one_refused_group` is about guards with numbers, which the rules about names tell apart.
"""


def people(shape: str, size: int) -> list[NpcCandidate]:
    """Return the candidates that a reply is about."""
    if shape == "one_refused_group":
        names = [f"Guard {number}" for number in range(size)]
    else:
        names = list(map(workload.name, range(size)))
    return [NpcCandidate(source_id=f"s{at}", name=name) for at, name in enumerate(names)]


def measured(costs: Costs, stage: str, work: Callable[[], T]) -> T:
    """Do the work, and note what it took."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    before = _resident("VmRSS")
    began = time.process_time()
    result = work()
    taken = time.process_time() - began
    costs[stage] = taken, max(0, _resident("VmHWM") - before)
    return result


def _resident(what: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{what}:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {what}")


def floor(case: Case) -> Costs:
    """Decode alone."""
    costs: Costs = {}
    data = case.text.encode()
    measured(costs, "floor", lambda: msgspec.json.decode(data))
    return costs


def lookups(case: Case) -> Costs:
    """Decode, and look for each id in a set."""
    costs: Costs = {}
    data = case.text.encode()
    offered = set(request_ids(case.size))

    def work() -> int:
        known = 0
        for group in msgspec.json.decode(data)["duplicate_groups"]:
            for candidate_id in group["candidate_ids"]:
                if candidate_id in offered:
                    known += 1
        return known

    measured(costs, "lookups", work)
    return costs


def through_pydantic(case: Case) -> Costs:
    """Decode into models, and check those."""
    from benchmarks.reply_models import DuplicateGroups, complaints  # noqa: PLC0415 - its weight would burden the garbage collector in the others

    costs: Costs = {}
    data = case.text.encode()
    offered = request_ids(case.size)
    measured(
        costs, "pydantic", lambda: complaints(DuplicateGroups.model_validate_json(data), offered)
    )
    return costs


def checked(case: Case) -> Costs:
    """Decode and split, without rules about names."""
    costs: Costs = {}
    ids = request_ids(case.size)
    measured(costs, "checked", lambda: split_proposal(proposal(case.text), ids, lambda _: None))
    return costs


def proposal(text: str) -> Proposal:
    """Return the proposal of a reply that can be read."""
    found = parse_proposal(text)
    if not isinstance(found, Proposal):
        raise TypeError(f"the reply can't be read: {found}")
    return found


def stages(case: Case) -> Costs:
    """Do what a normalizer does, one stage after the other."""
    costs: Costs = {}
    proposed = measured(costs, "decode", lambda: proposal(case.text))
    normalizer = NpcNormalizer(people(case.shape, case.size))
    split = measured(costs, "check", lambda: normalizer.split(proposed))
    if split.refused:
        measured(costs, "render", lambda: render_guidance(split.refused, kept=split.safe))
    return costs


def whole(case: Case) -> Costs:
    """Do all that a normalizer does, as the machine calls it."""
    costs: Costs = {}
    normalizer = NpcNormalizer(people(case.shape, case.size))
    produced = Produced(result=ModelCandidate.of(case.text))
    measured(costs, "whole", lambda: normalizer.normalize(produced))
    return costs


def calls(case: Case) -> Costs:
    """Count the calls of functions while all is done, which no other process disturbs."""
    normalizer = NpcNormalizer(people(case.shape, case.size))
    produced = Produced(result=ModelCandidate.of(case.text))
    seen = itertools.count()
    sys.setprofile(lambda _frame, event, _: next(seen) if "call" in event else None)
    normalizer.normalize(produced)
    sys.setprofile(None)
    return {"calls": (next(seen), 0)}


SUBJECTS: Final[Mapping[str, Callable[[Case], Costs]]] = {
    "floor": floor,
    "lookups": lookups,
    "pydantic": through_pydantic,
    "checked": checked,
    "stages": stages,
    "whole": whole,
    "calls": calls,
}


def main() -> None:
    """Measure once."""
    subject, shape, size = sys.argv[1:]
    for candidates in (WARMING, int(size)):
        case = Case(text=SHAPES[shape](candidates), shape=shape, size=candidates)
        costs = SUBJECTS[subject](case)
    print(json.dumps(costs))


if __name__ == "__main__":
    main()
