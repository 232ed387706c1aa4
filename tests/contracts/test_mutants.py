"""Rules that a changed line of code once broke without any other test noticing."""

import enum
import hashlib
import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from notarius import contracts as c
from notarius.contracts import ContractError, Value

Make = Callable[[type[Value], str], Value]
STRUCTS = [
    value for value in vars(c).values() if isinstance(value, type) and issubclass(value, Value)
]
ISSUE = c.IssueDetails(category="some_category", group_index=0)
WRONG: tuple[object, ...] = (
    object(), None, -1, "", "x", "a\tb", "half \ud800", "x" * (1 << 13), (), (object(),),
    ("x" * 300,), ("x",) * 100, (ISSUE,) * 100,
    (c.IssueCount(category="some_category", count=1),) * 100,
    (c.Message(role=c.Role.ASSISTANT, content="x"),), float("nan"),
)  # fmt: skip


class Kind(enum.StrEnum):
    """Categories of somebody's own."""

    ODD = "odd_one"


def refusals(value: Value, field: str) -> list[str]:
    """What is said of contents that a field can't have."""
    said = []
    for content in WRONG:
        try:
            msgspec.structs.replace(value, **{field: content})
        except ContractError as error:
            said.append(str(error))
        except TypeError:
            continue  # a time that is no number at all can't be compared
    return said


@pytest.mark.parametrize("struct", STRUCTS)
def test_a_refusal_says_what_is_wrong_with_what(struct: type[Value], make: Make) -> None:
    """Whoever passed a bad value reads a sentence about that field, not an empty error."""
    value = make(struct, "An ordinary line.")
    first: dict[str, str] = {}
    for field in struct.__struct_fields__:
        for said in refusals(value, field):
            assert len(said.split()) > 3
            # The one place where `None` is meant.
            assert not re.search(r"\bNone\b(?! for what is unknown)", said)
            first.setdefault(field, said)
    assert len(set(first.values())) == len(first)


def test_a_candidate_that_can_not_be_is_refused_by_name() -> None:
    """So it is where the digest is still to be computed."""
    with pytest.raises(ContractError, match="model candidate"):
        c.ModelCandidate.of("\ud800")


def test_what_is_too_long_is_told_with_its_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has to shorten something reads by how much."""
    monkeypatch.setattr("notarius.contracts._messages.PROMPT_MAX_BYTES", 3)
    monkeypatch.setattr("notarius.contracts._reply.RESPONSE_MAX_BYTES", 3)
    for make_long in (c.Prompt.of, c.ModelCandidate.of):
        with pytest.raises(ContractError, match=r"\b3\b.*\b5\b|\b5\b.*\b3\b"):
            make_long("12345")


def test_the_limits_are_what_was_promised() -> None:
    """Other programs rely on them: a change of one is a change of the interface."""
    assert {name: value for name, value in vars(c).items() if "MAX" in name} == {
        "CODE_MAX_BYTES": 64,
        "COUNT_MAX": 2**53 - 1,
        "GUIDANCE_MAX_BYTES": 4096,
        "ISSUES_MAX": 64,
        "ISSUE_IDS_MAX": 16,
        "OPERATOR_MESSAGE_MAX_BYTES": 1024,
        "PROMPT_MAX_BYTES": 268435456,
        "RESPONSE_MAX_BYTES": 67108864,
        "SAMPLES_MAX": 5,
        "SAMPLE_MAX_BYTES": 240,
        "WARNING_MESSAGE_MAX_BYTES": 2049,
    }


def test_the_kinds_of_a_providers_failure_are_what_was_promised() -> None:
    """They stand in logs that other programs read."""
    assert [kind.value for kind in c.ProviderErrorKind] == [
        "unreachable", "timed_out", "rate_limited", "denied", "not_found", "bad_request",
        "server_error", "bad_envelope",
    ]  # fmt: skip


def test_a_policy_keeps_its_identity() -> None:
    """Results that were stored under a fingerprint are found again."""
    assert c.policy_fingerprint("probe", {"b": 1, "a": ["ä", None]}) == (
        "sha256:" + hashlib.sha256(
            '{"content":{"a":["ä",null],"b":1},"policy":"probe"}'.encode()
        ).hexdigest()
    )  # fmt: skip


def test_a_producer_that_says_nothing_spent_nothing() -> None:
    """An error without counts counts as none."""
    error = c.NoReplyError()
    assert (error.repairs, error.transport_retries) == (0, 0)
    assert type(error.repairs) is type(error.transport_retries) is int


@pytest.mark.parametrize("status", [None, True, 0, "500"])
def test_only_a_number_is_a_status(status: Any) -> None:  # noqa: ANN401 - also what is not allowed
    """A status is added to the words, and anything else is not."""
    kind = c.ProviderErrorKind.SERVER_ERROR
    assert c.provider_message(kind, 500) == c.provider_message(kind, status) + " (status 500)"


def test_a_repeated_key_is_explained() -> None:
    """The message says what is wrong, without the key."""
    with pytest.raises(ContractError, match="same key"):
        c.require_unique_keys('{"a": 1, "a": 2}')


def test_no_attempts_cost_nothing() -> None:
    """Both counts of tokens begin at 0, and add up."""
    assert c.total_usage(()) == c.Usage(input_tokens=0, output_tokens=0)


def test_counts_that_no_reader_would_have_exactly_are_unknown() -> None:
    """A sum is told up to the bound of all counts, and not beyond it."""
    most = c.Usage(input_tokens=c.COUNT_MAX, output_tokens=0)
    assert most + c.Usage(input_tokens=0, output_tokens=1) == c.Usage(
        input_tokens=c.COUNT_MAX, output_tokens=1
    )
    assert most + c.Usage(input_tokens=1, output_tokens=1) == c.Usage(output_tokens=1)
    assert c.COUNT_MAX == 2**53 - 1


def test_a_record_has_issues_within_the_bound(make: Make) -> None:
    """A record takes issues, at most as many as a directive has, and nothing else."""
    record = make(c.AttemptRecord, "x")
    full = msgspec.structs.replace(record, issues=(ISSUE,) * c.ISSUES_MAX)
    assert isinstance(full, c.AttemptRecord)
    for wrong in ((ISSUE,) * (c.ISSUES_MAX + 1), ("x",), [ISSUE]):
        with pytest.raises(ContractError, match="issues"):
            msgspec.structs.replace(record, issues=wrong)


@pytest.mark.parametrize("what", ["response", "guidance"])
def test_a_digest_without_a_size_is_told_by_its_name(what: str, make: Make) -> None:
    """Of the two pairs in a record it is said which one is not whole."""
    with pytest.raises(ContractError, match=rf"\b{what}\b"):
        msgspec.structs.replace(make(c.AttemptRecord, "x"), **{f"{what}_bytes": None})


def test_a_value_is_shown_as_it_is_written() -> None:
    """Fields that are not private stand in `repr` as in the call that makes the value."""
    assert repr(c.Usage(input_tokens=1)) == "Usage(input_tokens=1, output_tokens=None)"


def test_a_private_text_is_shown_by_bytes_and_twelve_digits() -> None:
    """Also one that is not valid Unicode, which a reply may be."""
    digest = hashlib.sha256("a\ud800".encode("utf-8", "surrogatepass")).hexdigest()
    assert f"text=<4 bytes, sha256 {digest[:12]}…>" in repr(c.Reply(text="a\ud800"))
    assert c.Reply(text="a\ud800").debug_view()["text"] == {"bytes": 4, "sha256": digest}


class Holder(Value, frozen=True, kw_only=True):
    """A value of somebody's own, with a field of any type."""

    content: object


def test_a_debug_view_goes_into_what_is_nested() -> None:
    """Values and tuples are plain data too; what is neither is known by its type."""
    count = c.IssueCount(category="some_category", count=1)
    plain = {"category": "some_category", "count": 1}
    for content, view in (
        (count, plain),
        ((count, 2), [plain, 2]),
        ([count], [plain]),
        (Kind.ODD, "odd_one"),
        (object(), {"type": "object"}),
    ):
        assert Holder(content=content).debug_view() == {"content": view}


def test_operator_text_in_guidance_is_told(make: Make) -> None:
    """Whoever writes guidance reads why it was refused."""
    retry = make(c.NormalizeRetry, "Mend group 1.")
    with pytest.raises(ContractError, match="operator text"):
        msgspec.structs.replace(retry, guidance="There is some_code in it.")


class Shape:
    """A response contract that remembers what it was asked about."""

    name = "shape"
    schema_json = "{}"
    max_bytes = 100

    def __init__(self) -> None:
        self.asked: list[str] = []

    def defect(self, text: str) -> c.StructuralDefect | None:
        """Find nothing wrong."""
        self.asked.append(text)
        return None


def test_the_shape_is_looked_for_in_the_exact_text() -> None:
    """The response contract is asked about the reply as it came."""
    shape = Shape()
    c.judge_reply(c.Reply(text=" {}\r\n"), shape)
    assert shape.asked == [" {}\r\n"]


def test_a_forced_change_inside_a_tuple_is_found(make: Make) -> None:
    """`validate` looks at each member, though the members have the right type."""
    issue = c.IssueDetails(category="some_category", group_index=0)
    retry = msgspec.structs.replace(make(c.NormalizeRetry, "Mend group 1."), issues=(ISSUE, issue))
    msgspec.structs.force_setattr(issue, "group_index", -1)
    with pytest.raises(ContractError, match="group index"):
        retry.validate()


def test_an_unknown_name_is_named() -> None:
    """A slip in an import shows itself."""
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = c.no_such_name


def test_tokens_are_told_apart_in_a_refusal() -> None:
    """It is said which of the two counts is wrong."""
    for name in ("input", "output"):
        with pytest.raises(ContractError, match=rf"\b{name}\b"):
            c.Usage(**{f"{name}_tokens": -1})


@pytest.mark.parametrize(
    ("text", "broken"),
    [("\ud800", True), ("a\udfffb", True), ("", False), ("\ud7ff\ue000\U0010ffff", False)],
)
def test_half_a_pair_is_found(text: str, broken: bool) -> None:
    """Each of the two kinds of halves is none of Unicode; their neighbours are."""
    assert c.has_lone_surrogate(text) is broken


def test_half_a_pair_is_replaced_on_one_line() -> None:
    """Text that could not be written is made writable, and its other characters stay."""
    assert c.one_line("a\ud800b \n c") == "a?b c"


def test_what_fits_exactly_is_not_cut() -> None:
    """The bound is inclusive."""
    assert c.cut("é" * 5, 10) == "é" * 5
    assert c.cut("é" * 5 + "x", 10) == "ééé…"


def test_a_category_may_be_a_member_of_an_enum() -> None:
    """A code is a text or a member of a `StrEnum`, which is one."""
    assert c.IssueDetails(category=Kind.ODD, group_index=0).category == "odd_one"
