import json
import random
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from notarius.contracts import canonical_json
from notarius.pipeline import InputError, Settings, reconcile
from notarius.pipeline._diff import (
    LINES_MAX,
    Difference,
    EntryPart,
    RegistryDifference,
    Regrouped,
    diff,
    difference_lines,
)
from notarius.registries import NpcCandidate, NpcEntry, NpcRules, Registry

Write = Callable[..., Path]
Scripted = Callable[..., Any]
Groups = Callable[..., str]
Make = Callable[..., Path]
Partition = list[list[str]]
NAMES = ("Ada", "Bea", "Cleo", "Dora", "Edda", "Fay")
RECORDS = [{"source_id": f"s{n}", "name": name} for n, name in enumerate(NAMES, start=1)]


@pytest.fixture
def made(tmp_path: Path, candidate_file: Write, scripted: Scripted, groups: Groups) -> Make:
    """Make a folder by a run whose model proposes these groups; ids are places in the list."""

    def make(
        name: str,
        *proposed: Sequence[int],
        records: Sequence[dict[str, Any]] = RECORDS,
        kind: Any = "npc",  # noqa: ANN401 - one of a literal
    ) -> Path:
        source = candidate_file(list(records), name="candidates.jsonl")
        reply = groups(*([f"c{place}" for place in group] for group in proposed))
        reconcile(
            Settings(registry=kind, candidates=source, out=tmp_path / name),
            backend=scripted([reply]),
        )
        return tmp_path / name

    return make


def only(found: Difference) -> RegistryDifference:
    """Return the difference of the only registry."""
    (registry,) = found.registries
    return registry


def kinds(found: RegistryDifference) -> set[str]:
    """Return the kinds of difference that there are."""
    names = ("merged", "split", "moved", "appeared", "vanished", "renamed", "changed")
    return {name for name in names if getattr(found, name)}


def ids(parts: Iterable[EntryPart]) -> list[list[str]]:
    """Return the candidates of parts of entries."""
    return [list(part.source_ids) for part in parts]


def test_the_same_result_has_no_difference(made: Make) -> None:
    """A folder is like itself and like that of another run on the same input."""
    a, b = made("a", [1, 2]), made("b", [2, 1])
    assert diff(a, a).empty
    assert kinds(only(diff(a, b))) == {"renamed"}
    again = made("c", [1, 2])
    assert diff(a, again).empty
    assert difference_lines(diff(a, again)) == (
        f"before: {a}",
        f"after:  {again}",
        "npc: 5 entries before, 5 after; no difference",
    )


def test_entries_merge_and_split(made: Make) -> None:
    """Several entries that became one have merged, and the other way round it has split."""
    a, b = made("a", [1, 2]), made("b", [1, 2, 3], [5, 6])
    found = only(diff(a, b))
    assert kinds(found) == {"merged"}
    assert [(ids(at.before), ids(at.after)) for at in found.merged] == [
        ([["s1", "s2"], ["s3"]], [["s1", "s2", "s3"]]),
        ([["s5"], ["s6"]], [["s5", "s6"]]),
    ]
    assert [part.name for part in found.merged[0].before] == ["Ada", "Cleo"]
    entry_ids = {e["entry_id"] for e in json.loads((b / "registry.json").read_bytes())["entries"]}
    assert found.merged[0].after[0].entry_id in entry_ids
    back = only(diff(b, a))
    assert kinds(back) == {"split"}
    assert back.split == tuple(Regrouped(before=at.after, after=at.before) for at in found.merged)
    assert difference_lines(diff(a, b))[2:] == (
        "npc: 5 entries before, 3 after; 2 merges",
        "  merged: `Ada`, `Cleo` into `Ada` (`s1`, `s2`, `s3`)",
        "  merged: `Edda`, `Fay` into `Edda` (`s5`, `s6`)",
    )


def test_a_candidate_moves(made: Make) -> None:
    """One that left an entry for another has moved; the two entries neither merged nor split."""
    a, b = made("a", [1, 2, 3], [4, 5]), made("b", [1, 2], [4, 5, 3])
    found = only(diff(a, b))
    assert kinds(found) == {"moved"}
    (move,) = found.moved
    assert (move.source_ids, move.before.name, move.after.name) == (("s3",), "Ada", "Dora")
    assert difference_lines(diff(a, b))[3:] == ("  moved: `s3` from `Ada` to `Dora`",)


def test_entries_that_share_most_are_the_same(made: Make) -> None:
    """In a tangle the larger shares stay, and on a tie the one with the smallest id does."""
    a, b = made("a", [1, 2, 3, 4], [5, 6]), made("b", [1, 5], [2, 3, 4])
    moves = only(diff(a, b)).moved
    assert [move.source_ids for move in moves] == [("s1",), ("s6",)]
    crossed = only(diff(made("c", [1, 2], [3, 4]), made("d", [1, 3], [2, 4])))
    assert [move.source_ids for move in crossed.moved] == [("s2",), ("s3",)]
    # The smallest id that both sides know: what has appeared does not count.
    a, b = made("e", [1, 2], [3, 4], records=RECORDS[1:]), made("f", [1, 3, 5], [2, 4])
    for one, other in ((a, b), (b, a)):
        moves = only(diff(one, other)).moved
        assert [move.source_ids for move in moves] == [("s3",), ("s4",)]


def test_candidates_appear_and_vanish(made: Make) -> None:
    """Candidates of one side alone are told of with their entries, and are in nobody's way."""
    a = made("a", [1, 2], records=RECORDS[:4])
    b = made("b", [1, 2, 5], records=[RECORDS[place] for place in (0, 2, 3, 4, 5)])
    found = only(diff(a, b))
    assert kinds(found) == {"appeared", "vanished", "merged"}
    assert (ids(found.vanished), ids(found.appeared)) == ([["s2"]], [["s6"], ["s5"]])
    assert [part.name for part in found.appeared] == ["Ada", "Edda"]
    assert ids(found.merged[0].before) == [["s1"], ["s3"]]
    assert difference_lines(diff(a, b))[2:] == (
        "npc: 3 entries before, 3 after; 1 merge, 2 candidates appeared, 1 candidate vanished",
        "  merged: `Ada`, `Cleo` into `Ada` (`s1`, `s3`)",
        "  appeared: `s6` in `Ada`",
        "  appeared: `s5` in `Edda`",
        "  vanished: `s2` from `Ada`",
    )


def test_a_rename_is_no_other_change(made: Make) -> None:
    """An entry of the same candidates with another name is renamed; its aliases follow from it."""
    found = diff(made("a", [1, 2]), made("b", [2, 1]))
    assert kinds(only(found)) == {"renamed"}
    (name,) = only(found).renamed
    assert (name.source_ids, name.before, name.after) == (("s1", "s2"), "Ada", "Bea")
    assert difference_lines(found)[3:] == ("  renamed: `Ada` to `Bea` (`s1`, `s2`)",)
    less = [RECORDS[0], {**RECORDS[1], "aliases": ["Countess"]}]
    found = diff(made("c", [1, 2], records=RECORDS[:2]), made("d", [2, 1], records=less))
    assert kinds(only(found)) == {"renamed", "changed"}
    assert only(found).changed[0].fields == ("aliases",)


@pytest.mark.parametrize(
    ("before", "after", "field"),
    [
        ({"aliases": ["Countess"]}, {"aliases": ["Lady"]}, "aliases"),
        ({"description": "Tall."}, {"description": "Small."}, "descriptions"),
        ({"description": "Tall."}, {}, "descriptions"),
        ({"evidence": ["One.", "Two."]}, {"evidence": ["One."]}, "evidence"),
        ({"extra": {"a": 1}}, {"extra": {"a": True}}, "extra"),
        ({"extra": {"a": 1}}, {"extra": {"a": 1.0}}, "extra"),
        ({"extra": {}}, {}, "extra"),
    ],
)
def test_changed_fields_are_named(
    made: Make, before: dict[str, Any], after: dict[str, Any], field: str
) -> None:
    """For entries of the same candidates it is said which fields differ, not how."""
    records = [[{**RECORDS[0], **more}, RECORDS[1]] for more in (before, after)]
    a, b = (made(name, [2, 1], records=given) for name, given in zip("ab", records, strict=True))
    for one, other in ((a, b), (b, a)):
        found = only(diff(one, other))
        assert kinds(found) == {"changed"}
        (change,) = found.changed
        assert (change.source_ids, change.after, change.fields) == (("s1", "s2"), "Bea", (field,))
    assert difference_lines(diff(a, b))[3:] == (f"  changed: `Bea` in {field} (`s1`, `s2`)",)


def test_an_item_may_become_money(made: Make) -> None:
    """What items have beside other entries is compared too."""
    records = [{"source_id": "s1", "name": "gold coins"}]
    a = made("a", records=[{**records[0], "item_kind": "object"}], kind="item")
    b = made("b", records=records, kind="item")
    assert only(diff(a, b)).changed[0].fields == ("item_kind", "denomination")


def test_order_says_nothing(made: Make) -> None:
    """Entries, candidates and texts in another order are the same."""
    records = [{**RECORDS[0], "evidence": ["One.", "Two."]}, *RECORDS[1:]]
    a = made("a", [1, 2], [4, 3], records=records)
    b = made("b", [6, 5], [3, 4], records=records[::-1])
    assert (a / "registry.json").read_bytes() != (b / "registry.json").read_bytes()
    assert diff(a, b).empty


def test_campaigns_are_compared_by_registry(made: Make) -> None:
    """Each registry for itself; one that a side does not have is said to be missing there."""
    for name, kind, group in (
        ("a/npc", "npc", [1, 2]),
        ("a/item", "item", [1, 2]),
        ("b/npc", "npc", [1, 2]),
        ("b/location", "location", [1, 2]),
    ):
        out = made(name.replace("/", "-"), group, records=RECORDS[:3], kind=kind)
        place = out.parent / name
        place.parent.mkdir(exist_ok=True)
        out.rename(place)
    a, b = out.parent / "a", out.parent / "b"
    found = diff(a, b)
    assert [(at.registry, at.only_in, kinds(at)) for at in found.registries] == [
        ("npc", None, set()),
        ("item", "a", {"vanished"}),
        ("location", "b", {"appeared"}),
    ]
    assert not found.empty
    assert difference_lines(found)[2:6] == (
        "npc: 2 entries before, 2 after; no difference",
        "item: 2 entries before, 0 after; no such registry after, 3 candidates vanished",
        "  vanished: `s1`, `s2` from `Ada`",
        "  vanished: `s3` from `Cleo`",
    )
    assert json.loads(canonical_json(found))["registries"][1]["only_in"] == "a"
    with pytest.raises(
        InputError, match=r"a: is a campaign's folder, .* compare that with .*a/npc"
    ):
        diff(b / "npc", a)


def test_an_empty_registry_is_not_a_missing_one(made: Make, tmp_path: Path) -> None:
    """A registry without candidates that only one side has is a difference."""
    for name, kind in (("a/npc", "npc"), ("b/npc", "npc"), ("b/item", "item")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        made("new", records=[], kind=kind).rename(tmp_path / name)
    assert not diff(tmp_path / "a", tmp_path / "b").empty


def test_folders_that_cannot_be_compared_are_refused(made: Make, tmp_path: Path) -> None:
    """Each mistake names the place, what is wrong there, and what to do."""
    npc, item = made("npc-only"), made("item-only", kind="item")
    (tmp_path / "empty").mkdir()
    mixed = made("mixed")
    (mixed / "npc").mkdir()
    (mixed / "npc" / "receipt.json").write_bytes(b"{}")
    failed = tmp_path / "failed"
    (failed / "npc").mkdir(parents=True)
    (failed / "npc" / "receipt.json").write_bytes(b"{}")
    swapped = tmp_path / "swapped"
    swapped.mkdir()
    made("new", kind="item").rename(swapped / "npc")
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / "npc").symlink_to(npc)
    for place, words in (
        ("none", "can't be read as a folder .*; name a folder"),
        ("candidates.jsonl", "can't be read as a folder .*; name a folder"),
        ("empty", "holds no registry.json; name a folder"),
        ("mixed", "holds registry.json and also results in npc, .*; move one"),
        ("failed", "npc: its run left no registry.json; run it again"),
        ("swapped", "npc/registry.json: is the item registry; move it"),
        ("linked", "npc: is a link, which is not followed; put"),
        ("item-only", "holds the item registry, .* the npc registry; compare"),
    ):
        with pytest.raises(InputError, match=f"{tmp_path / place}.*{words}"):
            diff(npc, tmp_path / place)
    assert diff(item, item).empty


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (b"", b"x", "is no valid JSON"),
        (b"npc.v1", b"npc.v2", "has the schema `notarius.registry.npc.v2`"),
        (b'"s1"', b'"s2"', "has `s2` more than once"),
        (b'["s1"]', b"[]", "has an entry without candidates"),
        (b'["s1"]', b"{}", "has another shape"),
        (b'"s1"', b"[" * 100_000, "nested too deeply|has another shape|no valid JSON"),
    ],
)
def test_a_damaged_registry_is_refused(made: Make, old: bytes, new: bytes, words: str) -> None:
    """A registry that can't be compared is named, with a remedy."""
    a, b = made("a"), made("b")
    path = b / "registry.json"
    path.write_bytes(path.read_bytes().replace(old, new, 1))
    with pytest.raises(InputError, match=f"b/registry.json: .*({words}).*; "):
        diff(a, b)


def test_lines_are_bounded_and_visible(made: Make, tmp_path: Path) -> None:
    """A person sees some of many, nothing that a terminal would obey; the result has it all."""
    many = [
        {"source_id": f"s{n}\x1b", "name": "\x1b[2J\n" + "é" * 500, "aliases": [f"a{n}"]}
        for n in range(3 * LINES_MAX)
    ]
    a = made("a\x1b", records=many)
    b = made("b", list(range(1, 3 * LINES_MAX + 1)), records=many)
    for found in (diff(a, b), diff(b, a)):
        lines = difference_lines(found)
        assert all(line.isprintable() and len(line.encode()) < 1000 for line in lines)
        assert len(lines) == 4
        assert canonical_json(found)
        regrouped = only(found).merged or only(found).split
        assert sum(map(len, (regrouped[0].before, regrouped[0].after))) == 3 * LINES_MAX + 1
    lines = difference_lines(diff(made("c", records=[]), a))
    assert len(lines) == 3 + LINES_MAX + 1
    assert lines[-1] == f"  appeared: and {2 * LINES_MAX} more"
    assert all(line.isprintable() for line in lines)


ALL_IDS = [f"c{n}" for n in range(8)]


@st.composite
def partitions(draw: st.DrawFn) -> Partition:
    """Some of the candidates in groups."""
    held = draw(st.lists(st.sampled_from(ALL_IDS), unique=True))
    labels = draw(st.lists(st.integers(0, 3), min_size=len(held), max_size=len(held)))
    groups = [[one for one, at in zip(held, labels, strict=True) if at == n] for n in range(4)]
    return [group for group in groups if group]


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Partition, Partition], Any]:
    """Write two registries, as they are given, into two folders."""
    places = tmp_path_factory.mktemp("a"), tmp_path_factory.mktemp("b")
    rules = NpcRules()

    def write(*given: Partition) -> tuple[Path, ...]:
        for place, groups in zip(places, given, strict=True):
            entries = []
            for group in groups:
                members = [NpcCandidate(source_id=one, name=one) for one in group]
                entries.append(rules.entry(members[0], members))
            registry = Registry[NpcEntry](schema="notarius.registry.npc.v1", entries=tuple(entries))
            (place / "registry.json").write_bytes(canonical_json(registry))
        return places

    return write


def held(groups: Partition) -> set[str]:
    """Return all candidates."""
    return {one for group in groups for one in group}


def together(groups: Partition, among: set[str]) -> set[tuple[str, str]]:
    """Return all pairs of candidates that share an entry."""
    return {
        (one, other)
        for group in groups
        for one in group
        for other in group
        if one != other and {one, other} <= among
    }


@given(before=partitions(), after=partitions())
def test_every_difference_is_told_and_no_other(
    folders: Callable[..., tuple[Path, Path]], before: Partition, after: Partition
) -> None:
    """A brute-force look at all pairs of candidates finds what the difference tells, no more."""
    found = only(diff(*folders(before, after)))
    assert {one for part in found.appeared for one in part.source_ids} == held(after) - held(before)
    assert {one for part in found.vanished for one in part.source_ids} == held(before) - held(after)
    known = held(before) & held(after)
    was, now = together(before, known), together(after, known)
    moved = {one for move in found.moved for one in move.source_ids}
    merged = {one for at in found.merged for part in at.before for one in part.source_ids}
    split = {one for at in found.split for part in at.after for one in part.source_ids}
    assert merged | split | moved <= {one for pair in was ^ now for one in pair}
    assert not merged & split | merged & moved | split & moved
    for pair in now - was:
        assert set(pair) <= merged or moved & set(pair)
    for pair in was - now:
        assert set(pair) <= split or moved & set(pair)
    for at in found.merged:
        assert ids(at.after) == [sorted(one for part in ids(at.before) for one in part)]
        assert len(at.before) > 1
        assert all(set(part) in [set(group) & known for group in before] for part in ids(at.before))
    if sorted(map(sorted, before)) == sorted(map(sorted, after)):
        assert kinds(found) <= {"renamed"}
    else:
        assert not found.empty


@given(before=partitions(), after=partitions())
def test_exchanging_the_sides_exchanges_the_kinds(
    folders: Callable[..., tuple[Path, Path]], before: Partition, after: Partition
) -> None:
    """Merged and split, appeared and vanished, before and after change places, nothing else."""
    a, b = folders(before, after)
    there, back = only(diff(a, b)), only(diff(b, a))

    def turned(items: Iterable[Any]) -> list[tuple[Any, ...]]:
        return [(getattr(at, "source_ids", None), at.after, at.before) for at in items]

    def straight(items: Iterable[Any]) -> list[tuple[Any, ...]]:
        return [(getattr(at, "source_ids", None), at.before, at.after) for at in items]

    assert turned(there.merged) == straight(back.split)
    assert turned(there.split) == straight(back.merged)
    assert turned(there.moved) == straight(back.moved)
    assert turned(there.renamed) == straight(back.renamed)
    assert turned(there.changed) == straight(back.changed)
    assert (there.appeared, there.vanished) == (back.vanished, back.appeared)
    assert there.entries_before == back.entries_after


@given(before=partitions(), after=partitions(), seed=st.integers(0, 99))
def test_the_order_of_entries_changes_nothing(
    folders: Callable[..., tuple[Path, Path]], before: Partition, after: Partition, seed: int
) -> None:
    """Entries, and members that are not the first, may stand in any order."""
    plain = diff(*folders(before, after))
    chance = random.Random(seed)  # noqa: S311 - test data
    mixed = [
        [[group[0], *chance.sample(group[1:], len(group) - 1)] for group in groups]
        for groups in (before, after)
    ]
    for groups in mixed:
        chance.shuffle(groups)
    assert diff(*folders(*mixed)) == plain
    assert only(diff(*folders(before, mixed[0]))).empty
