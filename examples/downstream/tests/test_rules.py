"""What is one faction, and what a model is told when it mixes two."""

from typing import Any

import pytest
from notarius.attempts.testing import ScriptedProducer
from notarius.contracts import Accepted, ContractError, FellBack
from notarius.registries import (
    ItemRules,
    LocationRules,
    NpcRules,
    RegistryNormalizer,
    RegistryRules,
    registry_fingerprint,
)

from factionbook import FactionCandidate, FactionRules, seat_of
from factionbook.command import reconcile
from factionbook.rules import CHAPTER_RULE

MERGED = '{"duplicate_groups": [{"candidate_ids": ["c1", "c2", "c3"], "canonical_id": "c1"}]}'
APART = '{"duplicate_groups": [{"candidate_ids": ["c1", "c3"], "canonical_id": "c3"}]}'


def factions(*names: str) -> list[FactionCandidate]:
    """Return candidates of these names."""
    return [FactionCandidate(source_id=f"s{n}", name=name) for n, name in enumerate(names)]


@pytest.mark.parametrize(
    ("name", "seat"),
    [
        ("Harpers", ""),
        ("the Harpers of Waterdeep", "Waterdeep"),
        ("HARPERS IN  Baldur's Gate", "Baldur's Gate"),
        ("Waterdeep chapter of the Harpers", "Waterdeep"),
        ("Order of the Gauntlet", ""),
        ("The Knights of Samular", ""),
        ("Zhentarim of the Moonsea", ""),
        ("of", ""),
        ("the of", ""),
        ("Harpers of", ""),
        ("Sons of Malar in Luskan", ""),
    ],
)
def test_a_name_tells_where_a_chapter_sits(name: str, seat: str) -> None:
    """A place after a faction's own name makes a chapter; in doubt it is a whole name."""
    assert seat_of(name) == seat


@pytest.mark.parametrize(
    ("one", "other", "together"),
    [
        ("Harpers", "the Harpers", True),
        ("Harpers", "Harpers of Waterdeep", False),
        ("Harpers of Waterdeep", "Harpers of Neverwinter", False),
        ("Harpers of Waterdeep", "WATERDEEP chapter of the Harpers", True),
        ("the Order", "Order of the Gauntlet", True),
        ("loyalist Flaming Fists", "rebel Flaming Fists", False),
        ("Third Company", "Fourth Company", False),
        ("Cell 3", "Cell 4", False),
    ],
)
def test_a_faction_and_its_chapter_are_two(one: str, other: str, *, together: bool) -> None:
    """Chapters stay apart from the whole and from each other, and telling marks count too."""
    normalizer = RegistryNormalizer(FactionRules(), factions(one, other))
    assert normalizer.compatible(("c1", "c2")) is together


def test_what_a_candidate_says_counts_more_than_its_name() -> None:
    """Whoever writes the list can say that a place is part of the name, or name a chapter."""
    thay = FactionCandidate(source_id="a", name="Red Wizards of Thay", seat="")
    cabal = FactionCandidate(source_id="b", name="the cabal", seat="Waterdeep")
    named = factions("Red Wizards", "Harpers of Waterdeep")
    normalizer = RegistryNormalizer(FactionRules(), [thay, cabal, *named])
    assert normalizer.compatible(("c1", "c3"))
    assert normalizer.compatible(("c2", "c4"))
    assert not normalizer.compatible(("c2", "c3"))


def test_a_seat_is_a_place() -> None:
    """A seat without a visible character is an error before anything is asked."""
    blank = FactionCandidate(source_id="a", name="Harpers", seat=" \n")
    with pytest.raises(ContractError, match="`seat`"):
        RegistryNormalizer(FactionRules(), [blank])


def test_a_mixed_group_is_corrected_in_words_of_factions() -> None:
    """The model sees its own answer, which ids clash, and the rule; then it does better."""
    listed = factions("Harpers", "Harpers of Waterdeep", "Those Who Harp")
    normalizer = RegistryNormalizer(FactionRules(), listed)
    model = ScriptedProducer([MERGED, APART])
    outcome = reconcile(normalizer, model, normalize_retries=1)
    assert isinstance(outcome, Accepted)
    assert [(entry.name, entry.seat) for entry in outcome.value.entries] == [
        ("Those Who Harp", ""),
        ("Harpers of Waterdeep", "Waterdeep"),
    ]
    *original, answer, correction = model.requests[1].messages
    assert tuple(original) == normalizer.request.prompt.messages
    assert answer.content == MERGED
    assert CHAPTER_RULE in correction.content
    assert "a whole faction: c1 and c3; a chapter: c2" in correction.content


def test_a_model_that_does_not_learn_leaves_one_warning() -> None:
    """What is not safe stays apart, and the warning says so with names of the list."""
    normalizer = RegistryNormalizer(FactionRules(), factions("A", "A of Bree", "B"))
    outcome = reconcile(normalizer, ScriptedProducer([MERGED] * 3), normalize_retries=2)
    assert isinstance(outcome, FellBack)
    assert [entry.name for entry in outcome.value.entries] == ["A", "A of Bree", "B"]
    assert outcome.warning.samples == ("group 1: A; A of Bree; B",)
    assert "preserved separately" in outcome.warning.message


def test_other_rules_of_chapters_are_another_policy() -> None:
    """A changed rule changes the fingerprint, also where only code has changed."""

    class NoChapters(FactionRules):
        def seat(self, candidate: FactionCandidate) -> str:
            return candidate.seat or ""

    class NoNamedChapters(FactionRules):
        def seat(self, candidate: FactionCandidate) -> str:
            return "" if "chapter" in candidate.name else super().seat(candidate)

    class OtherWords(FactionRules):
        domain_rule = "Keep chapters apart."

    class OwnFile(FactionRules):
        schema = "factionbook.registry.faction.v2"

    all_rules: list[RegistryRules[Any, Any]] = [
        *(FactionRules(), NoChapters(), NoNamedChapters(), OtherWords(), OwnFile()),
        *(NpcRules(), ItemRules(), LocationRules()),
    ]
    assert len({registry_fingerprint(rules) for rules in all_rules}) == len(all_rules)
    assert registry_fingerprint(FactionRules()) == registry_fingerprint(FactionRules())
