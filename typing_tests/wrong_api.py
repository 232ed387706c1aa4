"""Mistakes that type checkers must report, each on the line that names its error.

First what mypy calls it, then what pyright does, without its "report".
"""

from collections.abc import Mapping
from pathlib import Path

from notarius.attempts import AttemptMachine, arun, run
from notarius.contracts import (
    Accepted,
    AsyncProducer,
    Failed,
    FellBack,
    IssueDetails,
    ModelCandidate,
    Normalized,
    Normalizer,
    NormalizeRetry,
    Outcome,
    Produced,
    Producer,
    Reply,
)
from notarius.llmruntime import ChatCall, StructuredProducer
from notarius.pipeline import RunSettings, Settings, reconcile, run_campaign
from notarius.registries import (
    Coinage,
    ItemCandidate,
    ItemEntry,
    ItemNormalizer,
    LocationCandidate,
    MarkAxis,
    MarkRules,
    NpcCandidate,
    NpcEntry,
    NpcNormalizer,
    Registry,
    RegistryRules,
)
from notarius.semanticreconcile import (
    CATEGORY_PROSE,
    IssueCategory,
    Listed,
    Part,
    Proposal,
    Prose,
    RefusedGroup,
    SafeGroup,
    parse_proposal,
    render_guidance,
    split_proposal,
)


def values_are_frozen(candidate: NpcCandidate, registry: Registry[NpcEntry], part: Part) -> None:
    candidate.name = "other"  # error: misc; AttributeAccessIssue
    registry.entries[0].name = "other"  # error: misc; AttributeAccessIssue
    registry.entries = ()  # error: misc; AttributeAccessIssue
    part.label = "other"  # error: misc; AttributeAccessIssue
    CATEGORY_PROSE[IssueCategory.REPEATED_GROUP].one = "other"  # error: misc; AttributeAccessIssue


def values_are_keyword_only() -> None:
    NpcCandidate("s1", name="Ada")  # error: call-arg; CallIssue
    Part("gold coins", ids=())  # error: call-arg; CallIssue
    Coinage("gp", label="gold coins")  # error: call-arg; CallIssue
    SafeGroup(0, ids=(), canonical_id="c1")  # error: call-arg; CallIssue


def values_are_complete() -> None:
    NpcCandidate(name="Ada")  # error: call-arg; CallIssue
    ItemCandidate(source_id="s1", name="gold", denominaton="gp")  # error: call-arg; CallIssue
    ItemCandidate(source_id="s1", name="gold", item_kind="object")  # error: arg-type; ArgumentType
    LocationCandidate(source_id="s1", name="Ada", kind="npc")  # error: arg-type; ArgumentType
    NpcCandidate(source_id="s1", name="Ada", aliases=["Adah"])  # error: arg-type; ArgumentType


def the_prose_is_read_only(words: Prose) -> None:
    CATEGORY_PROSE[IssueCategory.REPEATED_GROUP] = words  # error: index; IndexIssue


def prose_is_complete() -> None:
    Prose(one="is wrong.", many="are wrong.", shape="Be right.")  # error: call-arg; CallIssue
    partly: Mapping[str, Prose] = {}
    render_guidance([], prose=partly)  # error: arg-type; ArgumentType


def a_defect_is_no_proposal(text: str) -> None:
    split_proposal(parse_proposal(text), ["c1"], lambda _: None)  # error: arg-type; ArgumentType


def a_check_takes_ids(parsed: Proposal) -> None:
    split_proposal(parsed, ["c1"], lambda: None)  # error: arg-type,misc; ArgumentType


def registries_do_not_mix(npcs: NpcNormalizer, items: ItemNormalizer) -> None:
    NpcNormalizer([ItemCandidate(source_id="s1", name="rope")])  # error: list-item; ArgumentType
    NpcNormalizer([Listed(name="Ada")])  # error: list-item; ArgumentType
    _people: Normalizer[Registry[NpcEntry]] = items  # error: assignment; AssignmentType
    _things: Registry[ItemEntry] = npcs.separate()  # error: assignment; AssignmentType
    NpcNormalizer([], coinages=())  # error: call-arg; CallIssue


def marks_are_of_known_kinds() -> None:
    MarkAxis(name="rig", kind="opposite", values=("a", "b"))  # error: arg-type; ArgumentType
    MarkRules(axes=[])  # error: arg-type; ArgumentType


class Mixed(RegistryRules[NpcCandidate, NpcEntry]):
    candidate_type = ItemCandidate  # error: assignment; AssignmentType
    entry_type = ItemEntry  # error: assignment; AssignmentType


def a_retry_is_no_value(npcs: NpcNormalizer, produced: Produced) -> Registry[NpcEntry]:
    return npcs.normalize(produced).value  # error: union-attr; AttributeAccessIssue


def both_are_handled(npcs: NpcNormalizer, produced: Produced) -> str:  # error: return; ReturnType
    match npcs.normalize(produced):  # error: exhaustive-match; MatchNotExhaustive
        case Normalized():
            return "accepted"


def guidance_may_be_missing(retry: NormalizeRetry[Registry[NpcEntry]]) -> str:
    return retry.guidance  # error: return-value; ReturnType


def a_candidate_is_made_of_text(npcs: NpcNormalizer) -> None:
    npcs.normalize(ModelCandidate.of("{}"))  # error: arg-type; ArgumentType
    npcs.normalize(Produced(result="{}"))  # error: arg-type; ArgumentType


def a_stored_category_may_be_unknown(stored: IssueDetails) -> str:  # error: return; ReturnType
    match stored.category:  # error: exhaustive-match; MatchNotExhaustive
        case IssueCategory.UNKNOWN_CANDIDATE:
            return "unknown"


def a_category_is_no_free_text(group: RefusedGroup) -> bool:
    return group.has("unknown_candidate")  # error: arg-type; ArgumentType


def a_registry_may_be_missing(outcome: Outcome[Registry[NpcEntry]]) -> Registry[NpcEntry]:
    return outcome.value  # error: union-attr; AttributeAccessIssue


def every_ending_is_handled(outcome: Outcome[str]) -> str:  # error: return; ReturnType
    match outcome:  # error: exhaustive-match; MatchNotExhaustive
        case Accepted(value=value) | FellBack(value=value):
            return value
        case Failed():
            return "failed"


def drivers_are_not_mixed(
    machine: AttemptMachine[Registry[NpcEntry]],
    blocking: Producer,
    coroutines: AsyncProducer,
    npcs: NpcNormalizer,
) -> None:
    run(machine, coroutines, npcs, contract=npcs.contract)  # error: arg-type; ArgumentType
    _later = arun(machine, blocking, npcs, contract=npcs.contract)  # error: arg-type; ArgumentType
    run(machine, blocking, npcs)  # error: call-arg; CallIssue


class Talks:
    def complete(self, call: ChatCall) -> Reply:
        raise NotImplementedError


def a_backend_takes_the_cancellation() -> None:
    StructuredProducer(Talks())  # error: arg-type; ArgumentType


def a_run_is_of_a_known_registry(folder: Path) -> None:
    Settings(registry="ship", candidates=folder, out=folder)  # error: arg-type; ArgumentType
    reconcile(folder)  # error: arg-type; ArgumentType
    run_campaign(RunSettings(campaign=folder))  # error: call-arg; CallIssue
    summary = reconcile(Settings(registry="npc", candidates=folder, out=folder))
    _entries: int = summary.entries  # error: assignment; AssignmentType
