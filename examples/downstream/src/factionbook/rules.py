"""What a faction is, and which two are never one: a faction and one of its chapters."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from notarius.contracts import ContractError, one_line
from notarius.registries import (
    Candidate,
    Entry,
    MarkAxis,
    MarkKind,
    MarkRules,
    RegistryRules,
)
from notarius.semanticreconcile import Part, Subject, TypedRefusal

CHAPTER_RULE: Final = (
    "Rule for factions: a faction and a chapter of it in one place are separate entries, and so "
    "are its chapters in different places (the Harpers are not the Harpers of Waterdeep). Two "
    "names of one chapter are the same."
)
_REASON: Final = "a whole faction and a chapter of one, or chapters in different places"
_WHOLE: Final = "a whole faction"
_CHAPTER: Final = "a chapter"

_PLACED: Final = frozenset({"at", "in", "of"})
COMMON_NOUNS: Final = frozenset(
    {"brotherhood", "children", "church", "circle", "city", "clan", "college", "company", "council"}
    | {"court", "cult", "daughters", "guild", "hand", "house", "knights", "league", "lords"}
    | {"masters", "order", "people", "servants", "sisterhood", "sons", "temple"}
)
"""No faction has one of these for its whole name: the House of Cards is no chapter of the House."""


class FactionCandidate(Candidate, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A faction, or a chapter of one, as a session's notes name it.

    `seat` is the place of a chapter, or "" for a whole faction; where it is missing, the name
    tells.
    """

    kind: Literal["faction"] = "faction"
    seat: str | None = None


class FactionEntry(Entry, frozen=True, kw_only=True):
    """A faction, or a chapter of one: `seat` is its place, "" for a whole faction."""

    seat: str


def seat_of(name: str) -> str:
    """Return the place of the chapter that has this name, or "" for a whole faction.

    `Harpers of Waterdeep` and `Waterdeep chapter of the Harpers` are chapters. `Order of the
    Gauntlet` and `Knights of Samular` are whole names.
    """
    words = one_line(name).split()
    folded = [word.casefold() for word in words]
    begin = 1 if folded[:1] == ["the"] else 0
    at = next((n for n, word in enumerate(folded) if n > begin and word in _PLACED), None)
    if at is None:
        return ""
    if folded[at - 1] == "chapter":
        return " ".join(words[begin : at - 1])
    if folded[at - 1] in COMMON_NOUNS or folded[at + 1 : at + 2] == ["the"]:
        return ""
    return " ".join(words[at + 1 :])


class FactionRules(RegistryRules[FactionCandidate, FactionEntry]):
    """Factions: a chapter is an entry of its own."""

    kind = "faction"
    schema = "factionbook.registry.faction.v1"
    subject = Subject(
        one="faction",
        many="factions",
        example=("the Grey Hand", "Lantern Guild", "Grey Hand Mercenaries"),
    )
    domain_rule = CHAPTER_RULE
    mark_rules = MarkRules(
        axes=(
            MarkAxis(
                name="allegiance",
                kind=MarkKind.OPPOSITE,
                values=("loyal loyalist loyalists", "rebel rebels"),
            ),
        ),
        bare_numbers=True,
    )
    candidate_type = FactionCandidate
    entry_type = FactionEntry

    def seat(self, candidate: FactionCandidate) -> str:
        """Return the place of a chapter, or "": as it says, else as its name says."""
        return seat_of(candidate.name) if candidate.seat is None else one_line(candidate.seat)

    def require(self, candidate: FactionCandidate) -> None:
        """Refuse a seat that shows nothing: it could mean a chapter or the whole faction."""
        if candidate.seat and not one_line(candidate.seat):
            raise ContractError('`seat` must be a place, or "" for the whole faction')

    def refusal(
        self, ids: Sequence[str], members: Sequence[FactionCandidate]
    ) -> TypedRefusal | None:
        """Refuse a faction with a chapter, and two chapters; else what all registries refuse."""
        parts: dict[str, list[str]] = {}
        for request_id, member in zip(ids, members, strict=True):
            parts.setdefault(self.seat(member).casefold(), []).append(request_id)
        if len(parts) == 1:
            return super().refusal(ids, members)
        return TypedRefusal(
            reason=_REASON,
            parts=tuple(
                Part(label=_CHAPTER if seat else _WHOLE, ids=tuple(part), same=False)
                for seat, part in parts.items()
            ),
            domain_rule=True,
        )

    def details(
        self, canonical: FactionCandidate, members: Sequence[FactionCandidate]
    ) -> Mapping[str, Any]:
        """Return the seat, as the candidate with the best name has it."""
        del members  # they have the same
        return {"seat": self.seat(canonical)}

    def content(self) -> Mapping[str, Any]:
        """Return the rules as data for the fingerprint."""
        return {**super().content(), "common_nouns": sorted(COMMON_NOUNS)}

    def probe_candidates(self) -> list[FactionCandidate]:
        """Return fixed candidates, some of which only the rule of chapters tells apart."""
        names = ("Harpers", "the Harpers of Waterdeep", "Waterdeep chapter of the Harpers")
        others = ("Order of the Gauntlet", "Knights of Samular", "Harpers in Neverwinter")
        return [
            *super().probe_candidates(),
            *(FactionCandidate(source_id=name, name=name) for name in (*names, *others)),
            FactionCandidate(source_id="thay", name="Red Wizards of Thay", seat=""),
        ]
