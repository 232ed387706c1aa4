import json
from typing import Any

import msgspec
import pytest
from syrupy.assertion import SnapshotAssertion

from notarius.contracts import (
    FinishReason,
    ModelCandidate,
    Reply,
    StructuralDefect,
    StructuralFailure,
    judge_reply,
)
from notarius.semanticreconcile import (
    RESPONSE_SCHEMA,
    Listed,
    Proposal,
    Prose,
    ReconciliationContract,
    ReconciliationRequest,
    Split,
    Subject,
    parse_proposal,
)

UNPORTABLE = {"uniqueItems", "minItems", "maxItems", "minLength", "maxLength", "pattern", "enum",
              "const", "additionalProperties", "anyOf", "oneOf", "$ref", "format"}  # fmt: skip
EMPTY_ANSWER = '{"duplicate_groups": []}'


def is_prose(key: str, value: object) -> bool:
    """Whether this is a description; a property of that name is none."""
    return key == "description" and isinstance(value, str)


def without_prose(schema: object) -> object:
    """Return a JSON schema without its descriptions, which are docstrings."""
    if isinstance(schema, dict):
        kept = {k: without_prose(v) for k, v in schema.items() if not is_prose(k, v)}
        # Versions of msgspec differ in the order of alternatives, which means nothing.
        if isinstance(options := kept.get("anyOf"), list):
            kept["anyOf"] = sorted(options, key=repr)
        return kept
    return [without_prose(item) for item in schema] if isinstance(schema, list) else schema


def keywords(schema: dict[str, Any]) -> set[str]:
    """Return the keywords of a JSON schema, property names left out."""
    found = set(schema)
    for part in (*schema.get("properties", {}).values(), schema.get("items")):
        found |= keywords(part) if part else set()
    return found


def test_the_response_schema_stays_as_it_is(snapshot: SnapshotAssertion) -> None:
    """The schema that providers get is a wire shape: a change is a new protocol version."""
    assert ReconciliationContract().schema_json == snapshot
    assert ReconciliationContract().name == "duplicate_groups"


def test_the_response_schema_is_portable() -> None:
    """The schema has only keywords that every provider takes; the checks are ours."""
    assert keywords(json.loads(ReconciliationContract().schema_json)).isdisjoint(UNPORTABLE)


def test_a_group_is_named_before_it_lists_ids() -> None:
    """Providers that generate in schema order make the model name a group first."""
    schema = json.loads(ReconciliationContract().schema_json)
    group = schema["properties"]["duplicate_groups"]["items"]
    assert list(group["properties"]) == ["name", "candidate_ids", "canonical_id"]
    assert schema == RESPONSE_SCHEMA


@pytest.mark.parametrize("struct", [Listed, Proposal, Prose, ReconciliationRequest, Split, Subject])
def test_public_structs_keep_their_shape(
    struct: type[msgspec.Struct], snapshot: SnapshotAssertion
) -> None:
    """A changed field of a public struct is a change of the package's interface."""
    assert without_prose(msgspec.json.schema(struct)) == snapshot


@pytest.mark.parametrize(
    ("reply", "defect"),
    [
        (Reply(text=""), StructuralDefect.EMPTY),
        (Reply(text=" \n\t"), StructuralDefect.EMPTY),
        (Reply(text=EMPTY_ANSWER, finish_reason=FinishReason.LENGTH), StructuralDefect.CUT_OFF),
        (Reply(text=EMPTY_ANSWER, finish_reason=FinishReason.REFUSAL), StructuralDefect.REFUSED),
        (Reply(text="\ud800"), StructuralDefect.NOT_TEXT),
        (Reply(text='{"duplicate_groups": [{"name": "cut'), StructuralDefect.NOT_JSON),
        (Reply(text=EMPTY_ANSWER + " " * 100), StructuralDefect.OVERSIZED),
    ],
)
def test_what_is_no_answer_is_never_taken_for_no_duplicates(
    reply: Reply, defect: StructuralDefect
) -> None:
    """An empty, cut off, refused or oversized reply is a structural failure."""
    judged = judge_reply(reply, ReconciliationContract(max_bytes=100))
    assert isinstance(judged, StructuralFailure)
    assert judged.defect is defect


def test_an_answer_at_the_bound_is_read() -> None:
    """The byte limit of a contract is inclusive, and counts bytes rather than characters."""
    text = '{"duplicate_groups": [], "note": "é"}'
    size = len(text.encode())
    assert isinstance(
        judge_reply(Reply(text=text), ReconciliationContract(max_bytes=size)), ModelCandidate
    )
    assert isinstance(
        judge_reply(Reply(text=text), ReconciliationContract(max_bytes=size - 1)),
        StructuralFailure,
    )


def test_the_contract_judges_as_decoding_does() -> None:
    """What the contract calls a candidate is what decoding turns into a proposal."""
    contract = ReconciliationContract()
    for text in (EMPTY_ANSWER, "[]", "{}", "", EMPTY_ANSWER * 2, contract.schema_json):
        assert (contract.defect(text) is None) == isinstance(parse_proposal(text), Proposal)
