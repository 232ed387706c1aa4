import functools
import os
import subprocess
import sys
from typing import Any

import msgspec
import pytest

from notarius.registries import (
    STANDARD_COINAGES,
    Coinage,
    Currency,
    ItemCandidate,
    ItemKind,
    ItemNormalizer,
    ItemRules,
    LocationRules,
    NpcCandidate,
    NpcNormalizer,
    NpcRules,
    RegistryNormalizer,
    RegistryRules,
    _apply,
    _currency,
    _distinct,
    _normalize,
    _probes,
    _rules,
    registry_fingerprint,
)
from notarius.semanticreconcile import (
    CATEGORY_PROSE,
    IssueCategory,
    Part,
    _policy,
    _render,
    parse_proposal,
)

ALL = (NpcRules, ItemRules, LocationRules)


def fingerprints() -> list[str]:
    """Return the identity of each registry's policy."""
    return [registry_fingerprint(rules()) for rules in ALL]


@functools.cache
def before() -> list[str]:
    """Return the identities of the policy as it is."""
    return fingerprints()


@pytest.fixture(autouse=True)
def _known() -> None:
    """Take them before a test changes anything."""
    before()


WORDS = CATEGORY_PROSE[IssueCategory.OVERLAPPING_GROUPS]
OTHER_PROSE = {
    **CATEGORY_PROSE,
    IssueCategory.OVERLAPPING_GROUPS: msgspec.structs.replace(WORDS, shape="One place only."),
}
CROWN = Coinage(code="crown", label="crowns", names=("crown",))


def other_part(*, same: bool, **fields: Any) -> Part:  # noqa: ANN401 - any field
    """Return a part that says the opposite about its ids."""
    return Part(same=not same, **fields)


def test_each_registry_has_an_identity_of_its_own() -> None:
    """Registries with other words or rules never share a checkpoint."""
    assert len(set(before())) == len(ALL)
    assert fingerprints() == before()


def test_an_identity_does_not_depend_on_the_candidates() -> None:
    """The policy's identity is not that of its input."""
    one, other = (NpcNormalizer([NpcCandidate(source_id=s, name=s)]) for s in ("a", "b"))
    assert one.fingerprint == other.fingerprint == before()[0]


@pytest.mark.parametrize(
    ("module", "name", "other"),
    [
        pytest.param(_policy, "CORRECTION_MODE", "blind_v0", id="correction mode"),
        pytest.param(_policy, "CATEGORY_PROSE", OTHER_PROSE, id="prose of a category"),
        pytest.param(_policy, "RESPONSE_SCHEMA", {"type": "object"}, id="response schema"),
        pytest.param(_render, "CLOSING", "Thank you.", id="closing instruction"),
        pytest.param(_rules, "MARK_TABLES", {"numerals": "i ii"}, id="mark tables"),
        pytest.param(_rules, "MARK_PROBES", ("Cell 3",), id="mark probes"),
        pytest.param(_rules, "mark_reason", lambda _: "different", id="reasons of marks"),
        pytest.param(_normalize, "UNSAFE_GROUPS", "other_reason", id="reason code"),
    ],
)
def test_a_shared_rule_changes_every_identity(
    module: object, name: str, other: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What all registries share is part of each one's identity."""
    monkeypatch.setattr(module, name, other)
    for was, now in zip(before(), fingerprints(), strict=True):
        assert now != was


@pytest.mark.parametrize(
    ("target", "name", "other"),
    [
        pytest.param(_rules, "CURRENCY_TABLES", {"name_limit": 10}, id="currency words"),
        pytest.param(_rules, "CURRENCY_PROBES", ("gold",), id="currency probes"),
        pytest.param(_rules, "CURRENCY_REASON", "different", id="currency reason"),
        pytest.param(_rules, "UNKNOWN_COIN", "odd money", id="label of unknown coins"),
        pytest.param(_rules, "SEVERAL_COINS", "a mix", id="label of mixed coins"),
        pytest.param(_rules, "NOT_MONEY", "a thing", id="label of things"),
        pytest.param(ItemRules, "domain_rule", "Keep coins apart.", id="currency guidance"),
    ],
)
def test_a_rule_of_items_changes_theirs_alone(
    target: object, name: str, other: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """People and places need no new identity when money is judged or explained otherwise."""
    monkeypatch.setattr(target, name, other)
    now = fingerprints()
    assert now[1] != before()[1]
    assert (now[0], now[2]) == (before()[0], before()[2])


@pytest.mark.parametrize("at", range(len(ALL)))
def test_mark_rules_are_part_of_their_registry(at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Changed marks of one registry change the identity of that registry alone."""
    bare = msgspec.structs.replace(ALL[at].mark_rules, axes=())
    monkeypatch.setattr(ALL[at], "mark_rules", bare)
    changed = [now != was for now, was in zip(fingerprints(), before(), strict=True)]
    assert changed == [n == at for n in range(3)]


def test_money_of_no_coin_is_part_of_the_items_identity() -> None:
    """What a name does not say to be money is probed as money too."""

    class Golden(ItemRules):
        def money(self, candidate: ItemCandidate) -> Currency | None:
            declared = candidate.item_kind is ItemKind.CURRENCY
            return Currency(code="gp") if declared else super().money(candidate)

    assert ItemRules().content()["unnamed_refusal"] is not None
    assert Golden().content()["unnamed_refusal"] is None


@pytest.mark.parametrize("name", sorted({name for name, _ in _probes.WEIGHT_PROBES}))
def test_a_weight_is_probed_for_names_of_coins(name: str) -> None:
    """Of anything else no weight would be looked for."""
    assert ItemRules().money(ItemCandidate(source_id="s1", name=name)) is not None


def test_coins_are_part_of_the_items_identity() -> None:
    """Other coins, another label or another order of coins is another policy."""
    gold = STANDARD_COINAGES[3]
    named = [
        STANDARD_COINAGES,
        (*STANDARD_COINAGES, CROWN),
        STANDARD_COINAGES[:4],
        (*STANDARD_COINAGES[:3], msgspec.structs.replace(gold, label="golden coins")),
        (*STANDARD_COINAGES[:3], msgspec.structs.replace(gold, names=("gold", "aurum"))),
        STANDARD_COINAGES[::-1],
    ]
    found = [ItemNormalizer([], coinages=coinages).fingerprint for coinages in named]
    assert len(set(found)) == len(named)
    assert found[0] == before()[1]


@pytest.mark.parametrize(
    ("module", "tables", "elsewhere"),
    [
        (_distinct, _probes.MARK_TABLES, {"MARK_RULES"}),
        # The bound of a configured term, and the coins themselves.
        (_currency, _probes.CURRENCY_TABLES, {"TERM_LIMIT", "STANDARD_COINAGES"}),
    ],
)
def test_no_table_of_the_rules_is_forgotten(
    module: object, tables: dict[str, object], elsewhere: set[str]
) -> None:
    """Each public table or limit of the name rules stands in the content of the fingerprint."""
    constants = {name for name in vars(module) if name.isupper() and name[0] != "_"}
    assert {name.lower() for name in constants - elsewhere} == set(tables)
    assert elsewhere < constants


@pytest.mark.parametrize(
    ("module", "name", "found"),
    [
        pytest.param(_distinct, "_number", [], id="numbers"),
        pytest.param(_distinct, "_serial", [], id="places in a count"),
        pytest.param(_currency, "_part_codes", None, id="money"),
    ],
)
def test_changed_code_shows_in_the_probes(
    module: object, name: str, found: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Code that judges names otherwise changes the identity without any changed table."""
    monkeypatch.setattr(module, name, lambda *_, **__: found)
    _currency._classify.cache_clear()
    try:
        assert fingerprints()[1] != before()[1]
    finally:
        _currency._classify.cache_clear()


@pytest.mark.parametrize(
    ("module", "name", "other"),
    [
        pytest.param(_apply, "fold", str, id="comparing names"),
        pytest.param(_apply, "_once", tuple, id="keeping texts once"),
        pytest.param(_apply, "entry_id", lambda *_: "npc-1", id="entry ids"),
        pytest.param(_rules, "Part", other_part, id="what may stay"),
    ],
)
def test_what_application_does_is_part_of_every_identity(
    module: object, name: str, other: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Code that would write other entries, or refuse in other words, is another policy."""
    monkeypatch.setattr(module, name, other)
    for was, now in zip(before(), fingerprints(), strict=True):
        assert now != was


def test_an_identity_is_the_same_in_every_process() -> None:
    """No identity depends on the seed of hashes, which differs from process to process."""
    code = (
        "from notarius.registries import *\n"
        "for rules in (NpcRules, ItemRules, LocationRules): print(registry_fingerprint(rules()))"
    )
    for seed in ("1", "2", "random"):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        )
        assert done.stdout.split() == before()


def test_rules_give_plain_content() -> None:
    """Whoever writes a registry of their own gets a fingerprint from content alone."""

    class Shops(LocationRules):
        domain_rule = "A shop is no market."

    other: RegistryRules[Any, Any] = Shops()
    assert registry_fingerprint(other) not in before()


def test_a_blind_retry_is_another_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was made without correction is never taken for what was made with it."""
    refused = RegistryNormalizer._refused

    def blind(self: Any, split: Any, candidate: Any) -> Any:  # noqa: ANN401 - a stand-in
        return msgspec.structs.replace(
            refused(self, split, candidate), candidate=None, guidance=None
        )

    monkeypatch.setattr(RegistryNormalizer, "_refused", blind)
    assert all(now != was for now, was in zip(fingerprints(), before(), strict=True))


def test_a_repair_by_guessing_is_another_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids that are read more kindly change every identity."""
    monkeypatch.setattr(
        _normalize, "parse_proposal", lambda text: parse_proposal(text.replace('"C2 "', '"c2"'))
    )
    assert all(now != was for now, was in zip(fingerprints(), before(), strict=True))
