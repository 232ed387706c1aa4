"""The normalizers: from a reply to a registry, or to the directive to ask again."""

from collections.abc import Sequence
from typing import Any, Final, Generic, TypeVar, assert_never

from notarius.contracts import (
    SAMPLE_MAX_BYTES,
    SAMPLES_MAX,
    ContractError,
    Fallback,
    InvariantError,
    ModelCandidate,
    Normalized,
    NormalizeRetry,
    Produced,
    StructuralDefect,
    StructuralFailure,
    cut,
    judge_reply,
    one_line,
    policy_fingerprint,
)
from notarius.registries._apply import members_of
from notarius.registries._currency import STANDARD_COINAGES, Coinage
from notarius.registries._entities import (
    Candidate,
    Entry,
    ItemCandidate,
    ItemEntry,
    LocationCandidate,
    LocationEntry,
    NpcCandidate,
    NpcEntry,
    Registry,
)
from notarius.registries._probes import REPLY_PROBES
from notarius.registries._rules import ItemRules, LocationRules, NpcRules, RegistryRules
from notarius.semanticreconcile import (
    DOMAIN_RULE_MAX_BYTES,
    Listed,
    Proposal,
    ReconciliationContract,
    ReconciliationRequest,
    RefusedGroup,
    SafeGroup,
    Split,
    TypedRefusal,
    build_request,
    parse_proposal,
    policy_content,
    render_guidance,
    split_proposal,
    summarize_issues,
)

C = TypeVar("C", bound=Candidate)
E = TypeVar("E", bound=Entry)

UNSAFE_GROUPS: Final = "unsafe_duplicate_groups"
"""Reason code: the reply was valid, and some of its groups are not safe to apply."""
INVALID_OUTPUT: Final = "invalid_structured_output"
"""Reason code: there is no valid candidate."""

_NAME_IN_SAMPLE_MAX_BYTES: Final = 48
_NAMES_IN_SAMPLE_MAX: Final = 4


class RegistryNormalizer(Generic[C, E]):
    """Checks and applies replies about one list of candidates.

    `request` is what to ask, `contract` the shape of a reply, `fingerprint` the identity of the
    policy. Raises `ContractError` if two candidates have one `source_id`, if a candidate
    contradicts the registry's rules, or if their `domain_rule` is too long.
    """

    def __init__(self, rules: RegistryRules[C, E], candidates: Sequence[C]) -> None:
        """Take the rules and the candidates, in input order."""
        self._rules = rules
        self._candidates = tuple(candidates)
        told = rules.domain_rule
        if told is not None and len(told.encode()) > DOMAIN_RULE_MAX_BYTES:
            message = f"`domain_rule` is too long; at most {DOMAIN_RULE_MAX_BYTES} bytes are told"
            raise ContractError(message)
        source_ids = {candidate.source_id for candidate in self._candidates}
        if len(source_ids) != len(self._candidates):
            message = "each candidate needs a `source_id` of its own"
            raise ContractError(message)
        for candidate in self._candidates:
            rules.require(candidate)
        self.contract: ReconciliationContract = ReconciliationContract()
        self.request: ReconciliationRequest = build_request(
            rules.subject,
            [
                Listed(name=item.name, aliases=item.aliases, description=item.description)
                for item in self._candidates
            ],
        )
        self._by_id = dict(zip(self.request.ids, self._candidates, strict=True))

    @property
    def fingerprint(self) -> str:
        """The identity of everything that decides what is asked and what is accepted."""
        return registry_fingerprint(self._rules)

    def compatible(self, ids: Sequence[str]) -> bool:
        """Whether the registry's rules allow these offered ids in one entry."""
        return self._refusal(tuple(ids)) is None

    def split(self, proposal: Proposal) -> Split:
        """Divide a proposal into the groups that are safe to apply and those that are refused."""
        return split_proposal(proposal, self.request.ids, self._refusal)

    def separate(self) -> Registry[E]:
        """Return the registry without any group: every candidate an entry of its own."""
        return self._registry(())

    def normalize(
        self, produced: Produced
    ) -> Normalized[Registry[E]] | NormalizeRetry[Registry[E]]:
        """Return the registry if every proposed group is safe, else the directive to ask again.

        Raises `InvariantError` if a category has no prose: then nothing is sent or applied.
        """
        match produced.result:
            case StructuralFailure(defect=defect):
                return self._structural(defect)
            case ModelCandidate() as candidate:
                proposal = parse_proposal(candidate.text)
                if isinstance(proposal, StructuralDefect):
                    return self._structural(proposal)
                split = self.split(proposal)
                if not split.refused:
                    return Normalized(value=self._registry(split.safe))
                return self._refused(split, candidate)
            case _:
                assert_never(produced.result)

    def _refusal(self, ids: tuple[str, ...]) -> TypedRefusal | None:
        refusal = self._rules.refusal(ids, [self._by_id[request_id] for request_id in ids])
        if refusal is not None:
            divided = [request_id for part in refusal.parts for request_id in part.ids]
            # Else the guidance would propose what it refuses, or groups that nobody asked about.
            if len(refusal.parts) == 1 or sorted(divided) != sorted(ids):
                message = "the parts of a refusal must divide its group: each id in one of them"
                raise InvariantError(message)
        return refusal

    def _registry(self, safe: Sequence[SafeGroup]) -> Registry[E]:
        entries = []
        for canonical, members in members_of(len(self._candidates), self.request.ids, safe):
            found = [self._candidates[member] for member in members]
            entries.append(self._rules.entry(self._candidates[canonical], found))
        held = [source_id for entry in entries for source_id in entry.source_ids]
        if sorted(held) != sorted(item.source_id for item in self._candidates):
            message = "a candidate was lost or doubled"
            raise InvariantError(message)
        return Registry(schema=self._rules.schema, entries=tuple(entries))

    def _refused(self, split: Split, candidate: ModelCandidate) -> NormalizeRetry[Registry[E]]:
        proposed = len(split.safe) + len(split.refused)
        applied = {request_id for group in split.safe for request_id in group.ids}
        apart = {request_id for group in split.refused for request_id in group.ids} - applied
        groups = "1 proposed group" if proposed == 1 else f"{proposed} proposed groups"
        return NormalizeRetry(
            reason_code=UNSAFE_GROUPS,
            operator_message=(
                f"The model's last answer was not safe to apply as a whole: of {groups}, "
                f"{summarize_issues(split.issue_counts)}."
            ),
            fallback=Fallback(
                value=self._registry(split.safe),
                preserved=(
                    f"{_count(len(split.safe), 'safe group')} applied, "
                    f"{_count(len(split.refused), 'unsafe group')} not; "
                    f"{_count(len(apart), 'affected candidate')} preserved separately, "
                    "nothing was lost."
                ),
                refused_groups=len(split.refused),
                samples=tuple(self._sample(group) for group in split.refused[:SAMPLES_MAX]),
            ),
            issues=split.issues,
            issue_counts=split.issue_counts,
            candidate=candidate,
            guidance=render_guidance(
                split.refused, kept=split.safe, domain_rule=self._rules.domain_rule
            ),
        )

    def _structural(self, defect: StructuralDefect) -> NormalizeRetry[Registry[E]]:
        count = len(self._candidates)
        return NormalizeRetry(
            reason_code=INVALID_OUTPUT,
            operator_message=f"The model's last answer could not be used: {_defect_words(defect)}.",
            fallback=Fallback(
                value=self.separate(),
                preserved=(
                    f"No group was applied; {_count(count, 'candidate')} preserved separately, "
                    "nothing was lost."
                ),
            ),
        )

    def _sample(self, group: RefusedGroup) -> str:
        """Name the candidates of a refused group, from the input and never from the reply."""
        names = [
            cut(one_line(self._by_id[request_id].name), _NAME_IN_SAMPLE_MAX_BYTES) or "?"
            for request_id in group.ids[:_NAMES_IN_SAMPLE_MAX]
        ]
        if len(group.ids) > _NAMES_IN_SAMPLE_MAX:
            names.append(f"{len(group.ids) - _NAMES_IN_SAMPLE_MAX} more")
        listed = "; ".join(names) if names else "no candidate of the list"
        return cut(f"group {group.index + 1}: {listed}", SAMPLE_MAX_BYTES)


def registry_fingerprint(rules: RegistryRules[Any, Any]) -> str:
    """Return the identity of a registry's policy, computed from its content and its behaviour.

    The behaviour is that of a real normalizer: what it asks about fixed candidates, and the whole
    registry or directive that it returns for fixed replies.
    """
    normalizer = RegistryNormalizer(rules, rules.probe_candidates())
    verdicts = [
        normalizer.normalize(Produced(result=judge_reply(reply, normalizer.contract)))
        for reply in REPLY_PROBES
    ]
    return policy_fingerprint(
        f"notarius.registries.{rules.kind}",
        {
            "reconciliation": policy_content(rules.subject),
            "rules": rules.content(),
            "asked": normalizer.request,
            "answered": [[type(verdict).__name__, verdict] for verdict in verdicts],
        },
    )


def _count(number: int, what: str) -> str:
    return f"1 {what} was" if number == 1 else f"{number} {what}s were"


def _defect_words(defect: StructuralDefect) -> str:
    match defect:
        case StructuralDefect.EMPTY:
            return "it had no visible text"
        case StructuralDefect.CUT_OFF:
            return "it was cut off before its end"
        case StructuralDefect.REFUSED:
            return "the model refused to answer"
        case StructuralDefect.OVERSIZED:
            return "it was too long"
        case StructuralDefect.NOT_TEXT:
            return "it was no valid Unicode text"
        case StructuralDefect.NOT_JSON:
            return "it was not exactly one JSON object"
        case StructuralDefect.REPEATED_KEY:
            return "one of its JSON objects had the same key twice"
        case StructuralDefect.TOO_DEEP:
            return "it was nested too deeply"
        case StructuralDefect.WRONG_SHAPE:
            return "it was JSON of another shape than asked for"
        case _:
            assert_never(defect)


class NpcNormalizer(RegistryNormalizer[NpcCandidate, NpcEntry]):
    """Reconciles people, creatures and other characters."""

    def __init__(self, candidates: Sequence[NpcCandidate]) -> None:
        """Take the candidates, in input order."""
        super().__init__(NpcRules(), candidates)


class LocationNormalizer(RegistryNormalizer[LocationCandidate, LocationEntry]):
    """Reconciles places."""

    def __init__(self, candidates: Sequence[LocationCandidate]) -> None:
        """Take the candidates, in input order."""
        super().__init__(LocationRules(), candidates)


class ItemNormalizer(RegistryNormalizer[ItemCandidate, ItemEntry]):
    """Reconciles things and money."""

    def __init__(
        self,
        candidates: Sequence[ItemCandidate],
        *,
        coinages: Sequence[Coinage] = STANDARD_COINAGES,
    ) -> None:
        """Take the candidates, in input order, and the coins to know."""
        super().__init__(ItemRules(coinages=coinages), candidates)
