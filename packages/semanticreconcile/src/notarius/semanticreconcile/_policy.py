"""The reconciliation policy as data, for fingerprints."""

from collections.abc import Mapping
from typing import Final

from notarius.contracts import CORRECTION_MODE, GUIDANCE_MAX_BYTES
from notarius.semanticreconcile._categories import ALL_CATEGORIES
from notarius.semanticreconcile._decode import Proposal, ProposedGroup, reply_defect
from notarius.semanticreconcile._prose import CATEGORY_PROSE
from notarius.semanticreconcile._protocol import (
    PROTOCOL,
    REPLY_MAX_BYTES,
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
    effect on fixed probes: the prompt for a fixed list, the verdict and guidance for a fixed
    proposal with every defect and a clean group, and the guidance for one with too many defects
    to tell. A change of any of these changes the fingerprint.
    """
    probe = split_proposal(_PROBE_PROPOSAL, _PROBE_IDS, _PROBE_REFUSALS.get)
    lone = split_proposal(_LONE_PROPOSAL, _PROBE_IDS, _PROBE_REFUSALS.get)
    long = split_proposal(_LONG_PROPOSAL, _LONG_IDS, _refuse)
    return {
        "protocol": PROTOCOL,
        "correction": CORRECTION_MODE,
        "guidance_max_bytes": GUIDANCE_MAX_BYTES,
        "reply_max_bytes": REPLY_MAX_BYTES,
        "subject": subject,
        "schema": RESPONSE_SCHEMA,
        "categories": [category.value for category in ALL_CATEGORIES],
        "prose": {key.value: words for key, words in CATEGORY_PROSE.items()},
        "probe_prompt": build_request(subject, _PROBE_LIST).prompt,
        "probe_split": probe,
        "probe_guidance": render_guidance(probe.refused, kept=probe.safe, domain_rule=_PROBE_RULE),
        "probe_guidance_cut": render_guidance(long.refused),
        "probe_guidance_empty": render_guidance(lone.refused),
        "probe_replies": [reply_defect(reply) for reply in _PROBE_REPLIES],
    }


_TOO_LONG: Final = 300
_PROBE_LIST: Final = (
    Listed(
        name="Ada\nForged", aliases=("A\u2028da", "", "x" * _TOO_LONG), description="d" * _TOO_LONG
    ),
    Listed(name="n" * _TOO_LONG, aliases=tuple(f"alias {number}" for number in range(12))),
    Listed(name="Bo", description="a \u202e smith"),
)


_PROBE_REPLIES: Final = (
    '{"duplicate_groups": []}',
    '{"duplicate_groups": [{"candidate_ids": ["c1"], "canonical_id": "c1", "why": {"a": 1}}]}',
    '{"duplicate_groups": [{"candidate_ids": ["c1"], "canonical_id": "c1", "canonical_id": "c2"}]}',
    '{"duplicate_groups": [{"candidate_ids": [1], "canonical_id": "c1"}]}',
    '{"duplicate_groups": []} {}',
    '```json\n{"duplicate_groups": []}\n```',
    "[]",
)


def _group(canonical_id: str, *ids: str) -> ProposedGroup:
    return ProposedGroup(candidate_ids=ids, canonical_id=canonical_id)


_PROBE_IDS: Final = request_ids(42)
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
        _group("c10", *_PROBE_IDS[9:40]),
        _group("c10", "c10", "c11"),
        _group("c41", "c41", "c42"),
    )
)
_LONE_PROPOSAL: Final = Proposal(groups=(_group("c1", "c1"),))
# Parts of every sort, more of them than are told, with more ids than are told; and no part that
# may stay.
_PROBE_REFUSALS: Final = {
    refused: TypedRefusal(reason="probe", parts=parts, domain_rule=True)
    for refused, parts in {
        ("c7", "c8", "c9"): (Part(label="kind", ids=("c7", "c8")), Part(label="", ids=("c9",))),
        _PROBE_IDS[9:40]: (
            Part(label="many", ids=_PROBE_IDS[9:23]),
            Part(label="pair", ids=_PROBE_IDS[23:25]),
            Part(label="perhaps", ids=_PROBE_IDS[25:27], same=False),
            *(Part(label="", ids=(request_id,)) for request_id in _PROBE_IDS[27:40]),
        ),
        ("c10", "c11"): (Part(label="", ids=("c10",)), Part(label="", ids=("c11",))),
    }.items()
}
# More clashes, and more groups that may stay, than there is room for.
_LONG_IDS: Final = request_ids(800)
_LONG_PROPOSAL: Final = Proposal(
    groups=tuple(
        _group(_LONG_IDS[at], *_LONG_IDS[at : at + 2]) for at in range(0, len(_LONG_IDS), 2)
    )
)


def _refuse(ids: tuple[str, ...]) -> TypedRefusal:
    return TypedRefusal(reason="probe", parts=(Part(label="", ids=ids, same=False),))
