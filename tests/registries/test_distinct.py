import json
from collections import defaultdict
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from notarius.registries._distinct import (
    MARK_RULES,
    NAME_LIMIT,
    MarkKind,
    distinct,
    distinguishing_marks,
    first_conflict,
    mark_key,
)

REGISTRIES = st.sampled_from(sorted(MARK_RULES))
WORDS = ["+1", "+2", "II", "III", "Jr.", "3", "4", "(20)", "Cell", "Vex", "Lord", "Lady", "North",
         "South", "the", "third", "Greater", "of", "#", "plus", "one", "-1", "x"]  # fmt: skip
NAMES = st.lists(st.sampled_from(WORDS), max_size=5).map(" ".join)
ANY_TEXT = st.text(st.characters(exclude_categories=())) | NAMES
CANDIDATES = st.lists(NAMES, min_size=1, max_size=3)


@pytest.mark.parametrize(
    ("registry", "a", "b", "kind"),
    [
        ("location", "Cell 3", "Cell 4", MarkKind.NUMBER),
        ("location", "Room 101", "the room #102", MarkKind.NUMBER),
        ("location", "Room 101 of the Inn", "Room 102 of the Inn", MarkKind.NUMBER),
        ("location", "Cell Three", "Cell 4", MarkKind.NUMBER),
        ("location", "Block C", "Block D", MarkKind.NUMBER),
        ("location", "Gate 3b", "Gate 3c", MarkKind.NUMBER),
        ("location", "Bay IV", "Bay V", MarkKind.NUMBER),
        ("location", "the A19", "the A64", MarkKind.NUMBER),
        ("location", "the second floor", "3rd Floor", MarkKind.ORDINAL),
        ("location", "North Gate", "South Gate", MarkKind.OPPOSITE),
        ("location", "North Gate", "gate (southern)", MarkKind.OPPOSITE),
        ("location", "Upper Zadash", "Lower Zadash", MarkKind.OPPOSITE),
        ("item", "+1 Longsword", "+2 Longsword", MarkKind.BONUS),
        ("item", "Longsword", "Longsword +1", MarkKind.BONUS),
        ("item", "Longsword, +1", "Longswords (+2)", MarkKind.BONUS),
        ("item", "plus one longsword", "longsword", MarkKind.BONUS),
        ("item", "Longsword \N{MINUS SIGN}1", "Longsword +1", MarkKind.BONUS),
        ("item", "Potion of Greater Healing", "Potion of Healing (Superior)", MarkKind.DEGREE),
        ("item", "Potion of Healing", "Potions of Greater Healing", MarkKind.DEGREE),
        ("item", "Crossbow, light", "Crossbow, heavy", MarkKind.OPPOSITE),
        ("item", "Longsword+1", "Longsword+2", MarkKind.BONUS),
        ("item", "gold ring", "silver ring", MarkKind.MATERIAL),
        ("item", "old gold coins", "old silver coins", MarkKind.MATERIAL),
        ("item", "sack of gold", "sack of silver", MarkKind.MATERIAL),
        ("location", "Cell3", "cell 4", MarkKind.NUMBER),
        ("item", "Key 3", "Key 4", MarkKind.NUMBER),
        ("item", "Spell scroll (level 3)", "Spell scroll (level 4)", MarkKind.NUMBER),
        ("npc", "Baron Vex", "Baron Vex II", MarkKind.REGNAL),
        ("npc", "Baron Vex Jr.", "Baron Vex III", MarkKind.REGNAL),
        ("npc", "Rudolf the Third of Zenda", "Rudolf V of Zenda", MarkKind.REGNAL),
        ("npc", "Pitt the Elder", "Pitt the Younger", MarkKind.REGNAL),
        ("npc", "Mr. Bennet", "MRS BENNET", MarkKind.GENDERED_TITLE),
        ("npc", "Lord Briarwood", "Lady Briarwood", MarkKind.GENDERED_TITLE),
        ("npc", "the King", "Queen", MarkKind.GENDERED_TITLE),
        ("npc", "Guard 1", "Guard 2", MarkKind.NUMBER),
        ("npc", "the first guard", "the second guard", MarkKind.ORDINAL),
    ],
)
def test_names_that_differ_in_a_mark_are_distinct(
    registry: str, a: str, b: str, kind: MarkKind
) -> None:
    """Two things that a number, a bonus or an opposite tells apart are never one."""
    assert distinguishing_marks(a, b, rules=MARK_RULES[registry]) is kind


@pytest.mark.parametrize(
    ("registry", "a", "b"),
    [
        ("item", "20 arrows", "10 arrows"),
        ("item", "Arrows (20)", "Arrows (50)"),
        ("item", "Arrow", "Arrows (20)"),
        ("item", "gems worth 850 gold", "gems worth 900 gold"),
        ("item", "rope 50 ft", "rope 100 ft"),
        ("item", "dagger x2", "dagger x3"),
        ("item", "plus one longsword", "Longsword (+1)"),
        ("item", "Ammunition, +1, +2, or +3", "Ammunition, +1"),
        ("item", "+1 Longsword", "+2 Rapier"),
        ("location", "Cell 3", "cell three"),
        ("location", "Gate", "North Gate"),
        ("location", "North Gate", "Northeast Gate"),
        ("location", "North-South Road", "South Road"),
        ("location", "the A1", "the A1M"),
        ("location", "Block A, Gate 3b", "Block B, Gate 3a"),
        ("location", "Lord Sutan's house", "Lady Sutan's house"),
        ("location", "Cell", "Cell 3"),
        ("npc", "Sovereign Uriel Tal'Dorei", "Sovereign Uriel Tal\u2019Dorei III"),
        ("npc", "Baron Vex", "Baron Vex I"),
        ("npc", "Malcolm", "Malcolm X"),
        ("npc", "Baron Vex II", "Baron Vex the Second"),
        ("npc", "Mr. Bennet", "Bennet"),
        ("npc", "Lord and Lady Briarwood", "Lord Briarwood"),
        ("npc", "Guards 2", "Guards 3"),
        ("npc", "Henry VIII", "Henry the 8th"),
        ("npc", "Baron Vex 2", "Baron Vex II"),
        ("npc", "Louis XIV", "Louis"),
        ("npc", "Captain Vi", "Captain"),
        ("item", "Major Harlan's Diary", "Harlan's Diary"),
        ("npc", "\N{DRAGON} 1", "\N{SNAKE} 2"),
    ],
)  # fmt: skip
def test_other_names_are_left_to_the_model(registry: str, a: str, b: str) -> None:
    """Amounts, short forms and spellings are no marks; what may be one thing is not refused."""
    assert distinguishing_marks(a, b, rules=MARK_RULES[registry]) is None


@pytest.mark.parametrize("sign", "-\u2010\u2011\u2212")
def test_a_sign_may_be_any_that_looks_like_it(sign: str) -> None:
    """A minus, a hyphen or one that does not break, as text has them."""
    rules = MARK_RULES["item"]
    minus = mark_key("Longsword -1", rules=rules)
    assert minus.marks == ((MarkKind.BONUS, "bonus", "-1"),)
    assert mark_key(f"Longsword {sign}1", rules=rules) == minus


@pytest.mark.parametrize("apostrophe", "'\u2018\u2019\u02bc")
def test_an_apostrophe_may_be_any_that_looks_like_it(apostrophe: str) -> None:
    """Possessives, and names that are written with one, are compared without."""
    written = mark_key(f"Tal{apostrophe}Dorei{apostrophe}s Gate", rules=MARK_RULES["location"])
    assert written.base == ("taldorei", "gate")


@pytest.mark.parametrize(
    ("registry", "name", "other"),
    [
        ("location", "Tessa's Gate", "Tessa Gate"),
        ("location", "Room 1,000", "Room 1000"),
        ("location", "Room 007", "Room 7"),
        ("location", "Room 0", "Room zero"),
        ("item", "Longsword + 1", "Longsword +1"),
        ("item", "Longsword plus 1", "Longsword +1"),
        ("npc", "Guard (old) 3", "Guard old 3"),
        ("npc", "Guard [old] 3", "Guard old 3"),
    ],
)
def test_writings_of_one_name_are_taken_apart_alike(registry: str, name: str, other: str) -> None:
    """They have the same words, and the same mark."""
    rules = MARK_RULES[registry]
    assert mark_key(name, rules=rules) == mark_key(other, rules=rules)


@pytest.mark.parametrize(
    "name", ["Guard (3)", "Guard [3]", "Vex II Marrow", "II", "3", "Captain x3", "Guards 3"]
)
def test_a_number_elsewhere_is_no_mark(name: str) -> None:
    """In brackets, in the middle, alone or after a plural it tells no person from another."""
    assert mark_key(name, rules=MARK_RULES["npc"]).marks == ()


def test_a_symbol_is_a_word_of_a_name() -> None:
    """A name may be made of nothing else; other signs are punctuation."""
    assert mark_key("\N{DRAGON}!", rules=MARK_RULES["npc"]).base == ("\N{DRAGON}",)


def test_a_place_in_a_count_is_a_generation_only_behind_a_name() -> None:
    """`the Third` alone may be third in anything."""
    rules = MARK_RULES["npc"]
    assert mark_key("the Third", rules=rules).marks == ((MarkKind.ORDINAL, "ordinal", "3"),)
    assert mark_key("Vex the Third", rules=rules).marks == ((MarkKind.REGNAL, "regnal", "3"),)


@pytest.mark.parametrize("article", ["a", "an", "the"])
def test_an_article_is_no_part_of_a_name(article: str) -> None:
    """Nor is it the thing of which a number is the label."""
    rules = MARK_RULES["npc"]
    assert mark_key(f"{article} Guard", rules=rules) == mark_key("Guard", rules=rules)
    assert mark_key(f"{article} 3", rules=rules).marks == ()


def test_a_shared_name_outweighs_a_mark() -> None:
    """Candidates that share a name or alias in any spelling are not called distinct."""
    rules = MARK_RULES["npc"]
    numbered = ["Sovereign Uriel III", "the Sovereign"]
    assert distinct(numbered, ["Sovereign Uriel"], rules=rules) is MarkKind.REGNAL
    assert distinct(numbered, ["Sovereign Uriel", "SOVEREIGN"], rules=rules) is None
    assert distinct(numbered, ["Sovereign Uriel", "sovereign  Uriel, iii"], rules=rules) is None
    assert distinct(numbered, ["Sovereign Uriel", "", "!"], rules=rules) is MarkKind.REGNAL


@given(REGISTRIES, ANY_TEXT, ANY_TEXT)
def test_any_two_names_have_one_answer_both_ways(registry: str, a: str, b: str) -> None:
    """No name raises, order and case do not matter, and no name is distinct from itself."""
    rules = MARK_RULES[registry]
    found = distinguishing_marks(a, b, rules=rules)
    assert distinguishing_marks(b, a, rules=rules) is found
    assert distinguishing_marks(a.casefold(), b.casefold(), rules=rules) is found
    assert distinguishing_marks(a, a, rules=rules) is None


@given(REGISTRIES, NAMES, NAMES)
def test_case_does_not_matter(registry: str, a: str, b: str) -> None:
    """Names are as distinct in capitals as without."""
    rules = MARK_RULES[registry]
    found = distinguishing_marks(a, b, rules=rules)
    assert distinguishing_marks(a.upper(), b.lower(), rules=rules) is found


@given(REGISTRIES, st.lists(CANDIDATES, max_size=6))
@example("location", [["Cell 3"], ["Gate"], ["Cell 4"]])
@example("location", [["Cell 3", "it"], ["Cell 4", "it"], ["Cell"]])
@example("location", [["Cell 3", "it"], ["Cell 4", "it"], ["Cell 5", "that"]])
def test_a_group_conflicts_exactly_if_two_members_do(
    registry: str, members: list[list[str]]
) -> None:
    """The search over a whole group finds a conflict if and only if a pair has one."""
    rules = MARK_RULES[registry]
    pairs = {
        (i, j): kind
        for i, j in combinations(range(len(members)), 2)
        if (kind := distinct(members[i], members[j], rules=rules))
    }
    found = first_conflict(members, rules=rules)
    assert bool(found) == bool(pairs)
    assert found is None or pairs[found.first, found.second] is found.kind


@pytest.mark.parametrize("shared", [[], ["the cell"]])
def test_a_large_group_is_searched_without_trying_all_pairs(shared: list[str]) -> None:
    """Twenty thousand cells are searched, whether the first pair or none is a conflict."""
    cells = [[f"Cell {n}", *shared] for n in range(20_000)]
    found = first_conflict(cells, rules=MARK_RULES["location"])
    assert (found is None) == bool(shared)
    same = [["Cell 3", f"alias {n}"] for n in range(20_000)] + [["Cell"]]
    assert first_conflict(same, rules=MARK_RULES["location"]) is None


@pytest.mark.parametrize("unit", ["+1 ", "a\u0301\u0316", "1,", "(", "'a", "9", "II ", "\ufdfa"])
def test_a_huge_name_has_no_marks(unit: str) -> None:
    """A name beyond the limit is compared whole; one at the limit is still read."""
    huge = unit * (1_000_000 // len(unit))
    at_limit = (unit * NAME_LIMIT)[:NAME_LIMIT]
    for rules in MARK_RULES.values():
        assert mark_key(huge, rules=rules).marks == ()
        assert distinct([huge], [f"{huge} II"], rules=rules) is None
        assert distinct([at_limit], [at_limit], rules=rules) is None


def test_a_name_at_the_limit_is_taken_apart() -> None:
    """One character more, and it is compared whole: as a name and as an alias."""
    rules = MARK_RULES["npc"]
    longest = "GUARD 3".ljust(NAME_LIMIT)
    assert mark_key(longest, rules=rules) == mark_key("Guard 3", rules=rules)
    assert mark_key(f"{longest} ", rules=rules).base == (f"{longest} ".casefold(),)
    alias = "Bob".ljust(NAME_LIMIT)
    assert distinct(["Guard 3", alias], ["Guard 4", "bob"], rules=rules) is None
    longer = f"{alias} "
    assert distinct(["Guard 3", longer], ["Guard 4", "bob"], rules=rules) is MarkKind.NUMBER
    assert distinct(["Guard 3", longer], ["Guard 4", longer.upper()], rules=rules) is None


@pytest.mark.parametrize("registry", sorted(MARK_RULES))
def test_no_two_records_of_one_thing_are_called_distinct(registry: str, shared_data: Path) -> None:
    """On labelled registries the rule refuses no right merge, by names alone or with aliases."""
    rules = MARK_RULES[registry]
    caught = 0
    for path in sorted((shared_data / "registry" / registry).glob("*.jsonl")):
        things = defaultdict(list)
        for line in path.read_text("utf-8").splitlines():
            record = json.loads(line)
            things[mark_key(record["name"], rules=rules).base].append(record)
        for a, b in (pair for records in things.values() for pair in combinations(records, 2)):
            if distinguishing_marks(a["name"], b["name"], rules=rules):
                assert a["entity"] != b["entity"], (a["name"], b["name"])
                caught += 1
    assert caught >= {"npc": 33, "item": 999, "location": 21}[registry]
