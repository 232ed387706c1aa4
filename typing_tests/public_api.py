"""What the public interfaces promise to a type checker. There is nothing wrong in this file."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, assert_never, assert_type

from notarius.contracts import (
    Fallback,
    ModelCandidate,
    Normalized,
    Normalizer,
    NormalizeRetry,
    Produced,
    Prompt,
    ResponseContract,
    StructuralDefect,
)
from notarius.registries import (
    Candidate,
    Coinage,
    Entry,
    ItemEntry,
    ItemKind,
    ItemNormalizer,
    ItemRules,
    LocationEntry,
    LocationNormalizer,
    MarkAxis,
    MarkKind,
    MarkRules,
    NpcCandidate,
    NpcEntry,
    NpcNormalizer,
    Registry,
    RegistryNormalizer,
    RegistryRules,
    registry_fingerprint,
)
from notarius.semanticreconcile import (
    ALL_CATEGORIES,
    GroupCheck,
    IssueCategory,
    Proposal,
    ReconciliationContract,
    Split,
    Subject,
    TypedRefusal,
    parse_proposal,
    render_guidance,
    split_proposal,
)


def each_normalizer_is_of_its_own_entries(
    npcs: NpcNormalizer, items: ItemNormalizer, places: LocationNormalizer, produced: Produced
) -> None:
    assert_type(
        npcs.normalize(produced),
        Normalized[Registry[NpcEntry]] | NormalizeRetry[Registry[NpcEntry]],
    )
    assert_type(
        items.normalize(produced),
        Normalized[Registry[ItemEntry]] | NormalizeRetry[Registry[ItemEntry]],
    )
    assert_type(
        places.normalize(produced),
        Normalized[Registry[LocationEntry]] | NormalizeRetry[Registry[LocationEntry]],
    )
    assert_type(npcs.separate(), Registry[NpcEntry])
    assert_type(items.separate().entries, tuple[ItemEntry, ...])
    assert_type(items.separate().entries[0].item_kind, ItemKind)
    assert_type(items.separate().entries[0].denomination, str | None)
    assert_type(places.fingerprint, str)
    assert_type(places.request.prompt, Prompt)


def both_answers_are_told_apart(npcs: NpcNormalizer, produced: Produced) -> Registry[NpcEntry]:
    answer = npcs.normalize(produced)
    match answer:
        case Normalized(value=value):
            assert_type(value, Registry[NpcEntry])
            return value
        case NormalizeRetry():
            assert_type(answer.fallback, Fallback[Registry[NpcEntry]])
            assert_type(answer.guidance, str | None)
            assert_type(answer.candidate, ModelCandidate | None)
            assert_type(answer.clone(), NormalizeRetry[Registry[NpcEntry]])
            return answer.fallback.value
        case _:
            assert_never(answer)


def the_protocols_are_met(npcs: NpcNormalizer, items: ItemNormalizer) -> None:
    _people: Normalizer[Registry[NpcEntry]] = npcs
    _things: Normalizer[Registry[ItemEntry]] = items
    _contract: ResponseContract = ReconciliationContract()
    _base: RegistryNormalizer[NpcCandidate, NpcEntry] = npcs


def a_reply_is_a_proposal_or_a_defect(text: str, ids: Sequence[str], check: GroupCheck) -> str:
    parsed = parse_proposal(text)
    assert_type(parsed, Proposal | StructuralDefect)
    if isinstance(parsed, StructuralDefect):
        return parsed.value
    split = split_proposal(parsed, ids, check)
    assert_type(split, Split)
    return render_guidance(split.refused, domain_rule=None)


def a_check_may_be_any_callable(parsed: Proposal) -> None:
    def check(ids: tuple[str, ...]) -> TypedRefusal | None:
        return None

    split_proposal(parsed, ["c1", "c2"], check)
    assert_type(ALL_CATEGORIES, tuple[IssueCategory, ...])


class ShipCandidate(Candidate, frozen=True, kw_only=True, forbid_unknown_fields=True):
    kind: Literal["ship"] = "ship"


class ShipEntry(Entry, frozen=True, kw_only=True):
    times: int


class ShipRules(RegistryRules[ShipCandidate, ShipEntry]):
    kind = "ship"
    schema = "harbour.ship.v1"
    subject = Subject(one="ship", many="ships", example=("the Gull", "Marlin", "Gull of Sarn"))
    mark_rules = MarkRules(
        axes=(MarkAxis(name="rig", kind=MarkKind.OPPOSITE, values=("square", "lateen")),)
    )
    candidate_type = ShipCandidate
    entry_type = ShipEntry

    def details(
        self, canonical: ShipCandidate, members: Sequence[ShipCandidate]
    ) -> Mapping[str, Any]:
        return {"times": len(members)}


def a_registry_of_ones_own_is_of_its_own_entries(ships: Sequence[ShipCandidate]) -> None:
    ours = RegistryNormalizer(ShipRules(), ships)
    _normalizer: Normalizer[Registry[ShipEntry]] = ours
    assert_type(ours.separate(), Registry[ShipEntry])
    assert_type(ShipRules().entry(ships[0], ships), ShipEntry)


def rules_have_an_identity(rules: RegistryRules[Any, Any], coins: Sequence[Coinage]) -> None:
    assert_type(registry_fingerprint(rules), str)
    assert_type(registry_fingerprint(ItemRules(coinages=coins)), str)
    ItemNormalizer([], coinages=coins)
