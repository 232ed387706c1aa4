"""What each registry allows in one entry: the item currency rule, and telling marks in names."""

import abc
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, Generic, TypeVar, assert_never

from notarius.contracts import ContractError
from notarius.registries._apply import merged_fields
from notarius.registries._currency import STANDARD_COINAGES, Coinage, Currency, CurrencyRules
from notarius.registries._distinct import MARK_RULES, MarkKind, first_conflict, mark_key
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
    RegistryKind,
)
from notarius.registries._probes import (
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
CURRENCY_REASON: Final = "different kinds of money, or money and something else"
UNKNOWN_COIN: Final = "money that no kind of coin is named for"
SEVERAL_COINS: Final = "money of several kinds of coins"
NOT_MONEY: Final = "not money"


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


class RegistryRules(abc.ABC, Generic[C, E]):
    """One registry: its words for the model, its types, and what it allows in one entry."""

    kind: ClassVar[RegistryKind]
    subject: ClassVar[Subject]
    domain_rule: ClassVar[str | None] = None
    candidate_type: type[C]

    def require(self, candidate: C) -> None:
        """Raise `ContractError` if a candidate contradicts the rules of this registry."""

    @abc.abstractmethod
    def entry(self, canonical: C, members: Sequence[C]) -> E:
        """Return the entry of members that can be one, in input order."""

    def refusal(self, ids: Sequence[str], members: Sequence[C]) -> TypedRefusal | None:
        """Say why members can't be one entry, or `None` if nothing speaks against it."""
        rules = MARK_RULES[self.kind]
        conflict = first_conflict(
            ((member.name, *member.aliases) for member in members), rules=rules
        )
        if conflict is None:
            return None
        parts: dict[object, list[str]] = {}
        for request_id, member in zip(ids, members, strict=True):
            parts.setdefault(mark_key(member.name, rules=rules), []).append(request_id)
        return TypedRefusal(
            reason=mark_reason(conflict.kind),
            # Like names are not known to be one thing: many people are called James.
            parts=tuple(Part(label="", ids=tuple(part), same=False) for part in parts.values()),
        )

    def content(self) -> Mapping[str, Any]:
        """Return the rules as data for the fingerprint: tables, words, and verdicts on probes."""
        one, other = (self.candidate_type(**fields) for fields in ENTRY_PROBES)
        return {
            "kind": self.kind,
            "domain_rule": self.domain_rule,
            "mark_rules": MARK_RULES[self.kind],
            "mark_tables": MARK_TABLES,
            "mark_reasons": {kind.value: mark_reason(kind) for kind in MarkKind},
            "mark_probes": [mark_key(name, rules=MARK_RULES[self.kind]) for name in MARK_PROBES],
            "mark_refusal": self._refusal_of(MARK_PROBES),
            "entry": self.entry(other, (one, other)),
        }

    def probe_candidates(self) -> list[C]:
        """Return fixed candidates, by whose treatment a policy is known."""
        alike = [{"source_id": f"a{n}", "name": name} for n, name in enumerate(ALIKE_PROBES)]
        return [self.candidate_type(**fields) for fields in (*ENTRY_PROBES, *alike)]

    def _refusal_of(self, names: Sequence[str]) -> TypedRefusal | None:
        ids = request_ids(len(names))
        found = [self.candidate_type(source_id=i, name=n) for i, n in zip(ids, names, strict=True)]
        return self.refusal(ids, found)


class NpcRules(RegistryRules[NpcCandidate, NpcEntry]):
    """People, creatures and other characters."""

    kind = "npc"
    subject = Subject(
        one="person", many="people", example=("Old Tom", "Mira", "Thomas Reed the miller")
    )
    candidate_type = NpcCandidate

    def entry(self, canonical: NpcCandidate, members: Sequence[NpcCandidate]) -> NpcEntry:
        """Return the entry of these members."""
        return NpcEntry(**merged_fields(self.kind, canonical, members))


class LocationRules(RegistryRules[LocationCandidate, LocationEntry]):
    """Places."""

    kind = "location"
    subject = Subject(
        one="place", many="places", example=("the old mill", "Reedford", "Mill of Reedford")
    )
    candidate_type = LocationCandidate

    def entry(
        self, canonical: LocationCandidate, members: Sequence[LocationCandidate]
    ) -> LocationEntry:
        """Return the entry of these members."""
        return LocationEntry(**merged_fields(self.kind, canonical, members))


class ItemRules(RegistryRules[ItemCandidate, ItemEntry]):
    """Things and money.

    Money of different denominations, and money and other things, are never one entry. Raises
    `ValueError` if the coinages contradict each other.
    """

    kind = "item"
    subject = Subject(
        one="item", many="items", example=("healing draught", "rope", "Draught of Healing")
    )
    domain_rule = CURRENCY_GUIDANCE
    candidate_type = ItemCandidate

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
        parts: dict[Currency | None, list[str]] = {}
        for request_id, member in zip(ids, members, strict=True):
            parts.setdefault(self.money(member), []).append(request_id)
        if len(parts) == 1:
            (money,) = parts
            # Amounts are no marks: `5 gold` and `20 gold` are one coin.
            one_coin = money is not None and (money.code is not None or money.several)
            return None if one_coin else super().refusal(ids, members)
        return TypedRefusal(
            reason=CURRENCY_REASON,
            parts=tuple(
                Part(
                    label=self._label(money),
                    ids=tuple(part),
                    same=money is not None and money.code is not None,
                )
                for money, part in sorted(parts.items(), key=self._order)
            ),
            domain_rule=True,
        )

    def _label(self, money: Currency | None) -> str:
        if money is None:
            return NOT_MONEY
        if money.code is None:
            return SEVERAL_COINS if money.several else UNKNOWN_COIN
        return self._labels[money.code]

    def _order(self, part: tuple[Currency | None, list[str]]) -> tuple[int, tuple[str, ...]]:
        """Put coins in the order of the coinages, then other money, then what is none."""
        money = part[0]
        if money is None:
            return len(self._labels) + 1, ()
        if money.code is None:
            return len(self._labels), money.several
        return list(self._labels).index(money.code), ()

    def entry(self, canonical: ItemCandidate, members: Sequence[ItemCandidate]) -> ItemEntry:
        """Return the entry of these members."""
        money = self.money(canonical)
        return ItemEntry(
            item_kind=ItemKind.OBJECT if money is None else ItemKind.CURRENCY,
            denomination=None if money is None else money.code,
            **merged_fields(self.kind, canonical, members),
        )

    def probe_candidates(self) -> list[ItemCandidate]:
        """Return fixed candidates, money among them that says so and money that does not."""
        coins = self._currency.coinages[:2]
        declared = [
            ItemCandidate(
                source_id=f"d{coin.code}",
                name="a purse",
                item_kind=ItemKind.CURRENCY,
                denomination=coin.code,
            )
            for coin in coins
        ]
        names = [ItemCandidate(source_id=f"n{coin.code}", name=coin.label) for coin in coins]
        ring = ItemCandidate(source_id="ring", name="gold", item_kind=ItemKind.OBJECT)
        hoard = ItemCandidate(source_id="hoard", name="old hoard", item_kind=ItemKind.CURRENCY)
        return [*super().probe_candidates(), *declared, *names, ring, hoard]

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
            "currency_refusal": self._refusal_of(CURRENCY_PROBES),
            "unnamed_refusal": self.refusal(
                request_ids(len(UNNAMED_PROBES)),
                [
                    ItemCandidate(source_id=name, name=name, item_kind=ItemKind.CURRENCY)
                    for name in UNNAMED_PROBES
                ],
            ),
        }
