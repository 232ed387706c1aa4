"""Rules of one's own: what a registry gets that is none of the three, and what it can't break."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from notarius.contracts import (
    ContractError,
    InvariantError,
    ModelCandidate,
    Normalized,
    Produced,
)
from notarius.registries import (
    Candidate,
    Entry,
    ItemRules,
    LocationRules,
    MarkAxis,
    MarkKind,
    MarkRules,
    RegistryNormalizer,
    RegistryRules,
    registry_fingerprint,
)
from notarius.registries._rules import JOINED_MAX
from notarius.semanticreconcile import (
    DOMAIN_RULE_MAX_BYTES,
    Part,
    Subject,
    TypedRefusal,
)

BOTH = '{"duplicate_groups": [{"candidate_ids": ["c1", "c2"], "canonical_id": "c2"}]}'
RIG = MarkAxis(name="rig", kind=MarkKind.OPPOSITE, values=("square", "lateen gaff"))


class ShipEntry(Entry, frozen=True, kw_only=True):
    """A ship, and how many candidates spoke of it."""

    times: int


class ShipRules(RegistryRules[Candidate, ShipEntry]):
    """Ships."""

    kind = "ship"
    schema = "harbour.ship.v3"
    subject = Subject(one="ship", many="ships", example=("the Gull", "Marlin", "Gull of Sarn"))
    candidate_type = Candidate
    entry_type = ShipEntry

    def details(self, canonical: Candidate, members: Sequence[Candidate]) -> Mapping[str, Any]:
        """Count the members."""
        return {"times": len(members)}


class RiggedRules(ShipRules):
    """Ships that are told apart by their rig."""

    mark_rules = MarkRules(axes=(RIG,))


def normalizer(
    *names: str, rules: ShipRules | None = None
) -> RegistryNormalizer[Candidate, ShipEntry]:
    """Return a normalizer about ships of these names."""
    found = [Candidate(source_id=f"s{n}", name=name) for n, name in enumerate(names)]
    return RegistryNormalizer(rules or ShipRules(), found)


def test_an_entry_has_what_every_entry_has_and_its_own() -> None:
    """Nothing of the members is lost, ids begin with the kind, and the schema is the registry's."""
    gull = Candidate(source_id="a", name="the Gull", aliases=("Gull",), evidence=("it sails",))
    found = [gull, Candidate(source_id="b", name="Gull of Sarn", evidence=("it sank",))]
    verdict = RegistryNormalizer(ShipRules(), found).normalize(
        Produced(result=ModelCandidate.of(BOTH))
    )
    assert isinstance(verdict, Normalized)
    assert verdict.value.schema == "harbour.ship.v3"
    (entry,) = verdict.value.entries
    assert entry.entry_id.startswith("ship-")
    assert (entry.name, entry.aliases) == ("Gull of Sarn", ("the Gull", "Gull"))
    assert (entry.evidence, entry.source_ids) == (("it sails", "it sank"), ("a", "b"))
    assert entry.times == 2


@pytest.mark.parametrize(
    ("one", "other", "plain", "rigged"),
    [
        ("Hulk", "the Hulk", True, True),
        ("Berth 3", "Berth 4", False, False),
        ("second Gull", "third Gull", False, False),
        ("North Gull", "South Gull", True, True),
        ("square Gull", "lateen Gull", True, False),
        ("gaff Gull", "Lateen Gull", True, True),
        ("Gull", "lateen Gull", True, True),
    ],
)
def test_a_registry_says_which_marks_count(
    one: str, other: str, *, plain: bool, rigged: bool
) -> None:
    """Labels and places in a count always tell; opposites are those that the rules name."""
    assert normalizer(one, other).compatible(("c1", "c2")) is plain
    assert normalizer(one, other, rules=RiggedRules()).compatible(("c1", "c2")) is rigged


def test_rules_that_lose_a_candidate_are_a_fault() -> None:
    """No registry comes of entries that do not hold each candidate once."""

    class Forgets(ShipRules):
        def entry(self, canonical: Candidate, members: Sequence[Candidate]) -> ShipEntry:
            return super().entry(canonical, [canonical])

    asked = normalizer("Gull", "the Gull", rules=Forgets())
    asked.separate()
    with pytest.raises(InvariantError, match="lost or doubled"):
        asked.normalize(Produced(result=ModelCandidate.of(BOTH)))


def test_own_rules_are_another_policy() -> None:
    """What a subclass gives is part of its identity."""

    class Worded(ShipRules):
        domain_rule = "A ship is no boat."

    class Filed(ShipRules):
        schema = "harbour.ship.v4"

    class Counted(ShipRules):
        def details(self, canonical: Candidate, members: Sequence[Candidate]) -> Mapping[str, Any]:
            return {"times": -len(members)}

    rules = [ShipRules(), RiggedRules(), Worded(), Filed(), Counted()]
    assert len({registry_fingerprint(one) for one in rules}) == len(rules)


@pytest.mark.parametrize(
    "parts",
    [
        (),
        (("c1", "c2"),),
        (("c1",), ("c1", "c2")),
        (("c1",), ("c3",)),
        (("c1",), ()),
    ],
)
def test_a_refusal_divides_its_group(parts: tuple[tuple[str, ...], ...]) -> None:
    """A rule that would have the model told something else about a group is a fault, not sent."""

    class Muddled(ShipRules):
        def refusal(self, ids: Sequence[str], members: Sequence[Candidate]) -> TypedRefusal:
            divided = tuple(Part(label="", ids=part) for part in parts)
            return TypedRefusal(reason="two ships", parts=divided)

    with pytest.raises(InvariantError, match="divide"):
        normalizer("Gull", "Marlin", "Hulk", rules=Muddled()).compatible(("c1", "c2"))


def test_a_domain_rule_that_cannot_be_told_is_found_before_anything_is_asked() -> None:
    """Its size is checked with the candidates, not when a model's answer has been paid for."""

    class Fits(ShipRules):
        domain_rule = "x" * DOMAIN_RULE_MAX_BYTES

    class TooLong(ShipRules):
        domain_rule = "x" * (DOMAIN_RULE_MAX_BYTES - 1) + "\u00e9"

    normalizer("Gull", rules=Fits())
    with pytest.raises(ContractError, match=f"at most {DOMAIN_RULE_MAX_BYTES} bytes"):
        normalizer("Gull", rules=TooLong())


@pytest.mark.parametrize(
    ("cells", "parts"), [(JOINED_MAX, JOINED_MAX), (JOINED_MAX + 1, JOINED_MAX + 2)]
)
def test_a_part_is_joined_to_one_of_a_few(cells: int, parts: int) -> None:
    """`the Cell` may be any of the numbered ones; beyond the limit none is tried."""
    names = [*(f"Cell {n}" for n in range(cells)), "the Cell"]
    members = [Candidate(source_id=name, name=name) for name in names]
    refusal = ShipRules().refusal([f"c{n}" for n in range(len(names))], members)
    assert refusal is not None
    assert len(refusal.parts) == parts


@pytest.mark.parametrize(
    ("rules", "names"), [(LocationRules(), ("Cell 3", "Cell 4")), (ItemRules(), ("gold", "silver"))]
)
def test_each_member_needs_its_id(rules: RegistryRules[Any, Any], names: tuple[str, ...]) -> None:
    """Rules that are asked about more members than ids would answer about others."""
    members = [rules.candidate_type(source_id=name, name=name) for name in names]
    with pytest.raises(ValueError, match="zip"):
        rules.refusal(["c1"], members)


@pytest.mark.parametrize(
    "word", ["Square", "top-sail", "2nd", "\uff4c\uff41\uff54\uff45\uff45\uff4e", "o'"]
)
def test_a_word_that_no_name_can_have_is_an_error(word: str) -> None:
    """A mark that could never count would be a rule that is not kept."""
    with pytest.raises(ContractError, match=f"axis rig: `{word}` must be letters alone"):
        MarkAxis(name="rig", kind=MarkKind.OPPOSITE, values=("gaff", f"lateen {word}"))


def test_a_word_has_one_meaning() -> None:
    """A word stands once on an axis, and on one axis of the rules."""
    with pytest.raises(ContractError, match="axis rig: `gaff` stands twice"):
        MarkAxis(name="rig", kind=MarkKind.OPPOSITE, values=("gaff", "lateen gaff"))
    other = MarkAxis(name="sail", kind=MarkKind.OPPOSITE, values=("lateen", "none"))
    with pytest.raises(ContractError, match="axes of these rules: `lateen` stands twice"):
        MarkRules(axes=(RIG, other))
