from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec
import pytest

from notarius.contracts import ContractError, Normalized, NormalizeRetry
from notarius.registries import (
    STANDARD_COINAGES,
    Coinage,
    ItemCandidate,
    ItemKind,
    ItemNormalizer,
    LocationCandidate,
    NpcCandidate,
)

Answer: TypeAlias = Callable[..., Any]
Items: TypeAlias = Callable[..., list[ItemCandidate]]

CROWN = Coinage(code="crown", label="silver crowns", names=("crown",))
CURRENCY, OBJECT = ItemKind.CURRENCY, ItemKind.OBJECT


def item(name: str, kind: ItemKind | None = None, denomination: str | None = None) -> ItemCandidate:
    """Return an item that says what it is."""
    return ItemCandidate(source_id=name, name=name, item_kind=kind, denomination=denomination)


def pair(*found: ItemCandidate) -> list[ItemCandidate]:
    """Return items with source ids of their own."""
    return [msgspec.structs.replace(one, source_id=f"s{n}") for n, one in enumerate(found)]


def allowed(answer: Answer, candidates: list[ItemCandidate]) -> bool:
    """Whether all of these items may be one entry."""
    ids = [f"c{n}" for n in range(1, len(candidates) + 1)]
    found = answer(candidates, [(ids, "c1")])
    if isinstance(found, NormalizeRetry):
        assert [item.category for item in found.issue_counts] == ["typed_application_refused"]
    return isinstance(found, Normalized)


@pytest.mark.parametrize(
    "names",
    [
        ("gold", "GP", "50 gold pieces", "5 g.p."),
        ("100 gp", "5 gp"),
        ("Silver Piece", "10 SP"),
        ("gold ring", "Ring of gold"),
        ("coins", "money"),
        ("10 gp and 5 sp", "3 silver, 2 gold"),
        ("Longsword +1", "+1 longsword"),
    ],
)
def test_one_kind_of_thing_may_be_one_entry(
    names: tuple[str, ...], answer: Answer, items: Items
) -> None:
    """Amounts, abbreviations, plurals and case do not keep the same coin or thing apart."""
    assert allowed(answer, items(*names))


@pytest.mark.parametrize(
    "names",
    [
        ("gold", "silver"),
        ("100 gp", "100 sp"),
        ("10 gp", "1 pp"),
        ("gold", "gold ring"),
        ("GP", "sack of gold"),
        ("coins", "gold"),
        ("coins", "coin pouch"),
        ("10 gp and 5 sp", "3 cp and 2 pp"),
        ("10 gp and 5 sp", "coins"),
        ("old gold coins", "old silver coins"),
        ("gold pcs", "silver pcs"),
        ("5 GP's", "5 SP's"),
        ("gold coin(s)", "silver coin(s)"),
        ("g\u200bold", "s\u200bilver"),
        ("stolen gold", "stolen silver"),
        ("10 gp and 5 sp", "10 gp and some coins"),
        ("gold", "GOLD PIECES", "5 gp", "electrum"),
        ("+1 Longsword", "+2 Longsword"),
        ("Cell key 3", "Cell key 4"),
    ],
)
def test_different_things_are_never_one_entry(
    names: tuple[str, ...], answer: Answer, items: Items
) -> None:
    """Rows 18, 19 and 30: denominations, money and objects, and marked things stay apart."""
    assert not allowed(answer, items(*names))


@pytest.mark.parametrize(
    ("registry", "one", "other"),
    [
        ("location", "Cell 3", "Cell 4"),
        ("location", "North Gate", "South Gate"),
        ("npc", "Baron Vex", "Baron Vex II"),
        ("npc", "Baron Vex Jr.", "Baron Vex III"),
    ],
)
def test_marked_people_and_places_stay_apart(
    registry: str, one: str, other: str, answer: Answer
) -> None:
    """Rows 18, 21 and 22: a number, a direction or a generation tells two entries apart."""
    kind = {"location": LocationCandidate, "npc": NpcCandidate}[registry]
    candidates = [kind(source_id=f"s{n}", name=name) for n, name in enumerate((one, other, one))]
    assert isinstance(answer(candidates, [(["c1", "c2"], "c1")]), NormalizeRetry)
    assert isinstance(answer(candidates, [(["c1", "c3"], "c1")]), Normalized)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (item("gold", OBJECT), item("gold bar"), True),
        (item("gold", OBJECT), item("gold"), False),
        (item("royals", CURRENCY, "gp"), item("10 gp"), True),
        (item("royals", denomination="gp"), item("10 gp"), True),
        (item("gold", CURRENCY, "sp"), item("silver"), True),
        (item("gold", denomination="sp"), item("gold"), False),
        (item("gold", CURRENCY), item("gp"), True),
        (item("shells", CURRENCY), item("shells"), False),
        (item("shells", CURRENCY), item("coins"), True),
        (item("shells", CURRENCY), item("gp"), False),
        (item("shells", CURRENCY), item("purse of gold and silver", CURRENCY), False),
        (item("10 gp and 5 sp"), item("purse of gold and silver", CURRENCY), True),
    ],
)
def test_what_an_item_says_wins_over_its_name(
    one: ItemCandidate, other: ItemCandidate, expected: bool, answer: Answer
) -> None:
    """An explicit kind or denomination decides; the name is read only where they are missing."""
    assert allowed(answer, pair(one, other)) is expected
    assert allowed(answer, pair(other, one)) is expected


def test_money_without_a_known_coin_has_telling_marks(answer: Answer) -> None:
    """Scrip of the north is not scrip of the south, though both are money that no coin names."""
    north, south = (item(f"{side} March scrip", CURRENCY) for side in ("North", "South"))
    assert not allowed(answer, pair(north, south))
    assert allowed(answer, pair(north, item("north march scrip", CURRENCY)))
    assert allowed(answer, pair(item("north gold", CURRENCY), item("south gold", CURRENCY)))


@pytest.mark.parametrize("told", ["description", "evidence"])
def test_a_pound_of_gold_is_not_the_coin(told: str, answer: Answer) -> None:
    """An item's texts tell goods by weight from the coin of that name, unless it says its kind."""
    pound = msgspec.structs.replace(
        item("Gold"), **{told: "1 lb. of gold" if told == "description" else ("1 lb. of gold",)}
    )
    assert not allowed(answer, pair(item("Gold"), pound))
    assert allowed(answer, pair(pound, pound))
    declared = msgspec.structs.replace(pound, item_kind=CURRENCY)
    assert allowed(answer, pair(item("Gold"), declared))


@pytest.mark.parametrize(
    ("candidate", "kind", "denomination"),
    [
        (item("100 gp"), CURRENCY, "gp"),
        (item("10 gp and 5 sp"), CURRENCY, None),
        (item("shells", CURRENCY), CURRENCY, None),
        (item("gold and coins", CURRENCY), CURRENCY, None),
        (item("gold", OBJECT), OBJECT, None),
        (item("gold ring"), OBJECT, None),
        (item("royals", denomination="pp"), CURRENCY, "pp"),
    ],
)
def test_an_entry_says_which_money_it_is(
    candidate: ItemCandidate, kind: ItemKind, denomination: str | None
) -> None:
    """An item entry names its kind, and its denomination where there is exactly one."""
    (entry,) = ItemNormalizer([candidate]).separate().entries
    assert (entry.item_kind, entry.denomination) == (kind, denomination)


def test_amounts_are_never_converted(answer: Answer, items: Items) -> None:
    """Row 30: amounts of one coin are names of that coin; none is added up or exchanged."""
    found = answer(items("100 gp", "5 gp", "1 pp"), [(["c1", "c2"], "c2")])
    gold, platinum = found.value.entries
    assert (gold.name, gold.aliases, gold.denomination) == ("5 gp", ("100 gp",), "gp")
    assert (platinum.name, platinum.aliases, platinum.denomination) == ("1 pp", (), "pp")


def test_a_setting_brings_its_own_coins(answer: Answer, items: Items) -> None:
    """A configured coin is told apart from the standard ones and from things of its name."""
    asked = ItemNormalizer(
        [*items("5 crowns", "a crown", "silver", "crown jewels"), item("x", denomination="crown")],
        coinages=(*STANDARD_COINAGES, CROWN),
    )
    entries = answer(asked, [(["c1", "c2", "c5"], "c1")]).value.entries
    assert [entry.denomination for entry in entries] == ["crown", "sp", None]
    assert not asked.compatible(("c1", "c3"))
    assert not asked.compatible(("c1", "c4"))
    told = answer(asked, [(["c1", "c3"], "c1")]).guidance
    assert "silver crowns: c1" in told


def test_an_unknown_denomination_is_an_error(items: Items) -> None:
    """A coin that the setting does not have is a mistake in the input, said before any model."""
    with pytest.raises(ContractError, match="denomination"):
        ItemNormalizer([*items("rope"), item("x", denomination="crown")])
    with pytest.raises(ContractError, match=r"cp, sp, ep, gp, pp$"):
        ItemNormalizer([item("x", denomination="crown")])
    ItemNormalizer([item("x", denomination="crown")], coinages=(CROWN,))
    with pytest.raises(ContractError, match="denomination"):
        ItemNormalizer([item("x", denomination="gp")], coinages=(CROWN,))


def test_an_unknown_kind_is_an_error() -> None:
    """It is said which there are."""
    with pytest.raises(ContractError, match="`item_kind` must be currency or object"):
        item("gold", "currency")  # type: ignore[arg-type]  # a text is none of them


def test_an_object_has_no_denomination() -> None:
    """An item can't be a thing and a coin at once."""
    with pytest.raises(ContractError, match="denomination"):
        item("gold", OBJECT, "gp")
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(
            b'{"source_id":"a","name":"a","item_kind":"object","denomination":"gp"}',
            type=ItemCandidate,
        )
