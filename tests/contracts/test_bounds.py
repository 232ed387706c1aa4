import copy
import hashlib
import pickle
from collections.abc import Callable
from itertools import product
from typing import Any, TypeVar

import msgspec
import pytest

from notarius import contracts as c
from notarius.contracts import ContractError, Value

S = TypeVar("S", bound=Value)
Make = Callable[[type[Value], str], Value]
LINE = "An ordinary line."
LONG_NAME = "a_" + "b" * (c.CODE_MAX_BYTES - 2)
USER = c.Message(role=c.Role.USER, content="hi")
ISSUE = c.IssueDetails(category="some_category", group_index=0)
COUNT = c.IssueCount(category="some_category", count=1)
SURROGATE = "lone \ud800"


def _prose(limit: int) -> tuple[list[object], list[object]]:
    """Return texts that fit a limit of bytes exactly, and texts that break a rule of prose."""
    fits: list[object] = ["x" * limit, "é" * (limit // 2), "two\nlines"]
    # A limit of characters would let the second of these pass.
    breaks: list[object] = [
        "x" * (limit + 1), "é" * (limit // 2 + 1), "", " \n ", "a\tb", "a\rb", "a\0b",
        "a\x85b", "a\u2028b", "a\u202eb", "a\u2066b", SURROGATE, None, 3, b"bytes",
    ]  # fmt: skip
    return fits, breaks


CODES: tuple[list[object], list[object]] = (
    ["two_words", "a_1", LONG_NAME],
    ["word", "", "Two_words", "two-words", "_two", "two_", "two__words", "1_two", "zwei_wörter",
     "two_words\n", LONG_NAME + "b", None, 3],
)  # fmt: skip
COUNTS: tuple[list[object], list[object]] = (
    [0, 1, 10**12, c.COUNT_MAX],
    [-1, 1.5, "1", True, None, c.COUNT_MAX + 1],
)
FROM_ONE: tuple[list[object], list[object]] = ([1, 10**12], [0, *COUNTS[1]])
MAYBE: tuple[list[object], list[object]] = (
    [None, 0, 5, c.COUNT_MAX],
    [-1, 1.5, "1", True, c.COUNT_MAX + 1],
)
DIGESTS: tuple[list[object], list[object]] = (
    ["0" * 64, hashlib.sha256(b"x").hexdigest()],
    ["0" * 63, "0" * 65, "G" * 64, "A" * 64, "0" * 64 + "\n", "", None, 3],
)
SAMPLES: tuple[list[object], list[object]] = (
    [(), ("x",) * c.SAMPLES_MAX, ("é" * (c.SAMPLE_MAX_BYTES // 2),)],
    [["x"], ("x",) * (c.SAMPLES_MAX + 1), ("é" * (c.SAMPLE_MAX_BYTES // 2 + 1),), (" ",),
     ("a\tb",), (SURROGATE,), (3,), "x", None],
)  # fmt: skip
MESSAGES: tuple[list[object], list[object]] = (
    [(USER,), (USER, USER)],
    [[USER], (), (c.Message(role=c.Role.ASSISTANT, content="x"),), ("hi",), USER, None,
     (USER, c.Message(role=c.Role.SYSTEM, content="x"))],
)  # fmt: skip
RECORDS: tuple[list[object], list[object]] = ([()], [[], (None,), None, (COUNT,)])
ISSUE_COUNTS: tuple[list[object], list[object]] = (
    [(), (COUNT,) * c.ISSUES_MAX],
    [[COUNT], (COUNT,) * (c.ISSUES_MAX + 1), (ISSUE,), None],
)

# Each rule: a struct, one of its fields, values that are allowed, and values that are not.
RULES: list[tuple[type[Value], str, tuple[list[object], list[object]]]] = [
    (c.Message, "role", ([*c.Role], ["user", "nobody", None])),
    (c.Message, "content", (["", " ", "\0\t\r\n\u2028\u202e\U0001f409"], [SURROGATE, None, b"x"])),
    (c.Prompt, "messages", MESSAGES),
    (c.ProducerRequest, "messages", MESSAGES),
    (c.ProducerRequest, "number", FROM_ONE),
    (c.ProducerRequest, "timeout_s", ([None, 0.001, 5, 1e9], [0, -1.0, float("nan")])),
    (c.Usage, "input_tokens", MAYBE),
    (c.Usage, "output_tokens", MAYBE),
    (c.Reply, "text", (["", " ", SURROGATE], [None, 3, b"x"])),
    (c.Reply, "finish_reason", ([None, *c.FinishReason], ["length", "nonsense", 3])),
    (c.Reply, "usage", ([c.Usage()], [None, 3, (1, 2)])),
    (c.ModelCandidate, "text", ([], ["other", "", " \n", SURROGATE, None, b"x"])),
    (c.ModelCandidate, "sha256", ([], [*DIGESTS[0], *DIGESTS[1]])),
    (c.ModelCandidate, "protocol", ([c.SINGLE_RESPONSE_V1], ["single_response_v2", "", None])),
    (c.StructuralFailure, "defect", ([*c.StructuralDefect], ["empty_reply", "nonsense", None])),
    (c.StructuralFailure, "response_sha256", DIGESTS),
    (c.StructuralFailure, "response_bytes", COUNTS),
    (c.Produced, "result", ([c.ModelCandidate.of("x")], ["x", None, c.Reply(text="x")])),
    (c.Produced, "finish_reason", ([None, *c.FinishReason], ["length", 3])),
    (c.Produced, "usage", ([c.Usage()], [None, 3])),
    (c.Produced, "repairs", COUNTS),
    (c.Produced, "transport_retries", COUNTS),
    (c.IssueDetails, "category", CODES),
    (c.IssueDetails, "group_index", COUNTS),
    (c.IssueDetails, "request_ids", (
        [(), ("c1",) * c.ISSUE_IDS_MAX, ("A-z_9" + "x" * 27,)],
        [["c1"], ("c1",) * (c.ISSUE_IDS_MAX + 1), ("x" * 33,), ("",), ("c 1",), ("c1\n",), ("é",),
         (1,), "c1", None],
    )),
    (c.IssueCount, "category", CODES),
    (c.IssueCount, "count", FROM_ONE),
    (c.Fallback, "preserved", _prose(c.OPERATOR_MESSAGE_MAX_BYTES)),
    (c.Fallback, "refused_groups", COUNTS),
    (c.Fallback, "samples", SAMPLES),
    (c.NormalizeRetry, "reason_code", CODES),
    (c.NormalizeRetry, "operator_message", _prose(c.OPERATOR_MESSAGE_MAX_BYTES)),
    (c.NormalizeRetry, "fallback", ([], [None, {"value": 1}])),
    (c.NormalizeRetry, "issues", (
        [(), (ISSUE,) * c.ISSUES_MAX], [[ISSUE], (ISSUE,) * (c.ISSUES_MAX + 1), (COUNT,), None],
    )),
    (c.NormalizeRetry, "issue_counts", ISSUE_COUNTS),
    (c.NormalizeRetry, "guidance", _prose(c.GUIDANCE_MAX_BYTES)),
    (c.NormalizeRetry, "candidate", ([c.ModelCandidate.of("other")], [None, "text"])),
    (c.SemanticCorrection, "prompt", ([c.Prompt.of("x")], [None, (USER,)])),
    (c.SemanticCorrection, "guidance", _prose(c.GUIDANCE_MAX_BYTES)),
    (c.SemanticCorrection, "candidate", ([c.ModelCandidate.of("other")], [None, "text"])),
    (c.ProcessWarning, "code", CODES),
    (c.ProcessWarning, "message", _prose(c.WARNING_MESSAGE_MAX_BYTES)),
    (c.ProcessWarning, "refused_groups", COUNTS),
    (c.ProcessWarning, "samples", SAMPLES),
    (c.ProcessWarning, "kind", (["process"], ["quality", "", None])),
    (c.AttemptRecord, "number", FROM_ONE),
    (c.AttemptRecord, "request_messages", FROM_ONE),
    (c.AttemptRecord, "duration_ms", COUNTS),
    (c.AttemptRecord, "repairs", COUNTS),
    (c.AttemptRecord, "transport_retries", COUNTS),
    (c.AttemptRecord, "request_sha256", DIGESTS),
    # Digest and size come in pairs, so neither may vanish alone.
    (c.AttemptRecord, "response_sha256", DIGESTS),
    (c.AttemptRecord, "response_bytes", COUNTS),
    (c.AttemptRecord, "guidance_sha256", DIGESTS),
    (c.AttemptRecord, "guidance_bytes", COUNTS),
    (c.AttemptRecord, "reason_code", ([None, *CODES[0]], [v for v in CODES[1] if v is not None])),
    (c.AttemptRecord, "issue_counts", ISSUE_COUNTS),
    (c.Accepted, "records", RECORDS),
    (c.FellBack, "records", RECORDS),
    (c.FellBack, "warning", ([], [None, "warning"])),
    (c.FellBack, "applied_attempt", FROM_ONE),
    (c.Failed, "code", CODES),
    (c.Failed, "message", _prose(c.OPERATOR_MESSAGE_MAX_BYTES)),
    (c.Cancelled, "records", RECORDS),
]  # fmt: skip
BY_RULE = pytest.mark.parametrize(
    ("struct", "field", "values"), RULES, ids=[f"{rule[0].__name__}.{rule[1]}" for rule in RULES]
)


def _forced(value: S, field: str, content: object) -> S:
    """Return a value with a field changed behind its back."""
    twin = type(value)(**{name: getattr(value, name) for name in value.__struct_fields__})
    msgspec.structs.force_setattr(twin, field, content)
    return twin


def _plain(value: Value, field: str, content: object) -> dict[str, object]:
    """Return the value as plain data, with one field replaced."""
    data: dict[str, object] = msgspec.to_builtins(value)
    return data | {field: msgspec.to_builtins(content)}


# Every way in which a value can come into being, given a sound one and a change to it.
WAYS: dict[str, Callable[[Any, str, object], object]] = {
    "construct": lambda value, field, content: type(value)(
        **{name: getattr(value, name) for name in value.__struct_fields__} | {field: content}
    ),
    "replace": lambda value, field, content: msgspec.structs.replace(value, **{field: content}),
    "copy": lambda value, field, content: copy.copy(_forced(value, field, content)),
    "deepcopy": lambda value, field, content: copy.deepcopy(_forced(value, field, content)),
    "pickle": lambda value, field, content: pickle.loads(  # noqa: S301 - our own bytes
        pickle.dumps(_forced(value, field, content))
    ),
    "json": lambda value, field, content: msgspec.json.decode(
        msgspec.json.encode(_plain(value, field, content)), type=type(value)
    ),
    "msgpack": lambda value, field, content: msgspec.msgpack.decode(
        msgspec.msgpack.encode(_plain(value, field, content)), type=type(value)
    ),
    "convert": lambda value, field, content: msgspec.convert(
        _plain(value, field, content), type(value)
    ),
}


def _sayable(way: str, content: object) -> bool:
    """Tell whether a content can be put on that way's wire without becoming something else."""
    if way not in {"json", "msgpack", "convert"}:
        return True
    match content:
        case list() | bytes():  # arrays are tuples there, and bytes are text in base64
            return False
        case float():  # NaN is null
            return content == content or way == "msgpack"  # noqa: PLR0124 - false for NaN alone
        case str() | tuple() if SURROGATE in content:  # no UTF-8
            return way == "convert"
        case str():  # an enum's member is its value there
            return content not in {"user", "length", "empty_reply"}
        case _:
            return True


@BY_RULE
def test_a_value_within_its_bounds_comes_into_being(
    struct: type[Value], field: str, values: tuple[list[object], list[object]], make: Make
) -> None:
    """What a contract allows, up to the last byte, is allowed on every way in."""
    for (way, build), content in product(WAYS.items(), values[0]):
        if _sayable(way, content):
            assert getattr(build(make(struct, LINE), field, content), field) == content, way


@BY_RULE
def test_no_value_out_of_bounds_comes_into_being(
    struct: type[Value], field: str, values: tuple[list[object], list[object]], make: Make
) -> None:
    """What a contract forbids can't be constructed, decoded, replaced, copied or unpickled."""
    for (way, build), content in product(WAYS.items(), values[1]):
        if _sayable(way, content):
            with pytest.raises((ContractError, msgspec.ValidationError)):
                pytest.fail(f"{way} let {build(make(struct, LINE), field, content)!r} in")


@BY_RULE
def test_a_forced_change_is_found(
    struct: type[Value], field: str, values: tuple[list[object], list[object]], make: Make
) -> None:
    """`validate` finds what was changed behind a value's back."""
    for content in values[1]:
        with pytest.raises(ContractError):
            _forced(make(struct, LINE), field, content).validate()


def test_a_forced_change_deep_inside_is_found(make: Make) -> None:
    """`validate` and a deep copy look into nested values too."""
    retry = make(c.NormalizeRetry, LINE)
    assert isinstance(retry, c.NormalizeRetry)
    assert retry.candidate is not None
    forged = _forced(retry.candidate, "text", "another reply")
    for bad in (_forced(retry, "candidate", forged), _forced(retry, "issues", (forged,))):
        for look in (copy.deepcopy, c.NormalizeRetry.clone, c.NormalizeRetry.validate):
            with pytest.raises(ContractError):
                look(bad)


def test_a_reply_is_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A candidate has at most `RESPONSE_MAX_BYTES` bytes, however few characters that is."""
    monkeypatch.setattr("notarius.contracts._reply.RESPONSE_MAX_BYTES", 10)
    assert c.ModelCandidate.of("é" * 5).size == 10
    with pytest.raises(ContractError):
        c.ModelCandidate.of("é" * 6)


def test_a_prompt_is_bounded_over_all_its_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """All messages of a prompt together have at most `PROMPT_MAX_BYTES` bytes."""
    monkeypatch.setattr("notarius.contracts._messages.PROMPT_MAX_BYTES", 10)
    assert c.Prompt.of("é" * 3, system="abcd").messages
    with pytest.raises(ContractError):
        c.Prompt.of("é" * 3, system="abcde")


@pytest.mark.parametrize(
    "payload", [rb'{"role":"user","content":"\ud800"}', b"\xef\xbb\xbf{}", b"{"]
)
def test_broken_json_is_refused(payload: bytes) -> None:
    """A lone surrogate, a byte-order mark or half an object is never decoded into a value."""
    with pytest.raises(msgspec.DecodeError):
        msgspec.json.decode(payload, type=c.Message)
