"""`factionbook FILE`: from a file of factions to a registry without duplicates."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from notarius.attempts import AttemptMachine, AttemptPolicy, run
from notarius.contracts import (
    Accepted,
    ContractError,
    FellBack,
    Outcome,
    Producer,
    canonical_json,
    require_unique_keys,
)
from notarius.registries import Registry, RegistryNormalizer

from factionbook.matcher import NameMatcher
from factionbook.rules import FactionCandidate, FactionEntry, FactionRules

Normalizer = RegistryNormalizer[FactionCandidate, FactionEntry]


def read(path: Path) -> list[FactionCandidate]:
    """Read one candidate a line; raise `ValueError` with a line for each bad one."""
    rules = FactionRules()
    found: dict[str, FactionCandidate] = {}
    problems = []
    for number, line in _lines(path):
        try:
            candidate = msgspec.json.decode(line, type=FactionCandidate)
            require_unique_keys(line)
            rules.require(candidate)
        except (msgspec.MsgspecError, ContractError, RecursionError, UnicodeError) as error:
            problems.append(f"{path}:{number}: {error}; mend this line")
            continue
        if found.setdefault(candidate.source_id, candidate) is not candidate:
            problems.append(f"{path}:{number}: this `source_id` stands above; give it another")
    if problems:
        raise ValueError("\n".join(problems))
    return list(found.values())


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    for number, line in enumerate(path.read_bytes().split(b"\n"), start=1):
        if line.strip():
            yield number, line


def reconcile(
    normalizer: Normalizer, producer: Producer, *, normalize_retries: int = 2
) -> Outcome[Registry[FactionEntry]]:
    """Hold the whole exchange with a producer: ask, check, correct, fall back."""
    policy = AttemptPolicy(normalize_retries=normalize_retries)
    machine: AttemptMachine[Registry[FactionEntry]] = AttemptMachine(
        normalizer.request.prompt, policy
    )
    return run(machine, producer, normalizer, contract=normalizer.contract)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status: 0 done, 2 bad input, 3 no result."""
    parser = argparse.ArgumentParser(prog="factionbook", description=__doc__)
    parser.add_argument("candidates", type=Path, help="JSON Lines, one faction a line")
    parser.add_argument("--out", type=Path, help="where the registry goes; else it is printed")
    given = parser.parse_args(arguments)
    try:
        candidates = read(given.candidates)
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)  # noqa: T201 - a command talks
        return 2
    normalizer = RegistryNormalizer(FactionRules(), candidates)
    outcome = reconcile(normalizer, NameMatcher(candidates, normalizer))
    match outcome:
        case FellBack():
            print(outcome.warning.message, file=sys.stderr)  # noqa: T201 - a command talks
        case Accepted():
            pass
        case _:
            print("no result; run it again", file=sys.stderr)  # noqa: T201 - a command talks
            return 3
    written = canonical_json(outcome.value).decode()
    if given.out is None:
        print(written)  # noqa: T201 - a command talks
    else:
        given.out.write_text(f"{written}\n", encoding="utf-8")
    return 0
