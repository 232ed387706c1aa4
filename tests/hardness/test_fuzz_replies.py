"""What a model or its server sends: any text, any bytes, any size."""

import itertools
import json
import string
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from notarius.attempts import CancelToken
from notarius.contracts import (
    GUIDANCE_MAX_BYTES,
    FinishReason,
    ModelCandidate,
    Normalized,
    Produced,
    ProviderError,
    ProviderErrorKind,
    Reply,
    StructuralDefect,
    StructuralFailure,
    canonical_json,
    judge_reply,
)
from notarius.llmruntime import ChatCall
from notarius.llmruntime.openai import parse_envelope
from notarius.pipeline import SimilarityBackend
from notarius.registries import (
    Candidate,
    ItemCandidate,
    ItemNormalizer,
    LocationCandidate,
    LocationNormalizer,
    NpcCandidate,
    NpcNormalizer,
    RegistryKind,
    RegistryNormalizer,
)

Damaged: TypeAlias = Callable[[bytes], SearchStrategy[bytes]]
Fed: TypeAlias = Callable[[str, bytes | str], None]
Grows: TypeAlias = Callable[..., float]
Peak: TypeAlias = Callable[[Callable[[], Any]], SimpleNamespace]
HARD = settings.get_profile("hardness")
MB = 1024 * 1024
KINDS: tuple[RegistryKind, ...] = ("npc", "item", "location")
MAKERS: dict[RegistryKind, tuple[Callable[..., Candidate], Callable[..., Any]]] = {
    "npc": (NpcCandidate, NpcNormalizer),
    "item": (ItemCandidate, ItemNormalizer),
    "location": (LocationCandidate, LocationNormalizer),
}
NAMES = ["Lord Percival", "Percival", "5 gp", "20 silver", "Cell 3", "Cell 4"]
REPLY = json.dumps(
    {
        "duplicate_groups": [
            {"name": "Percy", "candidate_ids": ["c1", "c2"], "canonical_id": "c2"},
            {"name": "c9 \U0001f409", "candidate_ids": ["c3", "c4", "c9"], "canonical_id": "c3"},
            {"candidate_ids": ["c5", "c6"], "canonical_id": "c5", "why": [{"a": 1.5}]},
        ],
        "note": "done",
    },
    ensure_ascii=False,
)
ENVELOPE = json.dumps(
    {
        "id": "chatcmpl-1",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": REPLY, "refusal": None},
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 12, "completion_tokens": 34},
    }
).encode()


def normalizer_of(kind: RegistryKind, names: list[str]) -> RegistryNormalizer[Any, Any]:
    """Return the normalizer of candidates of these names."""
    candidate, normalizer = MAKERS[kind]
    made: RegistryNormalizer[Any, Any] = normalizer(
        [candidate(source_id=f"s{number}", name=name) for number, name in enumerate(names)]
    )
    return made


def judged(normalizer: RegistryNormalizer[Any, Any], text: str) -> Any:  # noqa: ANN401 - either verdict
    """Take a text through the whole way from a reply to a verdict."""
    reply = Reply(text=text, finish_reason=FinishReason.STOP)
    return normalizer.normalize(Produced(result=judge_reply(reply, normalizer.contract)))


def require_sound(verdict: Any, source_ids: list[str]) -> None:  # noqa: ANN401 - either verdict
    """Nobody is lost or doubled, what is told to the model is bounded, and all can be written."""
    registry = verdict.value if isinstance(verdict, Normalized) else verdict.fallback.value
    held = [source_id for entry in registry.entries for source_id in entry.source_ids]
    assert sorted(held) == sorted(source_ids)
    assert canonical_json(registry)
    if not isinstance(verdict, Normalized) and verdict.guidance is not None:
        assert len(verdict.guidance.encode()) <= GUIDANCE_MAX_BYTES
        assert set(verdict.guidance) <= set(string.printable)


@HARD
@given(
    data=st.data(),
    kind=st.sampled_from(KINDS),
    text=st.none() | st.text(st.characters(exclude_categories=()), max_size=60),
)
def test_any_reply_has_a_verdict(
    damaged: Damaged, fed: Fed, data: st.DataObject, kind: RegistryKind, text: str | None
) -> None:
    """Whatever a model writes, candidates are neither lost nor doubled."""
    if text is None:
        # Half of a pair stands for each byte that is no UTF-8.
        text = data.draw(damaged(REPLY.encode())).decode(errors="surrogateescape")
    fed("reply", text)
    normalizer = normalizer_of(kind, NAMES)
    require_sound(judged(normalizer, text), [f"s{number}" for number in range(len(NAMES))])


def require_reply_or_bad_envelope(body: bytes) -> None:
    """Read a response: it is a reply that can be judged, or the one error for what is none."""
    try:
        reply = parse_envelope(body)
    except ProviderError as error:
        assert error.kind is ProviderErrorKind.BAD_ENVELOPE  # noqa: PT017 - one of two good ends
    else:
        assert canonical_json(reply.usage)
        assert isinstance(
            judge_reply(reply, normalizer_of("npc", NAMES).contract),
            ModelCandidate | StructuralFailure,
        )


@HARD
@given(data=st.data(), raw=st.booleans())
def test_any_response_body_is_a_reply_or_a_bad_envelope(
    damaged: Damaged, fed: Fed, data: st.DataObject, raw: bool
) -> None:
    """Whatever bytes a server sends, a reply or the one error for it comes out."""
    body = data.draw(st.binary(max_size=200) if raw else damaged(ENVELOPE))
    fed("response", body)
    require_reply_or_bad_envelope(body)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=4,
)


@HARD
@given(
    place=st.sampled_from(
        [
            "",
            "choices",
            "choice",
            "message",
            "content",
            "refusal",
            "finish_reason",
            "usage",
            "tokens",
        ]
    ),
    value=JSON,
)
def test_any_value_anywhere_in_an_envelope_has_an_answer(
    fed: Fed, place: str, value: object
) -> None:
    """A field of another type is no crash, wherever it stands."""
    known: dict[str, Any] = {"content": "{}", "refusal": None, "finish_reason": "stop", "tokens": 1}
    known |= {place: value}
    message = {"content": known["content"], "refusal": known["refusal"]}
    choice = {"message": known.get("message", message), "finish_reason": known["finish_reason"]}
    usage = {"prompt_tokens": known["tokens"], "completion_tokens": known["tokens"]}
    envelope = {
        "choices": known.get("choices", [known.get("choice", choice)]),
        "usage": known.get("usage", usage),
    }
    body = json.dumps(known.get("", envelope)).encode()
    fed("response", body)
    require_reply_or_bad_envelope(body)


# Texts that get longer in one place, each hard on some way of reading: starts, what is repeated,
# ends.
LONG_TEXTS: dict[str, tuple[str, str, str]] = {
    "escaped quotes, not closed": ('{"x": "', '\\"', ""),
    "escaped quotes, closed": ('{"x": "', '\\"', '", "duplicate_groups": []}'),
    "escaped quotes in a name": ('{"duplicate_groups": [{"name": "', '\\"', ""),
    "escaped quotes in an id": (
        '{"duplicate_groups": [{"candidate_ids": ["',
        '\\"',
        '"], "canonical_id": "c1"}]}',
    ),
    "backslashes": ('{"x": "', "\\\\", ""),
    "backslashes and quotes": ('{"x": "', '\\\\\\"', ""),
    "quotes": ('{"x": 1', '"', ""),
    "quotes and line ends": ('{"x": 1', '"\n', ""),
    "empty strings": ('{"x": [', '"",', ""),
    "unicode escapes": ('{"x": "', "\\u0041", '"}'),
    "halves of a pair": ('{"x": "', "\\ud800", '"}'),
    "digits": ('{"x": ', "9", ', "duplicate_groups": []}'),
    "white space": ("{", " ", '"duplicate_groups": []}'),
    "white space alone": ("", " \n\t\r", ""),
    "open brackets": ('{"x": ', "[", ""),
    "open brackets in a group": ('{"duplicate_groups": [{"x": ', '[{"a":', ""),
    "brackets": ('{"x": [', "[],", '1], "duplicate_groups": []}'),
    "keys": ('{"duplicate_groups": [], ', '"x": 1, ', '"y": 1}'),
    "colons in strings": ('{"duplicate_groups": [{"name": "', ":{", '"}]}'),
    "groups of nothing": (
        '{"duplicate_groups": [',
        '{"candidate_ids": [], "canonical_id": ""},',
        '{"candidate_ids": [], "canonical_id": ""}]}',
    ),
    "one group again": (
        '{"duplicate_groups": [',
        '{"candidate_ids": ["c1", "c2"], "canonical_id": "c1"},',
        '{"candidate_ids": ["c1", "c2"], "canonical_id": "c1"}]}',
    ),
    "one id again": (
        '{"duplicate_groups": [{"canonical_id": "c1", "candidate_ids": [',
        '"c1", ',
        '"c2"]}]}',
    ),
    "NUL": ('{"x": "', "\0", '"}'),
    "prose": ("", "The same person. ", ""),
}


@pytest.mark.parametrize("shape", LONG_TEXTS)
def test_the_time_for_a_reply_grows_with_its_length_alone(grows: Grows, shape: str) -> None:
    """A reply of any shape is judged in time that is linear in its length."""
    start, unit, end = LONG_TEXTS[shape]
    normalizer = normalizer_of("item", NAMES)

    def make(size: int) -> Callable[[], object]:
        text = start + unit * (size // len(unit)) + end
        return lambda: judged(normalizer, text)

    assert grows(make, 20_000) < 32


@pytest.mark.parametrize("shape", LONG_TEXTS)
def test_the_time_for_a_body_grows_with_its_length_alone(grows: Grows, shape: str) -> None:
    """So it is for what a server sends around it."""
    start, unit, end = LONG_TEXTS[shape]

    def parse(body: bytes) -> None:
        try:
            parse_envelope(body)
        except ProviderError:
            return

    def make(size: int) -> Callable[[], object]:
        body = (start + unit * (size // len(unit)) + end).encode()
        return lambda: parse(body)

    assert grows(make, 20_000) < 32


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", ["chain", "all in one", "pairs", "strangers"])
def test_the_time_for_groups_grows_with_their_number_alone(
    grows: Grows, kind: RegistryKind, form: str
) -> None:
    """Thousands of candidates in any groups are judged in linear time, and none is lost."""

    def make(count: int) -> Callable[[], object]:
        normalizer = normalizer_of(kind, [NAMES[n % len(NAMES)] for n in range(count)])
        ids = normalizer.request.ids
        lists: dict[str, Callable[[], list[tuple[str, ...]]]] = {
            "chain": lambda: [*itertools.pairwise(ids)],
            "all in one": lambda: [ids],
            "pairs": lambda: [*zip(ids[::2], ids[1::2], strict=False)],
            "strangers": lambda: [(f"x{n}", f"y{n}") for n in range(count)],
        }
        groups = [{"candidate_ids": some, "canonical_id": some[0]} for some in lists[form]()]
        text = json.dumps({"duplicate_groups": groups})

        def work() -> None:
            require_sound(judged(normalizer, text), [f"s{number}" for number in range(count)])

        return work

    assert grows(make, 400) < 32


def test_a_hundred_thousand_groups_are_one_bounded_correction() -> None:
    """What a model is told, and what is remembered, does not grow with its reply."""
    normalizer = normalizer_of("npc", NAMES)
    one = '{"candidate_ids":["c1","c2"],"canonical_id":"c1"}'
    other = '{"candidate_ids":["c2","c7"],"canonical_id":"c9"}'
    verdict = judged(normalizer, f'{{"duplicate_groups":[{",".join([one, other] * 50_000)}]}}')
    require_sound(verdict, [f"s{number}" for number in range(len(NAMES))])
    assert verdict.fallback.refused_groups == 100_000
    assert len(canonical_json([verdict.issues, verdict.issue_counts])) < 20_000


@pytest.mark.parametrize("char", ["a", "\u0416", "\U0001f409", "\ud800", '"', "["])
def test_a_reply_of_fifty_megabytes_is_refused_without_being_read(peak: Peak, char: str) -> None:
    """Beyond its bound a reply costs its bytes once more, for a digest, and room to encode."""
    size = 50 * MB
    reply = Reply(text=char * (size // len(char.encode("utf-8", "surrogatepass"))))
    contract = normalizer_of("npc", NAMES).contract
    got = peak(lambda: judge_reply(reply, contract))
    assert got.value.defect is StructuralDefect.OVERSIZED
    assert size - 4 < got.value.response_bytes <= size
    assert got.bytes < 1.6 * size
    assert len(repr((reply, got.value))) < 500


def test_a_body_of_fifty_megabytes_takes_memory_in_its_measure(peak: Peak) -> None:
    """An envelope is read once: its bytes, its text, and the text that is the reply."""
    size = 50 * MB
    body = b'{"choices":[{"message":{"content":"%b"}}]}' % (b"a" * size)
    got = peak(lambda: parse_envelope(body))
    assert len(got.value.text) == size
    assert got.bytes < 2.2 * size


# Of each general category of Unicode two, and what is special beside.
CLASSES = [
    *"AaǅʰΑא", "\u0301", "\u0903", "\u20dd", *"1٣ⅨⅣ½_-()«»!$+^§", " ", "\u2028", "\u2029", "\x00",
    "\x1b", "\u200d", "\u202e", "\ufeff", "\ue000", "\uffff", "\U0001f409", "\U000e0041",
    "\U0010ffff", "\ufdfa", "\u1e9e", "İ", "ß", "가", "\u0344",
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_the_time_for_names_grows_with_their_length_alone(grows: Grows, kind: RegistryKind) -> None:
    """A name of a megabyte of any class is asked about, matched and judged in linear time."""

    def make(size: int) -> Callable[[], object]:
        names = [
            name
            for char in CLASSES
            for name in (f"x{char * (size // len(char.encode()))}", f"{char * 9}y")
        ]

        def work() -> None:
            normalizer = normalizer_of(kind, names)
            messages = normalizer.request.prompt.messages
            lines = messages[-1].content.split("\n")
            assert sum(line.startswith("c") and ": " in line for line in lines) == len(names) + 3
            call = ChatCall(messages=messages, schema_name="x", schema_json="{}")
            candidates = [*normalizer._candidates]
            reply = SimilarityBackend(kind, candidates, normalizer).complete(
                call, cancellation=CancelToken()
            )
            require_sound(judged(normalizer, reply.text), [f"s{n}" for n in range(len(names))])
            everybody = {"candidate_ids": normalizer.request.ids, "canonical_id": "c1"}
            text = json.dumps({"duplicate_groups": [everybody]})
            require_sound(judged(normalizer, text), [f"s{n}" for n in range(len(names))])

        return work

    assert grows(make, 16 * 1024) < 32


@HARD
@given(
    char=st.sampled_from(["é", "Ж", "ﷺ", "\U0001f409", "e\u0301", "\U0001f469\u200d\U0001f680"]),
    before=st.integers(0, 300),
)
def test_a_cut_leaves_whole_characters(char: str, before: int) -> None:
    """Wherever the bound of a line or a sample falls, prompt and warning are whole text."""
    names = ["a" * before + char * 200, "b" * before + char * 70]
    normalizer = normalizer_of("npc", names)
    text = '{"duplicate_groups": [{"candidate_ids": ["c1", "c2", "c3"], "canonical_id": "c1"}]}'
    (sample,) = judged(normalizer, text).fallback.samples
    lines = normalizer.request.prompt.messages[-1].content.split("\n")[1:3]
    assert len(lines) == 2
    for cut in (sample, *lines):
        assert "\N{REPLACEMENT CHARACTER}" not in cut
        assert cut.encode().decode() == cut
