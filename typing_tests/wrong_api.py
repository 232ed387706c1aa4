"""Mistakes that a type checker must report, each on the line that names its error."""

from collections.abc import Mapping

from notarius.contracts import ModelCandidate, Normalized, Normalizer, NormalizeRetry, Produced
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
    SafeGroup,
    parse_proposal,
    render_guidance,
    split_proposal,
)


def values_are_frozen(candidate: NpcCandidate, registry: Registry[NpcEntry], part: Part) -> None:
    candidate.name = "other"  # error: misc
    registry.entries = ()  # error: misc
    registry.entries[0].name = "other"  # error: misc
    part.label = "other"  # error: misc
    CATEGORY_PROSE[IssueCategory.REPEATED_GROUP].one = "other"  # error: misc


def values_are_keyword_only() -> None:
    NpcCandidate("s1", name="Ada")  # error: call-arg
    Part("gold coins", ids=())  # error: call-arg
    Coinage("gp", label="gold coins")  # error: call-arg
    SafeGroup(0, ids=(), canonical_id="c1")  # error: call-arg


def values_are_complete() -> None:
    NpcCandidate(name="Ada")  # error: call-arg
    ItemCandidate(source_id="s1", name="gold", denominaton="gp")  # error: call-arg
    ItemCandidate(source_id="s1", name="gold", item_kind="currency")  # error: arg-type
    LocationCandidate(source_id="s1", name="Ada", kind="npc")  # error: arg-type
    NpcCandidate(source_id="s1", name="Ada", aliases=["Adah"])  # error: arg-type


def the_prose_is_read_only(words: Prose) -> None:
    CATEGORY_PROSE[IssueCategory.REPEATED_GROUP] = words  # error: index


def prose_is_complete() -> None:
    Prose(one="is wrong.", many="are wrong.", shape="Be right.")  # error: call-arg
    partly: Mapping[str, Prose] = {}
    render_guidance([], prose=partly)  # error: arg-type


def a_defect_is_no_proposal(text: str) -> None:
    split_proposal(parse_proposal(text), ["c1"], lambda _: None)  # error: arg-type


def a_check_takes_ids(parsed: Proposal) -> None:
    split_proposal(parsed, ["c1"], lambda: None)  # error: arg-type,misc


def registries_do_not_mix(npcs: NpcNormalizer, items: ItemNormalizer) -> None:
    NpcNormalizer([ItemCandidate(source_id="s1", name="rope")])  # error: list-item
    NpcNormalizer([Listed(name="Ada")])  # error: list-item
    _people: Normalizer[Registry[NpcEntry]] = items  # error: assignment
    _things: Registry[ItemEntry] = npcs.separate()  # error: assignment
    NpcNormalizer([], coinages=())  # error: call-arg


def marks_are_of_known_kinds() -> None:
    MarkAxis(name="rig", kind="opposite", values=("square", "lateen"))  # error: arg-type
    MarkRules(axes=[])  # error: arg-type


class Mixed(RegistryRules[NpcCandidate, NpcEntry]):
    candidate_type = ItemCandidate  # error: assignment
    entry_type = ItemEntry  # error: assignment


def a_retry_is_no_value(npcs: NpcNormalizer, produced: Produced) -> Registry[NpcEntry]:
    return npcs.normalize(produced).value  # error: union-attr


def both_answers_are_handled(npcs: NpcNormalizer, produced: Produced) -> str:  # error: return
    match npcs.normalize(produced):  # error: exhaustive-match
        case Normalized():
            return "accepted"


def guidance_may_be_missing(retry: NormalizeRetry[Registry[NpcEntry]]) -> str:
    return retry.guidance  # error: return-value


def a_candidate_is_made_of_text(npcs: NpcNormalizer) -> None:
    npcs.normalize(ModelCandidate.of("{}"))  # error: arg-type
    npcs.normalize(Produced(result="{}"))  # error: arg-type
