"""Draws candidate lists from the labelled data, and scores replies about them.

The data is divided by file into a part to choose prompts and wording on (`tune`) and a part to
report on (`report`). The one file that is rich in coins is divided by row instead. `entity`, the
truth, stays in `CandidateList.truth`: nothing that asks or checks can see it.
"""

import hashlib
import itertools
import json
import os
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import msgspec

from notarius.contracts import (
    Message,
    Reply,
    StructuralDefect,
    StructuralFailure,
    judge_reply,
)
from notarius.registries import (
    ItemCandidate,
    ItemNormalizer,
    LocationCandidate,
    LocationNormalizer,
    NpcCandidate,
    NpcNormalizer,
    RegistryNormalizer,
)
from notarius.semanticreconcile import parse_proposal

Part: TypeAlias = Literal["tune", "report"]
Subject: TypeAlias = Literal["coins", "items", "people", "places"]
Row: TypeAlias = dict[str, Any]

DATA: Final = (
    Path(os.environ.get("NOTARIUS_SHARED_DATA") or Path(__file__).parents[2] / "shared" / "data")
    / "registry"
)
"""The labelled candidate files."""
COINS: Final = "item/coins_and_trade_goods"
TUNE: Final[dict[Subject, tuple[str, ...]]] = {
    "items": (
        "item/crd3_inventory_c1_e001_e024",
        "item/crd3_inventory_c2_e001_e017",
        "item/srd_potions_oils_poisons",
    ),
    "people": (
        "npc/crd3_c1_briarwoods",
        "npc/crd3_c1_kraghammer",
        "npc/crd3_c2_zadash",
        "npc/litbank_vanity_fair",
        "npc/litbank_persuasion",
        "npc/theographic_torah",
    ),
    "places": (
        "location/crd3_loc_c1_e001_023",
        "location/crd3_loc_c2_e001_017",
        "location/litbank_dracula",
    ),
}
FOLDERS: Final[dict[Subject, str]] = {"items": "item", "people": "npc", "places": "location"}


class CandidateList(msgspec.Struct, frozen=True, kw_only=True):
    """One list: what is asked about (`rows`), and the truth about it, apart."""

    subject: Subject
    file: str
    rows: tuple[Row, ...]
    truth: tuple[str, ...]

    def normalizer(self) -> RegistryNormalizer[Any, Any]:
        """Return a new normalizer over the candidates."""
        match self.subject:
            case "people":
                return NpcNormalizer(msgspec.convert(self.rows, list[NpcCandidate]))
            case "places":
                return LocationNormalizer(msgspec.convert(self.rows, list[LocationCandidate]))
            case "coins" | "items":
                return ItemNormalizer(msgspec.convert(self.rows, list[ItemCandidate]))


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """What one reply is worth: counts only, nothing of its text.

    `true_pairs` and `false_pairs` are pairs of candidates in groups that no check refuses, so
    what would be merged if this were the last reply. `there` is how many true pairs the list has.
    """

    structural: str | None = None
    groups: int = 0
    refused: int = 0
    true_pairs: int = 0
    false_pairs: int = 0
    there: int = 0
    issues: dict[str, int] = {}

    @property
    def clean(self) -> bool:
        """Whether nothing was refused."""
        return self.structural is None and not self.refused


def draw(
    data: Path, part: Part, seed: int, counts: dict[Subject, int], sizes: Sequence[int]
) -> list[CandidateList]:
    """Return lists about each subject, of one of these sizes each; the same for the same seed."""
    found = []
    for subject, count in counts.items():
        rng = random.Random(f"{part} {subject} {seed}")  # noqa: S311 - a draw that can be repeated
        files = _files(data, part, subject)
        for number in range(count):
            file = files[number % len(files)]
            rows = _rows(data, file)
            size = rng.choice(list(sizes))
            if subject == "coins":
                chosen = _coins([row for row in rows if _half(row) == part], size, rng)
            else:
                chosen = _mixed(rows, size, rng)
            found.append(_list(subject, file, chosen))
    return found


def _files(data: Path, part: Part, subject: Subject) -> list[str]:
    if subject == "coins":
        return [COINS]
    if part == "tune":
        return list(TUNE[subject])
    folder = FOLDERS[subject]
    every = [f"{folder}/{file.stem}" for file in sorted((data / folder).glob("*.jsonl"))]
    return [file for file in every if file not in TUNE[subject] and file != COINS]


def _rows(data: Path, file: str) -> list[Row]:
    return [json.loads(line) for line in (data / f"{file}.jsonl").read_text().splitlines()]


def _half(row: Row) -> Part:
    digest = hashlib.sha256(row["source_id"].encode()).digest()
    return "tune" if digest[0] % 2 else "report"


def _coins(rows: list[Row], size: int, rng: random.Random) -> list[Row]:
    """Two thirds coins, one third goods."""
    coins = [row for row in rows if row["entity"].startswith("coin")]
    goods = [row for row in rows if not row["entity"].startswith("coin")]
    chosen = rng.sample(coins, size * 2 // 3)
    chosen += rng.sample(goods, size - len(chosen))
    rng.shuffle(chosen)
    return chosen


def _mixed(rows: list[Row], size: int, rng: random.Random) -> list[Row]:
    """About six tenths with a duplicate, under different names where there are such."""
    entities: dict[str, list[Row]] = {}
    for row in rows:
        entities.setdefault(row["entity"], []).append(row)
    several = [e for e, of in entities.items() if len({row["name"] for row in of}) > 1]
    several = several or [e for e, of in entities.items() if len(of) > 1]
    rng.shuffle(several)
    chosen: list[Row] = []
    taken = set()
    for entity in several:
        if len(chosen) >= size * 0.6:
            break
        taken.add(entity)
        of = entities[entity]
        chosen += rng.sample(of, min(rng.choice((2, 2, 3)), len(of)))
    rest = [entity for entity in entities if entity not in taken]
    rng.shuffle(rest)
    chosen += [rng.choice(entities[entity]) for entity in rest]
    chosen = chosen[:size]
    rng.shuffle(chosen)
    return chosen


def _list(subject: Subject, file: str, rows: Iterable[Row]) -> CandidateList:
    chosen = list(rows)
    return CandidateList(
        subject=subject,
        file=file,
        rows=tuple({key: row[key] for key in row if key != "entity"} for row in chosen),
        truth=tuple(row["entity"] for row in chosen),
    )


def score(listed: CandidateList, reply: Reply) -> Score:
    """Judge a reply as the product does, and count against the truth."""
    normalizer = listed.normalizer()
    entities = dict(zip(normalizer.request.ids, listed.truth, strict=True))
    there = sum(n * (n - 1) // 2 for n in Counter(listed.truth).values())
    result = judge_reply(reply, normalizer.contract)
    if isinstance(result, StructuralFailure):
        return Score(structural=result.defect.value, there=there)
    proposal = parse_proposal(result.text)
    if isinstance(proposal, StructuralDefect):
        return Score(structural=proposal.value, there=there)
    split = normalizer.split(proposal)
    pairs = [
        entities[one] == entities[other]
        for group in split.safe
        for one, other in itertools.combinations(group.ids, 2)
    ]
    return Score(
        groups=len(proposal.groups),
        refused=len(split.refused),
        true_pairs=sum(pairs),
        false_pairs=len(pairs) - sum(pairs),
        there=there,
        issues={item.category: item.count for item in split.issue_counts},
    )


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt of an exchange: what its reply was worth and what its request cost."""

    score: Score
    same: bool
    """Whether the reply is the one before it, to the byte."""
    prompt_tokens: int | None = None


def turn_of(listed: CandidateList, reply: Reply, before: Reply | None) -> Turn:
    """Judge one reply of an exchange; `before` is the one it follows."""
    return Turn(
        score=score(listed, reply),
        same=before is not None and reply.text == before.text,
        prompt_tokens=reply.usage.input_tokens,
    )


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One list: where it is from, and the turns of each arm, the first reply included."""

    model: str
    prompt: str
    subject: str
    file: str
    size: int
    first: Turn
    arms: dict[str, list[Turn]]


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One refused reply, and what it was the answer to, for another library."""

    listed: CandidateList
    messages: tuple[Message, ...]
    reply: str
    budget: int
    temperature: float
    max_tokens: int
