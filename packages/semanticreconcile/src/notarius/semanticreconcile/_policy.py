"""The reconciliation policy as data, for fingerprints."""

from collections.abc import Mapping
from typing import Final

from notarius.contracts import CORRECTION_MODE, GUIDANCE_MAX_BYTES
from notarius.semanticreconcile._categories import ALL_CATEGORIES
from notarius.semanticreconcile._decode import Proposal, ProposedGroup
from notarius.semanticreconcile._prose import CATEGORY_PROSE
from notarius.semanticreconcile._protocol import (
    PROTOCOL,
    RESPONSE_SCHEMA,
    Listed,
    Subject,
    build_request,
    request_ids,
)
from notarius.semanticreconcile._render import render_guidance
from notarius.semanticreconcile._split import Part, TypedRefusal, split_proposal

_PROBE_RULE: Final = "Probe of the domain rule."


def policy_content(subject: Subject) -> Mapping[str, object]:
    """Return everything that decides what a model is told and which groups are refused.

    Texts, tables and limits stand in it as they are. What only code decides stands in it by its
    effect on fixed probes: the prompt for a fixed list, and the verdict and guidance for a fixed
    proposal with every defect. A change of either changes the fingerprint.
    """
    probe = split_proposal(_PROBE_PROPOSAL, request_ids(9), _probe_check)
    return {
        "protocol": PROTOCOL,
        "correction": CORRECTION_MODE,
        "guidance_max_bytes": GUIDANCE_MAX_BYTES,
        "subject": subject,
        "schema": RESPONSE_SCHEMA,
        "categories": [category.value for category in ALL_CATEGORIES],
        "prose": {key.value: words for key, words in CATEGORY_PROSE.items()},
        "probe_prompt": build_request(subject, _PROBE_LIST).prompt,
        "probe_split": probe,
        "probe_guidance": render_guidance(probe.refused, domain_rule=_PROBE_RULE),
    }


_PROBE_LIST: Final = (
    Listed(name="Ada\nForged", aliases=("A\u2028da", "", "x" * 300), description="d" * 300),
    Listed(name="n" * 300, aliases=tuple(f"alias {number}" for number in range(12))),
    Listed(name="Bo", description="a \u202e smith"),
)


def _group(canonical_id: str, *ids: str) -> ProposedGroup:
    return ProposedGroup(candidate_ids=ids, canonical_id=canonical_id)


_PROBE_PROPOSAL: Final = Proposal(
    groups=(
        _group("c1", "c1", "c99"),
        _group("c2", "c2", "c2"),
        _group("c3", "c3"),
        _group("c9", "c4", "c5"),
        _group("c5", "c5", "c6"),
        _group("c7", "c7", "c8", "c9"),
        _group("c7", "c9", "c8", "c7"),
        _group("1", "1", "C1"),
    )
)


def _probe_check(ids: tuple[str, ...]) -> TypedRefusal | None:
    if "c7" not in ids:
        return None
    return TypedRefusal(
        reason="probe",
        parts=(Part(label="kind", ids=ids[:2]), Part(label="", ids=ids[2:])),
        domain_rule=True,
    )
