import json
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import pytest

from notarius.contracts import Normalized, NormalizeRetry, canonical_json
from notarius.registries import (
    Candidate,
    ItemCandidate,
    ItemNormalizer,
    LocationCandidate,
    NpcCandidate,
    Registry,
)

Groups: TypeAlias = list[tuple[list[str], str]]
Answer: TypeAlias = Callable[..., Any]
Lost: TypeAlias = Callable[[Sequence[Candidate], Registry[Any]], list[str]]

KINDS: dict[str, type[Candidate]] = {
    "npc": NpcCandidate,
    "item": ItemCandidate,
    "location": LocationCandidate,
}
REGISTRIES = sorted(KINDS)


def lists(folder: Path, registry: str) -> Iterator[tuple[list[Candidate], dict[str, list[str]]]]:
    """Yield each labelled file: its candidates, and the ids of each of its entities."""
    paths = sorted((folder / "registry" / registry).glob("*.jsonl"))
    assert paths
    for path in paths:
        records = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        entities = defaultdict(list)
        for number, record in enumerate(records, 1):
            entities[record.pop("entity")].append(f"c{number}")
        yield [msgspec.convert(record, KINDS[registry]) for record in records], entities


def hostile(rng: random.Random, entities: dict[str, list[str]], count: int) -> Groups:
    """Return an answer that mixes right groups with every kind of wrong one."""
    groups: Groups = [(ids, ids[-1]) for ids in entities.values() if len(ids) > 1]
    groups = rng.sample(groups, rng.randint(0, len(groups)))
    for _ in range(rng.randint(0, 20)):
        ids = [f"c{rng.randint(1, count + 1)}" for _ in range(rng.randint(0, 6))]
        groups.append((ids, rng.choice([*ids, "c0", f"c{count}"])))
    groups += rng.choices(groups, k=2) if groups else []
    rng.shuffle(groups)
    return groups


@pytest.mark.parametrize("registry", REGISTRIES)
def test_hostile_answers_lose_nothing_of_real_lists(
    registry: str, shared_data: Path, answer: Answer, lost: Lost
) -> None:
    """On real lists nothing is lost, whatever is applied and whatever is refused."""
    rng = random.Random(7)  # noqa: S311 - test data
    merged = refused = 0
    for candidates, entities in lists(shared_data, registry):
        for _ in range(5):
            groups = hostile(rng, entities, len(candidates))
            found = answer(candidates, groups)
            value = found.value if isinstance(found, Normalized) else found.fallback.value
            assert lost(candidates, value) == []
            merged += len(candidates) - len(value.entries)
            refused += isinstance(found, NormalizeRetry)
            turned = [(ids[::-1], canonical) for ids, canonical in groups[::-1]]
            again = answer(candidates, turned)
            other = again.value if isinstance(again, Normalized) else again.fallback.value
            assert canonical_json(other) == canonical_json(value)
    # The answers were neither all refused nor all clean.
    assert merged > 100
    assert refused > 20


@pytest.mark.parametrize(
    ("registry", "entities_met_again"), [("npc", 247), ("item", 250), ("location", 136)]
)
def test_the_truth_is_accepted(
    registry: str, entities_met_again: int, shared_data: Path, answer: Answer, lost: Lost
) -> None:
    """No check refuses a right group: with the truth as the answer every entity is one entry."""
    applied = 0
    for candidates, entities in lists(shared_data, registry):
        groups = [(ids, ids[0]) for ids in entities.values() if len(ids) > 1]
        found = answer(candidates, groups)
        assert isinstance(found, Normalized), found.operator_message
        assert lost(candidates, found.value) == []
        assert len(found.value.entries) == len(entities)
        applied += len(groups)
    assert applied >= entities_met_again


def test_no_two_coins_of_real_lists_can_be_merged(shared_data: Path) -> None:
    """Each pair of different coins, under whatever names, is refused by the items' rules."""
    pairs = 0
    for candidates, entities in lists(shared_data, "item"):
        normalizer = ItemNormalizer([c for c in candidates if isinstance(c, ItemCandidate)])
        coins = {entity: ids for entity, ids in entities.items() if "coin" in entity.split(":")[0]}
        for one, other in combinations(coins.values(), 2):
            for ids in ((a, b) for a in one for b in other):
                assert not normalizer.compatible(ids)
                pairs += 1
    assert pairs > 100
