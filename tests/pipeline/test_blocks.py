import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from notarius.attempts import AttemptPolicy, CancelToken
from notarius.contracts import GUIDANCE_MAX_BYTES, AttemptCause, ProducerRequest, Reply
from notarius.llmruntime import ChatCall, StructuredProducer
from notarius.pipeline import Config, InputError, RunSettings, Settings, reconcile, run_campaign
from notarius.pipeline._blocks import (
    MESSAGE_TOKENS,
    REPAIR_MAX_BYTES,
    TEMPLATE_TOKENS,
    Budget,
    line_tokens,
    plan_blocks,
    tokens_at_most,
)
from notarius.pipeline._exchange import Budgets
from notarius.pipeline._models import REPLY_TOKENS, REPLY_TOKENS_PER_CANDIDATE
from notarius.registries import (
    Candidate,
    Coinage,
    ItemCandidate,
    ItemRules,
    LocationCandidate,
    LocationRules,
    NpcCandidate,
    NpcRules,
    RegistryKind,
    RegistryNormalizer,
    RegistryRules,
)

RULES: dict[RegistryKind, RegistryRules[Any, Any]] = {
    "npc": NpcRules(),
    "item": ItemRules(),
    "location": LocationRules(),
}
TYPES: dict[RegistryKind, type[Candidate]] = {
    "npc": NpcCandidate,
    "item": ItemCandidate,
    "location": LocationCandidate,
}
SMALL, MIDDLE = 4_096, 8_192
"""Contexts that hold some ten and some thirty short names."""
ROOMY = 6_500
"""One that holds any two candidates that are drawn below, and seldom forty."""

BUDGETS = {
    (corrected, repaired): Budgets(
        policy=AttemptPolicy(normalize_retries=2 * corrected), repair_retries=int(repaired)
    )
    for corrected in (False, True)
    for repaired in (False, True)
}
"""Budgets by what an answer can be sent back with: a correction, or a demand for JSON."""
WORDS = ["Orla", "Borin", "Venn", "Hask", "Vennick", "Vennik", "Lord", "Lady", "Mr.", "II", "the",
         "of", "his", "wife", "Lake", "Inn", "gold", "silver", "+1", "Al'Orrin", "Ёлка", "金貨",
         "ﷺ", "q\u0958"]  # fmt: skip
KINDS = st.sampled_from(sorted(RULES))


def _records(count: int) -> list[dict[str, Any]]:
    """Make up records, the same each time: drawing each word of each would take too long."""
    rng = random.Random(5)  # noqa: S311 - no secret

    def name() -> str:
        return " ".join(rng.choices(WORDS, k=rng.randint(1, 4)))

    def anything() -> str:
        return "".join(chr(rng.choice((rng.randrange(0xD800), 0xFDFA))) for _ in range(60))

    return [
        {
            "name": name(),
            "aliases": tuple(name() for _ in range(rng.choice((0, 0, 1, 3)))),
            "description": rng.choice((str, name, anything))(),
        }
        for _ in range(count)
    ]


RECORDS = _records(200)


def candidates_of(kind: RegistryKind, records: Sequence[dict[str, Any]]) -> list[Candidate]:
    """Make candidates, with source ids where they have none."""
    return [
        TYPES[kind](**{"source_id": f"s{number}", **record})
        for number, record in enumerate(records)
    ]


@st.composite
def lists(draw: st.DrawFn) -> tuple[RegistryKind, list[Candidate]]:
    """Draw a registry and a list that is too long for a small context, more often than not."""
    least = draw(st.sampled_from([0, 30]))
    records = draw(st.lists(st.sampled_from(RECORDS), min_size=least, max_size=40))
    kind = draw(KINDS)
    return kind, candidates_of(kind, records)


def needed(
    kind: RegistryKind, block: Sequence[Candidate], *, corrected: bool = True, repaired: bool = True
) -> int:
    """Count what a block's real prompt and the exchange about it may come to."""
    prompt = RegistryNormalizer(RULES[kind], block).request.prompt
    frame = RegistryNormalizer(RULES[kind], ()).request.prompt
    sizes = [sum(len(m.content.encode()) for m in which.messages) for which in (prompt, frame)]
    answer = REPLY_TOKENS + REPLY_TOKENS_PER_CANDIDATE * len(block)
    said = GUIDANCE_MAX_BYTES * corrected + REPAIR_MAX_BYTES * repaired
    prose = (sizes[1] + said) * 3 // 8
    return sizes[0] - sizes[1] + prose + (1 + corrected + repaired) * answer


def together(blocks: Sequence[Sequence[int]], *indexes: int) -> bool:
    """Tell whether these candidates are in one block."""
    return any(set(indexes) <= set(block) for block in blocks)


@given(
    lists(),
    st.sampled_from([ROOMY, ROOMY + 400, MIDDLE]),
    st.sampled_from(sorted(BUDGETS)),
)
def test_every_candidate_is_in_one_block_that_fits(
    listed: tuple[RegistryKind, list[Candidate]], context: int, sent_back: tuple[bool, bool]
) -> None:
    """Blocks are a partition, ascending, and the real prompt of each leaves room for the rest."""
    kind, candidates = listed
    corrected, repaired = sent_back
    blocks = plan_blocks(kind, candidates, context_tokens=context, budgets=BUDGETS[sent_back])
    assert sorted(index for block in blocks for index in block) == list(range(len(candidates)))
    assert all(list(block) == sorted(block) for block in blocks)
    assert list(blocks) == sorted(blocks)
    for block in blocks:
        assert block
        asked = [candidates[index] for index in block]
        most = needed(kind, asked, corrected=corrected, repaired=repaired)
        assert len(block) == 1 or most <= context


@given(lists(), st.randoms(use_true_random=False))
def test_the_order_of_the_list_does_not_matter(
    listed: tuple[RegistryKind, list[Candidate]], rng: random.Random
) -> None:
    """Shuffled candidates are divided into the same sets."""

    def divided(given: Sequence[Candidate]) -> set[frozenset[str]]:
        blocks = plan_blocks(kind, given, context_tokens=ROOMY)
        return {frozenset(given[index].source_id for index in block) for block in blocks}

    kind, candidates = listed
    assert divided(rng.sample(candidates, len(candidates))) == divided(candidates)


@pytest.mark.parametrize("kind", sorted(RULES))
def test_the_same_name_is_in_one_block(kind: RegistryKind) -> None:
    """What is named alike comes together from anywhere in the list, whatever is said about it."""
    names = [f"{word}{number}" for word in ("Aldor", "Brenn", "Cassin") for number in range(40)]
    records = [{"name": name, "description": f"{turn}"} for turn in range(3) for name in names]
    blocks = plan_blocks(kind, candidates_of(kind, records), context_tokens=SMALL)
    assert len(blocks) > 30
    assert all(together(blocks, at, at + 120, at + 240) for at in range(120))


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        ("npc", {"name": "Orla Venn"}, {"name": "Captain Orla Venn"}),
        ("npc", {"name": "Orla Venn"}, {"name": "the Grey Lady", "aliases": ("Orla Venn",)}),
        ("npc", {"name": "Orla Vennick"}, {"name": "Órla Vennik"}),
        ("npc", {"name": "the miller"}, {"name": "Tarn", "description": "a miller"}),
        ("location", {"name": "Gilded Eel"}, {"name": "The Gilded Eel Tavern"}),
        ("item", {"name": "Draught of Vigour"}, {"name": "vigour draughts (2)"}),
    ],
)
def test_what_is_alike_is_in_one_block(
    kind: RegistryKind, one: dict[str, Any], other: dict[str, Any]
) -> None:
    """Titles, aliases, slips of the pen, descriptions and word order do not part two candidates."""
    rng = random.Random(7)  # noqa: S311 - other names, the same each time
    others = [{"name": "".join(rng.choices("bcdfghjkl", k=9)).title()} for _ in range(60)]
    records = [one, *others, other]
    blocks = plan_blocks(kind, candidates_of(kind, records), context_tokens=SMALL)
    assert len(blocks) > 5
    assert together(blocks, 0, len(records) - 1)


def test_what_the_matcher_takes_for_one_comes_before_shared_words() -> None:
    """`gp` is with `gold pieces`, which have more words in common with other golden things."""
    rng = random.Random(7)  # noqa: S311 - other names, the same each time
    others = [{"name": f"gold {''.join(rng.choices('bcdfghjkl', k=5))}"} for _ in range(60)]
    records = [{"name": "gp"}, *others, {"name": "gold pieces"}]
    blocks = plan_blocks("item", candidates_of("item", records), context_tokens=SMALL)
    assert together(blocks, 0, len(records) - 1)


def test_a_name_of_too_many_is_divided_into_full_blocks() -> None:
    """One name in more candidates than a block holds fills blocks, all but one of them."""
    records = [{"name": "Orla Venn", "description": f"seen {n:03} times"} for n in range(102)]
    blocks = plan_blocks("npc", candidates_of("npc", records), context_tokens=SMALL)
    sizes = sorted(map(len, blocks))
    assert len(blocks) > 9
    assert len(set(sizes[1:])) == 1


@pytest.mark.parametrize("count", [10, 19, 28])
def test_nobody_is_left_alone_beside_a_namesake(count: int) -> None:
    """A candidate that has no room with its like gets one of them from a block that has more."""
    records = [{"name": "Orla Venn", "description": f"{n:03}" * 20} for n in range(count)]
    for context in range(SMALL, SMALL + 400, 40):
        blocks = plan_blocks("npc", candidates_of("npc", records), context_tokens=context)
        assert len(blocks) > 1
        assert min(map(len, blocks)) > 1


def test_few_requests_are_made() -> None:
    """Names that have nothing in common fill the blocks none the less."""
    rng = random.Random(1)  # noqa: S311 - the same names each time
    records = [{"name": "".join(rng.choices("bcdfghjklmnpqrstvwxz", k=8))} for _ in range(200)]
    candidates = candidates_of("npc", records)
    blocks = plan_blocks("npc", candidates, context_tokens=MIDDLE)
    largest = max(map(len, blocks))
    assert len(blocks) <= -(-len(candidates) // largest) + 1


@pytest.mark.parametrize("context", [None, 1_000_000])
def test_a_list_that_fits_is_one_block(context: int | None) -> None:
    """Without a limit, or with room for all, there is one request, about the list as it is."""
    candidates = candidates_of("npc", [{"name": f"Orla {number}"} for number in range(300)])
    assert plan_blocks("npc", candidates, context_tokens=context) == (tuple(range(300)),)


@pytest.mark.parametrize("context", [None, 1, MIDDLE])
def test_what_is_not_asked_about_needs_no_room(context: int | None) -> None:
    """No candidate is no block, and one candidate is one, however small the context."""
    alone = candidates_of("npc", [{"name": "Orla"}])
    assert plan_blocks("npc", [], context_tokens=context) == ()
    assert plan_blocks("npc", alone, context_tokens=context) == ((0,),)


def test_a_candidate_that_is_too_long_is_named() -> None:
    """If two can't be asked about together, the error says which are too long, and what to do."""
    long = {"source_id": "e7\n-long", "name": "金" * 60, "aliases": ("貨" * 30,) * 6}
    records = [{"name": f"Orla {number}"} for number in range(50)]
    candidates = candidates_of("npc", [*records, long, {**long, "source_id": "e8-long"}])
    with pytest.raises(InputError) as caught:
        plan_blocks("npc", candidates, context_tokens=SMALL)
    assert len(caught.value.problems) == 2
    for problem, source_id in zip(caught.value.problems, ("e7 -long", "e8-long"), strict=True):
        assert f"`{source_id}`" in problem
        assert "larger context" in problem
        assert "shorten" in problem
    assert len(plan_blocks("npc", candidates, context_tokens=MIDDLE)) > 1


@pytest.mark.parametrize("context", [0, 2_048])
def test_a_context_that_holds_no_exchange_is_refused(context: int) -> None:
    """Where an answer that is sent back with a correction has no room, no model is asked."""
    candidates = candidates_of("item", [{"name": "rope"}, {"name": "ropes"}])
    with pytest.raises(InputError, match="s0"):
        plan_blocks("item", candidates, context_tokens=context)


def test_what_is_never_sent_back_takes_no_room() -> None:
    """Without retries no correction and no second answer is reserved: fewer, fuller requests."""
    candidates = candidates_of("npc", [{"name": _name(number)} for number in range(60)])

    def requests(context: int, sent_back: tuple[bool, bool]) -> int:
        budgets = BUDGETS[sent_back]
        return len(plan_blocks("npc", candidates, context_tokens=context, budgets=budgets))

    counts = [requests(SMALL, sent_back) for sent_back in BUDGETS]
    assert counts == sorted(counts)
    bare, repaired, corrected, usual = counts
    assert bare < repaired < corrected < usual
    # A context that is too small for a correction is enough for an answer.
    assert requests(2_048, (False, False)) < requests(2_048, (False, True)) < len(candidates) / 2
    with pytest.raises(InputError):
        requests(2_048, (True, False))


@pytest.mark.parametrize("sent_back", sorted(BUDGETS))
def test_the_longest_conversation_is_counted(
    tmp_path: Path,
    candidate_file: Callable[..., Path],
    scripted: Callable[..., Any],
    groups: Callable[..., str],
    sent_back: tuple[bool, bool],
) -> None:
    """A corrected answer may be one that can't be read: both go back, each with words of ours."""
    budgets = BUDGETS[sent_back]
    model = scripted(["no JSON", groups(["c1", "c9"]), "no JSON", groups()])
    reconcile(
        Settings(
            registry="npc",
            candidates=candidate_file(),
            out=tmp_path / "out",
            policy=budgets.policy,
            repair_retries=budgets.repair_retries,
        ),
        backend=model,
    )
    longest = max(len(call.messages) for call in model.calls)
    budget = Budget.of("npc", SMALL, budgets=budgets)
    assert longest + 1 == 2 * budget.answers + 1
    bare = Budget.of("npc", SMALL, budgets=BUDGETS[False, False])
    corrected, repaired = sent_back
    more = (budget.answers - 1) * (
        REPLY_TOKENS + 2 * REPLY_TOKENS_PER_CANDIDATE + 2 * MESSAGE_TOKENS
    )
    said = (GUIDANCE_MAX_BYTES * corrected + REPAIR_MAX_BYTES * repaired) * 3 // 8
    assert budget.needed(0, 2) - bare.needed(0, 2) >= more + said


def test_few_requests_are_made_without_retries_too() -> None:
    """Where only one answer has to fit, all blocks but one are so full that no more fits."""
    candidates = candidates_of("npc", [{"name": _name(number)} for number in range(200)])
    budgets = BUDGETS[False, False]
    blocks = plan_blocks("npc", candidates, context_tokens=SMALL, budgets=budgets)
    full = max(map(len, blocks))
    lines = line_tokens("npc", candidates)
    assert not Budget.of("npc", SMALL, budgets=budgets).fits(max(lines) * (full + 1), full + 1)
    assert len(blocks) == -(-len(candidates) // full)


def _name(number: int) -> str:
    """Return a name of its own, that has nothing in common with the others."""
    rng = random.Random(number)  # noqa: S311 - the same names each time
    return "".join(rng.choices("bcdfghjklmnpqrstvwxz", k=8))


@pytest.mark.parametrize("answer", ["no JSON", "[]", '{"a": 1, "a": 1}', "[" * 5_000 + "]" * 5_000])
def test_a_repair_says_no_more_than_is_reserved(answer: str) -> None:
    """What goes back with an unreadable answer is bounded as the blocks take it to be."""
    candidates = candidates_of("npc", [{"name": "a"}, {"name": "b"}])
    normalizer = RegistryNormalizer(RULES["npc"], candidates)
    calls: list[ChatCall] = []

    class Unreadable:
        def complete(self, call: ChatCall, *, cancellation: object) -> Reply:
            calls.append(call)
            return Reply(text=answer)

    messages = normalizer.request.prompt.messages
    request = ProducerRequest(messages=messages, number=1, cause=AttemptCause.INITIAL)
    StructuredProducer(Unreadable(), repair_retries=1).produce(
        request, contract=normalizer.contract, cancellation=CancelToken()
    )
    sent_back, said = calls[1].messages[len(messages) :]
    assert sent_back.content == answer
    assert 0 < len(said.content.encode()) <= REPAIR_MAX_BYTES


def test_coins_of_a_setting_take_more_room() -> None:
    """Words in guidance that are not ours are counted like everybody's: a token a byte."""
    coins = (Coinage(code="zl", label="złote monety"),)
    candidates = candidates_of("item", [{"name": f"thing {number}"} for number in range(60)])
    usual = plan_blocks("item", candidates, context_tokens=MIDDLE)
    own = plan_blocks("item", candidates, context_tokens=MIDDLE, coinages=coins)
    assert len(own) > len(usual)
    assert Budget.of("npc", MIDDLE, coinages=coins) == Budget.of("npc", MIDDLE)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_no_byte_is_left_uncounted(text: str) -> None:
    """Anybody's text is counted a token a byte at least, also if it is composed before."""
    assert tokens_at_most(text) >= len(text.encode())
    assert tokens_at_most("ﷺ" + text) >= 33


# Tokens that vocabularies of 32,000 (SentencePiece), 49,152 and 151,936 (byte-level) entries need
# for what we wrote. A new wording is to be counted again.
FRAMES: dict[RegistryKind, tuple[int, int, int]] = {
    "npc": (252, 240, 223),
    "item": (255, 240, 222),
    "location": (252, 240, 222),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_what_we_wrote_is_counted_with_room_to_spare(kind: RegistryKind) -> None:
    """The frame of a request is allowed more than any tokenizer that it was counted with needs."""
    assert Budget.of(kind, MIDDLE).frame_tokens > 1.25 * max(FRAMES[kind]) + TEMPLATE_TOKENS


def test_the_seed_of_hashes_does_not_matter() -> None:
    """The same list is divided the same in any process."""
    code = (
        "from notarius.registries import NpcCandidate as N;"
        "from notarius.pipeline._blocks import plan_blocks;"
        "w='Orla Borin Tarn Venn Hask Lady Lord Mr Aldor Brenn'.split();"
        "c=[N(source_id=a+b+d,name=f'{a} {b}',aliases=(d,),description=b+' of '+d)"
        "   for a in w for b in w for d in w[::3]];"
        "print(plan_blocks('npc',c,context_tokens=4096))"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            check=True,
            capture_output=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


def test_a_long_list_of_frequent_words_is_divided() -> None:
    """Thousands of candidates that share their words and a name are divided like any."""
    rng = random.Random(3)  # noqa: S311 - the same names each time
    words = [word + end for word in ("Or", "Bor", "Ven", "Has", "Tar") for end in ("a", "in", "")]
    records = [{"name": "Guard"}] * 1_000 + [
        {"name": " ".join(rng.choices(words, k=3)), "aliases": (f"Guard {number}",)}
        for number in range(2_000)
    ]
    candidates = candidates_of("npc", records)
    blocks = plan_blocks("npc", candidates, context_tokens=MIDDLE)
    assert sorted(index for block in blocks for index in block) == list(range(3_000))
    assert len(blocks) < 200


@pytest.mark.parametrize("kind", sorted(RULES))
def test_true_pairs_of_real_lists_come_together(shared_data: Path, kind: RegistryKind) -> None:
    """On labelled lists nearly all true pairs are kept, and many more than by cutting the list."""
    kept = pairs = cut = 0
    for file in sorted((shared_data / "registry" / kind).glob("*.jsonl")):
        rows = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
        truth = [row.pop("entity") for row in rows]
        candidates: list[Candidate] = [msgspec.convert(row, TYPES[kind]) for row in rows]
        blocks = plan_blocks(kind, candidates, context_tokens=MIDDLE)
        block_of = {index: number for number, block in enumerate(blocks) for index in block}
        share = -(-len(rows) // len(blocks))
        for one in range(len(rows)):
            for other in range(one):
                if truth[one] == truth[other]:
                    pairs += 1
                    kept += block_of[one] == block_of[other]
                    cut += one // share == other // share
    assert kept > 0.88 * pairs
    assert kept > 1.2 * cut


@pytest.mark.parametrize(("said", "several"), [(None, True), (100_000, False)])
def test_a_model_in_this_process_has_the_same_room_for_both_commands(
    tmp_path: Path, scripted: Callable[..., Any], said: int | None, several: bool
) -> None:
    """`reconcile` divides a list as `run` does, also where the room is not said but known."""
    campaign, file = tmp_path / "campaign", tmp_path / "model.gguf"
    campaign.mkdir()
    file.write_bytes(b"GGUF")
    lines = [f'{{"source_id": "{number}", "name": "{_name(number)}"}}\n' for number in range(200)]
    (campaign / "npc.jsonl").write_text("".join(lines))
    model = f"llama:{file}"
    policy = AttemptPolicy(normalize_retries=0)
    alone, together = (scripted(['{"duplicate_groups": []}'] * 200) for _ in range(2))
    settings = Settings(
        registry="npc",
        candidates=campaign / "npc.jsonl",
        out=tmp_path / "alone",
        model=model,
        policy=policy,
        context_tokens=said,
    )
    reconcile(settings, backend=alone)
    options = Config(model=model, context_tokens=said, normalize_retries=0)
    run_campaign(
        RunSettings(campaign=campaign, out=tmp_path / "together", options=options),
        backend=together,
    )
    assert (len(alone.calls) > 1) is several
    assert [call.messages for call in alone.calls] == [call.messages for call in together.calls]
