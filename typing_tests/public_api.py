"""What the public interfaces promise to a type checker. There is nothing wrong in this file."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, assert_never, assert_type

from notarius.attempts import AttemptMachine, arun, run
from notarius.contracts import (
    Accepted,
    AsyncProducer,
    AttemptRecord,
    Cancellation,
    Cancelled,
    Failed,
    Fallback,
    FellBack,
    IssueDetails,
    ModelCandidate,
    Normalized,
    Normalizer,
    NormalizeRetry,
    Outcome,
    Produced,
    Producer,
    Prompt,
    Reply,
    ResponseContract,
    StructuralDefect,
)
from notarius.llmruntime import AsyncStructuredProducer, ChatCall, StructuredProducer
from notarius.pipeline import RunSettings, Settings, Summary, reconcile, run_campaign
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


async def both_drivers_end_in_the_same_four_ways(
    machine: AttemptMachine[Registry[NpcEntry]],
    blocking: Producer,
    coroutines: AsyncProducer,
    npcs: NpcNormalizer,
) -> Registry[NpcEntry] | str:
    ended = run(machine, blocking, npcs, contract=npcs.contract)
    assert_type(ended, Outcome[Registry[NpcEntry]])
    later = await arun(machine, coroutines, npcs, contract=npcs.contract)
    assert_type(later, Outcome[Registry[NpcEntry]])
    match ended:
        case Accepted(value=value) | FellBack(value=value):
            assert_type(value, Registry[NpcEntry])
            return value
        case Failed(message=message):
            return message
        case Cancelled(records=records):
            assert_type(records, tuple[AttemptRecord, ...])
            return ""
        case _:
            assert_never(ended)


def a_stored_category_may_be_of_another_version(stored: IssueDetails) -> str:
    assert_type(stored.category, str)
    match stored.category:
        case IssueCategory.UNKNOWN_CANDIDATE:
            return "made up"
        case other:
            return other


def categories_of_this_version_are_all_there_are(category: IssueCategory) -> str:
    match category:
        case (
            IssueCategory.UNKNOWN_CANDIDATE
            | IssueCategory.REPEATED_CANDIDATE
            | IssueCategory.TOO_FEW_CANDIDATES
            | IssueCategory.CANONICAL_NOT_IN_GROUP
        ):
            return "ids"
        case IssueCategory.OVERLAPPING_GROUPS | IssueCategory.REPEATED_GROUP:
            return "groups"
        case IssueCategory.TYPED_APPLICATION_REFUSED:
            return "rules"
        case _:
            assert_never(category)


class Echo:
    def complete(self, call: ChatCall, *, cancellation: Cancellation) -> Reply:
        return Reply(text=call.messages[-1].content)

    async def acomplete(self, call: ChatCall) -> Reply:
        return Reply(text=call.messages[-1].content)


def a_backend_is_anything_with_one_method(folder: Path) -> None:
    _blocking: Producer = StructuredProducer(Echo(), repair_retries=1)
    _coroutines: AsyncProducer = AsyncStructuredProducer(Echo())
    settings = Settings(registry="npc", candidates=folder, out=folder)
    summary = reconcile(settings, backend=lambda registry, candidates, normalizer: Echo())
    assert_type(summary, Summary)
    assert_type(summary.entries, int | None)
    assert_type(
        run_campaign(RunSettings(campaign=folder, out=folder)).registries, tuple[Summary, ...]
    )
