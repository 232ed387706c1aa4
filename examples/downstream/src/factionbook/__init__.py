"""A registry of the factions of a campaign, made of the parts of notarius."""

from factionbook.matcher import NameMatcher
from factionbook.rules import FactionCandidate, FactionEntry, FactionRules, seat_of

__all__ = ["FactionCandidate", "FactionEntry", "FactionRules", "NameMatcher", "seat_of"]
