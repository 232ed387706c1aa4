"""What each registry allows in one entry: the item currency rule, and telling marks in names."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Final, Generic, TypeVar, assert_never

from notarius.contracts import ContractError
from notarius.registries._apply import merged_fields
from notarius.registries._currency import STANDARD_COINAGES, Coinage, Currency, CurrencyRules
from notarius.registries._distinct import (
    MARK_RULES,
    MarkKey,
    MarkKind,
    MarkRules,
    first_conflict,
    mark_key,
)
from notarius.registries._entities import (
    Candidate,
    Entry,
    ItemCandidate,
    ItemEntry,
    ItemKind,
    LocationCandidate,
    LocationEntry,
    NpcCandidate,
    NpcEntry,
)
from notarius.registries._probes import (
    ALIAS_PROBES,
    ALIKE_PROBES,
    CURRENCY_PROBES,
    CURRENCY_TABLES,
    ENTRY_PROBES,
    MARK_PROBES,
    MARK_TABLES,
    UNNAMED_PROBES,
    WEIGHT_PROBES,
)
from notarius.semanticreconcile import Part, Subject, TypedRefusal, request_ids

C = TypeVar("C", bound=Candidate)
E = TypeVar("E", bound=Entry)

CURRENCY_GUIDANCE: Final = (
    "Rule for money: each kind of coin is an item of its own, so keep different kinds of coins in "
    "separate groups, and never put coins together with anything that is not money (a gold ring "
    "is no coin). Amounts do not matter: 5 gold coins and 20 gold coins are the same kind."
)
"""The rule that a model is told when money was mixed."""
CURRENCY_REASON: Final = "different kinds of money, or money and something else"
UNKNOWN_COIN: Final = "money that no kind of coin is named for"
SEVERAL_COINS: Final = "money of several kinds of coins"
NOT_MONEY: Final = "not money"
NO_ALIASES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType({})
JOINED_MAX: Final = 16
"""Parts of a refused group, of one base name, with which another is tried to be joined."""


def mark_reason(kind: MarkKind) -> str:
    """Say in closed words why two names that differ in a mark are two things."""
    match kind:
        case MarkKind.BONUS:
            what = "a bonus such as +1"
        case MarkKind.DEGREE:
            what = "a degree such as greater"
        case MarkKind.GENDERED_TITLE:
            what = "a title of a man or a woman"
        case MarkKind.MATERIAL:
            what = "what they are made of, such as gold and silver"
        case MarkKind.NUMBER:
            what = "a number or letter"
        case MarkKind.OPPOSITE:
            what = "opposite words such as north and south"
        case MarkKind.ORDINAL:
            what = "a place in a count such as second"
        case MarkKind.REGNAL:
            what = "a numeral or words such as elder and younger"
        case _:
            assert_never(kind)
    return f"different things, told apart in their names by {what}"


class RegistryRules(Generic[C, E]):
    """One registry: its words for the model, its types, and what it allows in one entry.

    For a registry of your own, give a subclass `kind` (it begins each entry's id), `schema` (it
    names the layout of the written registry), `subject` and the two types, and override what
    differs. `domain_rule` is told to the model after a refusal with `domain_rule=True`;
    `mark_rules` say which marks tell two names apart.
    """

    kind: ClassVar[str]
    schema: ClassVar[str]
    subject: ClassVar[Subject]
    domain_rule: ClassVar[str | None] = None
    mark_rules: ClassVar[MarkRules] = MarkRules()
    candidate_type: type[C]
    entry_type: type[E]

    def require(self, candidate: C) -> None:
        """Raise `ContractError` if a candidate contradicts the rules of this registry."""

    def entry(self, canonical: C, members: Sequence[C]) -> E:
        """Return the entry of members that can be one, in input order. Loses nothing of them."""
        return self.entry_type(
            **merged_fields(self.kind, canonical, members), **self.details(canonical, members)
        )

    def details(self, canonical: C, members: Sequence[C]) -> Mapping[str, Any]:  # noqa: ARG002 - for subclasses
        """Return the fields that an entry of this registry has and others have not."""
        return {}

    def refusal(self, ids: Sequence[str], members: Sequence[C]) -> TypedRefusal | None:
        """Say why members can't be one entry, or `None` if nothing speaks against it.

        A rule of your own comes before this one, and its words are closed: no text of a candidate
        may stand in them, since a model reads them.
        """
        rules = self.mark_rules
        conflict = first_conflict(
            ((member.name, *member.aliases) for member in members), rules=rules
        )
        if conflict is None:
            return None
        return TypedRefusal(
            reason=mark_reason(conflict.kind),
            # Like names are not known to be one thing: many people are called James.
            parts=tuple(
                Part(label="", ids=tuple(part), same=False) for part in self._apart(ids, members)
            ),
        )

    def _apart(self, ids: Sequence[str], members: Sequence[C]) -> list[list[str]]:
        """Divide a group so that no mark tells two members of one part apart.

        Names that differ in marks alone stay together where the candidates share an alias.
        """
        rules = self.mark_rules
        alike: dict[MarkKey, list[tuple[str, C]]] = {}
        for request_id, member in zip(ids, members, strict=True):
            alike.setdefault(mark_key(member.name, rules=rules), []).append((request_id, member))
        parts: dict[tuple[str, ...], list[list[tuple[str, C]]]] = {}
        for key, found in alike.items():
            of_base = parts.setdefault(key.base, [])
            for part in of_base if len(of_base) <= JOINED_MAX else ():
                names = [(member.name, *member.aliases) for _, member in (*part, *found)]
                if first_conflict(names, rules=rules) is None:
                    part.extend(found)
                    break
            else:
                of_base.append(found)
        return [[request_id for request_id, _ in part] for base in parts.values() for part in base]

    def content(self) -> Mapping[str, Any]:
        """Return the rules as data for the fingerprint: tables, words, and verdicts on probes."""
        one, other = (self.candidate_type(**fields) for fields in ENTRY_PROBES)
        return {
            "kind": self.kind,
            "domain_rule": self.domain_rule,
            "mark_rules": self.mark_rules,
            "mark_tables": MARK_TABLES,
            "mark_reasons": {kind.value: mark_reason(kind) for kind in MarkKind},
            "mark_probes": [mark_key(name, rules=self.mark_rules) for name in MARK_PROBES],
            "mark_refusal": self._refusal_of(MARK_PROBES),
            "joined_max": JOINED_MAX,
            "alias_refusal": self._refusal_of(tuple(ALIAS_PROBES), ALIAS_PROBES),
            "entry": self.entry(other, (one, other)),
        }

    def probe_candidates(self) -> list[C]:
        """Return fixed candidates, by whose treatment a policy is known.

        Add some that a rule of your own judges: fixed replies put the seventh and the eighth into
        one group, and the eighth to the twelfth.
        """
        alike = [{"source_id": f"a{n}", "name": name} for n, name in enumerate(ALIKE_PROBES)]
        return [self.candidate_type(**fields) for fields in (*ENTRY_PROBES, *alike)]

    def _refusal_of(
        self, names: Sequence[str], aliases: Mapping[str, tuple[str, ...]] = NO_ALIASES
    ) -> TypedRefusal | None:
        found = [
            self.candidate_type(source_id=name, name=name, aliases=aliases.get(name, ()))
            for name in names
        ]
        return self.refusal(request_ids(len(names)), found)


class NpcRules(RegistryRules[NpcCandidate, NpcEntry]):
    """People, creatures and other characters."""

    kind = "npc"
    schema = "notarius.registry.npc.v1"
    subject: ClassVar[Subject] = Subject(
        one="person", many="people", example=("Old Tom", "Mira", "Thomas Reed the miller")
    )
    mark_rules: ClassVar[MarkRules] = MARK_RULES["npc"]
    candidate_type = NpcCandidate
    entry_type = NpcEntry


class LocationRules(RegistryRules[LocationCandidate, LocationEntry]):
    """Places."""

    kind = "location"
    schema = "notarius.registry.location.v1"
    subject: ClassVar[Subject] = Subject(
        one="place", many="places", example=("the old mill", "Reedford", "Mill of Reedford")
    )
    mark_rules: ClassVar[MarkRules] = MARK_RULES["location"]
    candidate_type = LocationCandidate
    entry_type = LocationEntry


class ItemRules(RegistryRules[ItemCandidate, ItemEntry]):
    """Things and money.

    Money of different denominations, and money and other things, are never one entry. Raises
    `ValueError` if the coinages contradict each other.
    """

    kind = "item"
    schema = "notarius.registry.item.v1"
    subject: ClassVar[Subject] = Subject(
        one="item", many="items", example=("healing draught", "rope", "Draught of Healing")
    )
    domain_rule: ClassVar[str | None] = CURRENCY_GUIDANCE
    mark_rules: ClassVar[MarkRules] = MARK_RULES["item"]
    candidate_type = ItemCandidate
    entry_type = ItemEntry

    def __init__(self, *, coinages: Sequence[Coinage] = STANDARD_COINAGES) -> None:
        """Know these coins and no others."""
        self._currency = CurrencyRules(coinages=tuple(coinages))
        self._labels = {coinage.code: coinage.label for coinage in coinages}

    def money(self, candidate: ItemCandidate) -> Currency | None:
        """Return which money a candidate is: as it says, else as its name and weight say."""
        if candidate.item_kind is ItemKind.OBJECT:
            return None
        if candidate.denomination is not None:
            return Currency(code=candidate.denomination)
        if candidate.item_kind is None:
            about = (candidate.description, *candidate.evidence)
            return self._currency.classify(candidate.name, about)
        found = self._currency.classify(candidate.name)
        if found is None:
            named = self._currency.mentioned(candidate.name)
            if len(named) == 1:
                return Currency(code=named[0])
            return Currency(code=None, several=named)
        return found

    def require(self, candidate: ItemCandidate) -> None:
        """Raise `ContractError` if the denomination is none of the known coins."""
        known = [coinage.code for coinage in self._currency.coinages]
        if candidate.denomination is not None and candidate.denomination not in known:
            message = f"`denomination` must be one of {', '.join(known)}"
            raise ContractError(message)

    def refusal(self, ids: Sequence[str], members: Sequence[ItemCandidate]) -> TypedRefusal | None:
        """Refuse different money, and money with other things; else what all registries refuse."""
        kinds: dict[Currency | None, list[tuple[str, ItemCandidate]]] = {}
        for request_id, member in zip(ids, members, strict=True):
            kinds.setdefault(self.money(member), []).append((request_id, member))
        if len(kinds) == 1:
            return self._marked(next(iter(kinds)), ids, members)
        parts = []
        for money, found in sorted(kinds.items(), key=self._order):
            of_kind = tuple(request_id for request_id, _ in found)
            marked = self._marked(money, of_kind, [member for _, member in found])
            same = money is not None and money.code is not None
            parts += [
                Part(label=self._label(money), ids=part, same=same)
                for part in ([of_kind] if marked is None else [part.ids for part in marked.parts])
            ]
        return TypedRefusal(reason=CURRENCY_REASON, parts=tuple(parts), domain_rule=True)

    def _marked(
        self, money: Currency | None, ids: Sequence[str], members: Sequence[ItemCandidate]
    ) -> TypedRefusal | None:
        """Return what telling marks refuse. Amounts are none: `5 gold` and `20 gold` are a coin."""
        one_coin = money is not None and (money.code is not None or money.several)
        return None if one_coin else super().refusal(ids, members)

    def _label(self, money: Currency | None) -> str:
        if money is None:
            return NOT_MONEY
        if money.code is None:
            return SEVERAL_COINS if money.several else UNKNOWN_COIN
        return self._labels[money.code]

    def _order(self, part: tuple[Currency | None, object]) -> tuple[int, tuple[str, ...]]:
        """Put coins in the order of the coinages, then other money, then what is none."""
        money = part[0]
        if money is None:
            return len(self._labels) + 1, ()
        if money.code is None:
            return len(self._labels), money.several
        return list(self._labels).index(money.code), ()

    def details(
        self, canonical: ItemCandidate, members: Sequence[ItemCandidate]
    ) -> Mapping[str, Any]:
        """Return whether it is money, and which."""
        del members  # they are one coin, or no money, each of them
        money = self.money(canonical)
        return {
            "item_kind": ItemKind.OBJECT if money is None else ItemKind.CURRENCY,
            "denomination": None if money is None else money.code,
        }

    def probe_candidates(self) -> list[ItemCandidate]:
        """Return fixed candidates, money among them that says so and money that does not."""
        coins = self._currency.coinages[:2]
        declared = [
            ItemCandidate(source_id=f"d{coin.code}", name="a purse", denomination=coin.code)
            for coin in coins
        ]
        names = [ItemCandidate(source_id=f"n{coin.code}", name=coin.label) for coin in coins]
        ring = ItemCandidate(source_id="ring", name="gold", item_kind=ItemKind.OBJECT)
        hoard = ItemCandidate(source_id="hoard", name="old hoard", item_kind=ItemKind.CURRENCY)
        purse = ItemCandidate(source_id="purse", name="purse of gold", item_kind=ItemKind.CURRENCY)
        pounds = [
            ItemCandidate(source_id="told", name="gold", description="1 lb. of gold"),
            ItemCandidate(source_id="shown", name="gold", evidence=("1 lb. of gold",)),
        ]
        return [*super().probe_candidates(), *declared, *names, ring, hoard, purse, *pounds]

    def content(self) -> Mapping[str, Any]:
        """Return the rules as data for the fingerprint."""
        return {
            **super().content(),
            "coinages": self._currency.coinages,
            "currency_tables": CURRENCY_TABLES,
            "currency_labels": [CURRENCY_REASON, UNKNOWN_COIN, SEVERAL_COINS, NOT_MONEY],
            "currency_probes": [self._currency.classify(name) for name in CURRENCY_PROBES],
            "weight_probes": [
                self._currency.classify(name, about) for name, about in WEIGHT_PROBES
            ],
            "probe_money": [self.money(candidate) for candidate in self.probe_candidates()],
            "currency_refusal": self._refusal_of(CURRENCY_PROBES),
            "unnamed_refusal": self.refusal(
                request_ids(len(UNNAMED_PROBES)),
                [
                    ItemCandidate(source_id=name, name=name, item_kind=ItemKind.CURRENCY)
                    for name in UNNAMED_PROBES
                ],
            ),
        }
