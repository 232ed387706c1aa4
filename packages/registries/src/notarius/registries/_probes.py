"""The tables and probes that stand for the rules in a fingerprint.

What only code decides shows in the verdicts on these names: changed code that judges one of them
differently changes the fingerprint. Add a probe with each new case that a rule learns.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from notarius.contracts import FinishReason, Reply
from notarius.registries import _currency, _distinct

CURRENCY_TABLES: Final[Mapping[str, object]] = {
    "name_limit": _currency.NAME_LIMIT,
    "words": {role.value: words for role, words in _currency.WORDS.items()},
    "prose_limit": _currency.PROSE_LIMIT,
    "masses": _currency.MASSES,
    "shapes": _currency.SHAPES,
    "not_coins": _currency.NOT_COINS,
    "by_weight": _currency.BY_WEIGHT,
}
MARK_TABLES: Final[Mapping[str, object]] = {
    "name_limit": _distinct.NAME_LIMIT,
    "regnal_words": _distinct.REGNAL_WORDS,
    "regnal_untelling": sorted(_distinct.REGNAL_UNTELLING),
    "label_nouns": _distinct.LABEL_NOUNS,
    "amount_cues": _distinct.AMOUNT_CUES,
    "cardinals": _distinct.CARDINALS,
    "ordinals": _distinct.ORDINALS,
    "numerals": _distinct.NUMERALS,
    "generations": _distinct.GENERATIONS,
}

CURRENCY_PROBES: Final = (
    "gold",
    "Gold Piece (GP)",
    "100 gp",
    "1,000 GP",
    "2d6 x 10 gp",
    "g.p.",
    "\uff27\uff30",
    "pieces of silver",
    "a few platinum coins",
    "10 gp and 5 sp",
    "coins",
    "gold ring",
    "sack of gold",
    "pouch of coins",
    "gold worth of platinum",
    "gems worth 850 gold total",
    "small copper platter",
    "go\u00adld",
    "silver crown",
)
WEIGHT_PROBES: Final = (
    ("gold", ("a coin",)),
    ("Gold", ("1lb of gold.",)),
    ("the gold", ("a coin", "Gold, 50 gp, 1 lb.")),
    ("the silver", ("two Silver ingots",)),
    ("gold piece", ("1 lb. of gold",)),
    *(
        ("gold", (about,))
        for about in (
            "50 to the pound",
            "5 gold for 1 lb. of flour",
            "20 pounds of gold coins",
            "Gold (1 lb.), 50 gp",
            "the bar. Gold changed hands",
            "Gold: 250 coins, 5 lb.",
            "a pound of the refined gold",
        )
    ),
)
"""Names of coins, and what is said about an item of that name."""
UNNAMED_PROBES: Final = ("North March scrip", "South March scrip")
MARK_PROBES: Final = (
    "Cell 3",
    "Cell 4",
    "cell three",
    "Room 101b",
    "Guard 2",
    "Block C",
    "+1 Longsword",
    "Longsword plus two",
    "Arrows (20)",
    "20 arrows",
    "Baron Vex II",
    "Baron Vex Jr.",
    "Rudolf the Third",
    "Pitt the Younger",
    "Mr. Bennet",
    "Lady Bennet",
    "North Gate",
    "North-South Road",
    "the second floor",
    "Potion of Greater Healing",
    "gems worth 850 gold",
    "Cell3",
    "Cell\u20113",
    "Ce\u00adll 3",
    "Longsword+1",
)
ALIAS_PROBES: Final[Mapping[str, tuple[str, ...]]] = {
    "Cell 3": ("the dark one",),
    "Cell 4": ("The Dark One",),
    "Cell 5": (),
}
"""Names with their aliases, of which two are one."""
ENTRY_PROBES: Final[tuple[dict[str, Any], ...]] = (
    {
        "source_id": "s2",
        "name": "Zoe\u0308",
        "aliases": (" the Smith", ""),
        "description": "a smith",
        "evidence": ("she forges", "she forges"),
        "extra": {"n": 1},
    },
    {"source_id": "s1", "name": "ZO\u00cb", "aliases": ("THE SMITH", "Zo"), "description": " "},
)
ALIKE_PROBES: Final = ("Cell 3", "Cell 4", "Guard", "Guard")
"""Names of further probe candidates, after those of `ENTRY_PROBES`."""


def _reply(*groups: tuple[str, list[str]]) -> Reply:
    listed = [
        f'{{"name": "x", "candidate_ids": {json.dumps(ids)}, "canonical_id": "{canonical}"}}'
        for canonical, ids in groups
    ]
    return Reply(text=f'{{"duplicate_groups": [{", ".join(listed)}]}}')


REPLY_PROBES: Final = (
    _reply(),
    _reply(("c2", ["c1", "c2"]), ("c5", ["c6", "c5"])),
    _reply(("c1", ["c1", "c2"]), ("c3", ["c3", "c4"])),
    _reply(("c1", ["c1", "c2"]), ("c1", ["c2", "c1"]), ("c3", ["c3", "c99"])),
    _reply(("c1", ["c1", "C2 "]), ("c3", ["[c3]", "c4"]), ("c5", ["c5", "c6", "c6"])),
    _reply(("c1", ["c1", "c2", "c5"]), ("c5", ["c5", "c6"])),
    _reply(("c7", ["c7", "c8"]), ("c8", ["c8", "c9", "c10", "c11", "c12"])),
    Reply(text='{"duplicate_groups": []}', finish_reason=FinishReason.LENGTH),
    Reply(text='{"duplicate_groups": []}', finish_reason=FinishReason.REFUSAL),
    Reply(text='{"duplicate_groups": [], "why": {"a": 1, "a": 2}}'),
    Reply(text='{"duplicate_groups": [{"candidate_ids": ["c1", "c2"], "canonical_id": null}]}'),
    Reply(text=" "),
    Reply(text="```json\n{}\n```"),
)
"""Replies about the probe candidates: right ones, each kind of wrong one, and unreadable ones."""
