"""Faults that others shipped, each as the smallest exchange that would show it here."""

import asyncio
import copy
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from notarius.contracts import (
    GUIDANCE_MAX_BYTES,
    Accepted,
    ProviderError,
    ProviderErrorKind,
    Reply,
    Usage,
    canonical_json,
)

Play = Callable[..., SimpleNamespace]
Groups = Callable[..., str]
NONE = '{"duplicate_groups": []}'


def test_a_retry_does_not_replay_the_identical_prompt(
    play: Play, kind: str, groups: Groups
) -> None:
    """Iterion 67: the second request carries the correction, so that a model can do better."""

    def corrigible(call: Any) -> str:  # noqa: ANN401 - a call
        corrected = len(call.messages) > 2 and "c3" in call.messages[-1].content
        return NONE if corrected else groups(["c3", "c4"])

    got = play(kind, [corrigible] * 3)
    assert isinstance(got.outcome, Accepted)
    assert len(got.calls) == 2


def test_request_ids_mean_nothing_beyond_their_request(
    exchange: Callable[..., Any], groups: Groups
) -> None:
    """OpenRefine 185: two registries that both have a c1 do not mix, even at the same time."""

    async def both() -> list[SimpleNamespace]:
        steps = [groups(["c3", "c4"]), groups(["c2", "c1"])]
        one, other = exchange("npc", steps), exchange("location", steps)
        return list(await asyncio.gather(one.aplay(), other.aplay()))

    for got, name in zip(asyncio.run(both()), ("Percy", "City of Emon"), strict=True):
        assert got.outcome.value.entries[0].name == name
        assert got.outcome.value.entries[0].source_ids == ("s1", "s2")
        stored = canonical_json(got.outcome.value)
        assert not any(
            f'"{request_id}"'.encode() in stored for request_id in got.normalizer.request.ids
        )


def test_requests_do_not_grow_with_each_attempt(play: Play, kind: str) -> None:
    """pydantic-ai-harness 365: six attempts with replies of 40 KB, and no request is larger."""
    replies = [
        f'{{"duplicate_groups": [{{"candidate_ids": ["c3", "c4"], "canonical_id": "c3"}}], '
        f'"note": "{digit * 40_000}"}}'
        for digit in "123456"
    ]
    got = play(kind, replies, normalize_retries=5)
    sizes = [sum(len(m.content.encode()) for m in call.messages) for call in got.calls]
    assert len(sizes) == 6
    assert len(set(sizes[1:])) == 1
    assert sizes[1] <= sizes[0] + 41_000 + GUIDANCE_MAX_BYTES


def test_feedback_is_no_longer_than_its_bound(play: Play, kind: str, groups: Groups) -> None:
    """pydantic-ai 7783: 5,000 bad groups are answered within the bound, each defect said once."""
    bad = groups(*(["c1", f"x{number}"] for number in range(5000)))
    few = groups(["c1", "x"], ["c2", "y"])
    long, short = (play(kind, [text, NONE]).added[1][1].content for text in (bad, few))
    assert len(long.encode()) <= GUIDANCE_MAX_BYTES
    assert long.count("not in the candidate list") == short.count("not in the candidate list") == 1


def test_what_a_caller_passes_in_is_never_changed(
    exchange: Callable[..., Any], kind: str, groups: Groups
) -> None:
    """Instructor 2645: candidates, prompt and policy are the same after an exchange."""
    records = [{"name": name, "aliases": ["A"], "extra": {"k": [1]}} for name in ("X", "Y", "Z")]
    going = exchange(kind, [groups(["c1", "c9"]), "prose", groups(["c1"])], records=records)
    before = copy.deepcopy((records, going.candidates, going.prompt))
    going.in_threads()
    assert (records, going.candidates, going.prompt) == before


def test_transport_errors_are_not_shown_to_the_model(play: Play, kind: str, groups: Groups) -> None:
    """Instructor 1907: after a 429 and a bad proposal the correction is about the proposal."""
    busy = ProviderError(ProviderErrorKind.RATE_LIMITED, status=429, retry_after_s=0.0)
    got = play(kind, [busy, groups(["c3", "c4"]), busy, NONE], transport_retries=1)
    calm = play(kind, [groups(["c3", "c4"]), NONE])
    assert got.calls[1].messages == calm.calls[0].messages
    assert got.calls[2].messages == got.calls[3].messages == calm.calls[1].messages


@pytest.mark.parametrize("known", [True, False])
def test_usage_counts_failed_attempts(play: Play, kind: str, groups: Groups, known: bool) -> None:
    """Instructor 715: tokens of refused and unreadable attempts count; unknown stays unknown."""
    tokens = Usage(input_tokens=10, output_tokens=1)
    texts = ["prose", groups(["c3", "c4"]), "[]", NONE]
    steps = [Reply(text=text, usage=tokens) for text in texts]
    if not known:
        steps[1] = Reply(text=texts[1], usage=Usage(output_tokens=1))
    got = play(kind, steps, repair_retries=1, normalize_retries=2)
    assert len(got.records) == 2
    assert got.outcome.usage == Usage(input_tokens=40 if known else None, output_tokens=4)


def test_bad_groups_do_not_take_good_ones_with_them(play: Play, groups: Groups) -> None:
    """Guardrails 1491: with groups 1 and 3 of 5 bad, groups 2, 4 and 5 apply."""
    names = [f"{name} {word}" for name in ("Ash", "Birch", "Cedar") for word in ("inn", "house")]
    reply = groups(["c1", "c99"], ["c2", "c3"], ["c1"], ["c4", "c5"], ["c6", "c7"])
    got = play("location", [reply], records=[*names, "Dale"], normalize_retries=0)
    sources = [entry.source_ids for entry in got.outcome.value.entries]
    assert sources == [("s1",), ("s2", "s3"), ("s4", "s5"), ("s6", "s7")]


@pytest.mark.parametrize("world", ["in_threads", "in_asyncio"])
def test_a_retry_is_never_answered_from_a_cache(
    exchange: Callable[..., Any], kind: str, world: str
) -> None:
    """Dspy 1080: a caching server answers a retry anew, although the prompt is the same."""
    cache: dict[object, str] = {}
    fresh = iter(["prose", "prose", NONE])

    def cached(call: Any) -> str:  # noqa: ANN401 - a call
        if call.bypass_cache or call.messages not in cache:
            cache[call.messages] = next(fresh)
        return cache[call.messages]

    got = getattr(exchange(kind, [cached] * 3), world)()
    assert isinstance(got.outcome, Accepted)
    assert len(got.calls) == 3
    assert len(cache) == 1
