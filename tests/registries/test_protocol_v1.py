"""Protocol version 1 is frozen: what a model is asked and told, and what is refused.

A change here is a change for every result that was measured and remembered with it. If one is
meant, measure it first (docs/small-models.md), and then write the new values down.
"""

import pytest
from syrupy.assertion import SnapshotAssertion

from notarius.contracts import (
    CORRECTION_MODE,
    GUIDANCE_MAX_BYTES,
    ModelCandidate,
    NormalizeRetry,
    Produced,
)
from notarius.registries import (
    ItemRules,
    LocationRules,
    NpcRules,
    RegistryNormalizer,
    registry_fingerprint,
)
from notarius.semanticreconcile import ALL_CATEGORIES, PROTOCOL, RESPONSE_SCHEMA

FROZEN = {
    NpcRules: "sha256:63965cb069046a2926d05ac9dd040f371598dac603a6b7605ea07994a509cb40",
    ItemRules: "sha256:9e3dda640d0b2eea4880c8d887172cf6d0cc3bbc0d9b85aee200adc7d7429aba",
    LocationRules: "sha256:b2c772f4ef360e245dded09fb567de6d4305464416b7e678e940cb6412da3cf2",
}


@pytest.mark.parametrize("rules", FROZEN)
def test_the_policy_is_the_one_that_was_measured(
    rules: type[NpcRules | ItemRules | LocationRules],
) -> None:
    """The fingerprint, which holds every text and rule, is that of version 1."""
    assert registry_fingerprint(rules()) == FROZEN[rules]


def test_the_exchange_keeps_its_structure(snapshot: SnapshotAssertion) -> None:
    """Roles, schema, categories and the form of a correction; no sentence stands in it."""
    rules = ItemRules()
    names = ["gold", "5 gp", "silver", "rope", "Rope"]
    candidates = [
        rules.candidate_type(source_id=str(number), name=name) for number, name in enumerate(names)
    ]
    normalizer = RegistryNormalizer(rules, candidates)
    answer = (
        '{"duplicate_groups": [{"candidate_ids": ["c1", "c2", "c3"], "canonical_id": "c1"}, '
        '{"candidate_ids": ["c4", "c5"], "canonical_id": "c4"}]}'
    )
    verdict = normalizer.normalize(Produced(result=ModelCandidate.of(answer)))
    assert isinstance(verdict, NormalizeRetry)
    assert verdict.guidance is not None
    prompt = normalizer.request.prompt.messages
    assert {
        "protocol": PROTOCOL,
        "correction": CORRECTION_MODE,
        "guidance_max_bytes": GUIDANCE_MAX_BYTES,
        "schema": RESPONSE_SCHEMA,
        "categories": [category.value for category in ALL_CATEGORIES],
        "roles": [message.role.value for message in prompt],
        "list": prompt[-1].content.split("\n")[1 : len(names) + 1],
        "may_stay": verdict.guidance.split("\n")[-2:],
    } == snapshot
