import itertools
import json
import re
import subprocess
import sys
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from notarius.contracts import GUIDANCE_MAX_BYTES, StructuralDefect
from notarius.semanticreconcile import (
    ALL_CATEGORIES,
    Listed,
    Proposal,
    ProposedGroup,
    Subject,
    build_request,
    parse_proposal,
    request_ids,
    split_proposal,
)
from notarius.semanticreconcile._protocol import ALIASES_MAX, NAME_MAX_BYTES
from notarius.semanticreconcile.testing import reply_text, strategies

T = TypeVar("T")

OFFERED = strategies.offered_ids(max_size=6)
THING = Subject(one="thing", many="things", example=("a", "b", "the a"))


@given(OFFERED.flatmap(lambda ids: st.tuples(st.just(ids), strategies.proposals(ids))))
def test_a_reply_means_the_proposal_that_it_was_written_from(
    drawn: tuple[tuple[str, ...], Proposal],
) -> None:
    """Writing a proposal and reading it gives the proposal, in whatever form it is written."""
    assert parse_proposal(reply_text(drawn[1].groups)) == drawn[1]


@given(st.data())
def test_every_writing_of_a_proposal_is_read_as_it(data: st.DataObject) -> None:
    """White space, the order of keys, escapes, names and foreign keys change no meaning."""
    proposal = data.draw(strategies.proposals(request_ids(4)))
    assert parse_proposal(data.draw(strategies.written(proposal))) == proposal


def drawn_from(strategy: st.SearchStrategy[T], *, runs: int = 5) -> list[T]:
    """Return draws, the same each time; of many short runs, since a long one repeats itself."""
    seen: list[T] = []

    @settings(max_examples=20, database=None, derandomize=False)
    @given(strategy)
    def look(value: T) -> None:
        seen.append(value)

    for number in range(runs):
        seed(number)(look)()
    return seen


def ids_in(proposal: Proposal) -> Iterator[str]:
    """Yield every id of a proposal."""
    for group in proposal.groups:
        yield from (*group.candidate_ids, group.canonical_id)


def test_proposals_have_every_defect_and_none() -> None:
    """No kind of group is missing from what a test is shown: alone in a reply, and among others."""
    ids = request_ids(9)
    proposals = drawn_from(strategies.proposals(ids), runs=15)
    splits = [split_proposal(proposal, ids, lambda ids: None) for proposal in proposals]
    seen = Counter(
        frozenset(i.category for i in group.issues) for split in splits for group in split.refused
    )
    reachable = {str(category) for category in ALL_CATEGORIES} - {"typed_application_refused"}
    assert {category for found in seen for category in found} == reachable
    # What is wrong with a group is often one thing alone.
    assert {category for found in seen if len(found) == 1 for category in found} == reachable
    assert {bool(split.safe and split.refused) for split in splits} == {True, False}
    safe = [group for split in splits for group in split.safe]
    assert len(safe) > seen.total() / 4
    assert {len(group.ids) for group in safe} == {2, 3, 4}
    assert {len(proposal.groups) for proposal in proposals} > {0, 1, 2, 3, 4}
    assert {type(some_id) for proposal in proposals for some_id in ids_in(proposal)} == {str}
    # A repeat is one whatever the order of its ids: it may be turned around.
    assert any(
        len(one.candidate_ids) > 2
        and one.candidate_ids[::-1] == other.candidate_ids
        and one.canonical_id == other.canonical_id
        for proposal in proposals
        for one, other in itertools.permutations(proposal.groups, 2)
    )


def test_an_only_candidate_stands_beside_invented_ones() -> None:
    """Where there is nothing to join, groups still hold what was offered and what was not."""
    drawn = drawn_from(strategies.proposals(("c1",)))
    assert {"c1"} < {some_id for proposal in drawn for some_id in ids_in(proposal)}


def test_two_candidates_are_often_one_clean_group() -> None:
    """The shortest list that can have a duplicate has it in many proposals."""
    ids = request_ids(2)
    found = [
        split_proposal(proposal, ids, lambda ids: None)
        for proposal in drawn_from(strategies.proposals(ids))
    ]
    assert sum(bool(split.safe and not split.refused) for split in found) > len(found) / 10


BREAKS: dict[str, Callable[[str], object]] = {
    "no text": lambda text: not text,
    "cut off": lambda text: text.startswith('{"') and "]" not in text,
    "code fences": lambda text: text.startswith("```json\n{") and text.endswith("}\n```"),
    "prose before": lambda text: re.match(r"\w.* \{", text),
    "prose after": lambda text: re.search(r"\}\n\w", text),
    "two answers": lambda text: (
        len(text) > 9 and text[: len(text) // 2] == text[len(text) // 2 :]
    ),
    "NUL": lambda text: text.startswith("{") and text.endswith("}\x00"),
    "byte-order mark": lambda text: text.startswith("\ufeff{"),
    "half a character": lambda text: text.startswith("{") and text.endswith("}\ud800"),
    "an array": lambda text: text.startswith("[{") and text.endswith("}]"),
    "null": lambda text: text == "null",
    "an empty object": lambda text: text == "{}",
    "no groups": lambda text: json.loads(text) == {"duplicate_groups": None},
    "no group": lambda text: json.loads(text) == {"duplicate_groups": [None]},
    "numbers as ids": lambda text: json.loads(text)["duplicate_groups"][0]["canonical_id"] == 1,
    "an id for a list": lambda text: (
        json.loads(text)["duplicate_groups"][0]["candidate_ids"] == "c1"
    ),
    "own key twice": lambda text: (
        [key for key, _ in json.loads(text, object_pairs_hook=list)].count("duplicate_groups") > 1
    ),
    "foreign key twice": lambda text: (
        [pair for pair in json.loads(text, object_pairs_hook=list) if pair[0] == "x"]
        == [("x", 1), ("x", 1)]
    ),
    "NaN": lambda text: text.startswith("{") and json.loads(text)["x"] != json.loads(text)["x"],
    "half a character, escaped": lambda text: json.loads(text)["x"] == "\ud800",
    "too deep": lambda text: (
        json.loads(text) and parse_proposal(text) is StructuralDefect.TOO_DEEP
    ),
}  # fmt: skip


def test_broken_replies_have_every_defect_that_a_text_can_have() -> None:
    """None holds a proposal, and all ways of not holding one are there."""
    texts = drawn_from(strategies.broken_replies(request_ids(3)), runs=20)
    told = {"empty_reply", "cut_off_reply", "refused_reply", "oversized_reply"}
    seen = {parse_proposal(text) for text in texts}
    assert seen == {defect for defect in StructuralDefect if defect not in told}
    # What comes after a reply's own keys stands in one object with them.
    twice = {parse_proposal(text) for text in texts if text.endswith('"x": 1, "x": 1}')}
    assert twice == {StructuralDefect.REPEATED_KEY}

    def is_broken_so(text: str, holds: Callable[[str], object]) -> bool:
        try:
            return bool(holds(text))
        except (ValueError, LookupError, TypeError):
            return False

    assert [
        name
        for name, holds in BREAKS.items()
        if not any(is_broken_so(text, holds) for text in texts)
    ] == []


def test_replies_are_good_and_broken_in_turn() -> None:
    """A test is shown many of both, about the ids that it names."""
    foreign = strategies.imitating_ids("MARK")
    texts = drawn_from(strategies.replies(request_ids(3), unknown=foreign))
    found = [parse_proposal(text) for text in texts]
    good = [parsed for parsed in found if isinstance(parsed, Proposal)]
    assert len(found) / 4 < len(good) < len(found) * 3 / 4
    ids = {some_id for proposal in good for some_id in ids_in(proposal)}
    assert ids > set(request_ids(3))
    assert any("MARK" in some_id for some_id in ids)
    assert all("MARK" in some_id for some_id in ids - set(request_ids(3)))


def test_a_proposal_is_written_in_many_ways() -> None:
    """White space, escapes, the order of keys, names and foreign keys and values all vary."""
    group = ProposedGroup(candidate_ids=("c1", "é"), canonical_id="c1")
    texts = drawn_from(strategies.written(Proposal(groups=(group,))))
    spaces = {"", " ", "\n", "\r\n\t "}
    assert {text[: text.index("{")] for text in texts} == spaces
    assert {text[text.rindex("}") + 1 :] for text in texts} == spaces
    assert {"\n" in text.strip() for text in texts} == {True, False}
    assert {"é" in text for text in texts} == {True, False}
    written = [json.loads(text) for text in texts]
    groups = [reply["duplicate_groups"][0] for reply in written]
    assert {frozenset(reply) for reply in written} == {
        frozenset({"duplicate_groups"}),
        frozenset({"duplicate_groups", "note"}),
    }
    assert {key for one in groups for key in one} == {
        "candidate_ids", "canonical_id", "name", "why",
    }  # fmt: skip
    assert {next(iter(one)) for one in groups} == {key for one in groups for key in one}
    assert {"name" in one for one in groups} == {"why" in one for one in groups} == {True, False}
    values = [reply["note"] for reply in written if "note" in reply]
    for value in (None, 2.5, "c1", ["c1", {"name": None}], {"candidate_ids": 1}):
        assert value in values


@given(OFFERED.flatmap(lambda ids: st.tuples(st.just(ids), strategies.near_miss_ids(ids))))
def test_a_near_miss_was_not_offered(drawn: tuple[tuple[str, ...], str]) -> None:
    """However short the list is, none of its ids is called unknown."""
    assert drawn[1] not in drawn[0]


def test_near_misses_are_what_models_make_of_an_id() -> None:
    """Every way of getting an id almost right is drawn."""
    assert set(drawn_from(strategies.near_miss_ids(request_ids(3)))) == {
        "c4", "c0", "c01", "C1", "1", "[c1]", "c1 ", "c1\u200b", "\u04411", "c1, c2", "c3_b2",
        "c-1", "",
    }  # fmt: skip


def test_imitations_are_of_all_that_a_model_must_not_be_told() -> None:
    """Addresses, categories and line breaks are drawn, and a text that is longer than guidance."""
    drawn = drawn_from(strategies.imitating_ids("MARK"))
    assert all("MARK" in text for text in drawn)
    assert any(text.startswith("https://MARK.") for text in drawn)
    assert any("\nMARK" in text for text in drawn)
    assert max(map(len, drawn)) > GUIDANCE_MAX_BYTES
    for category in ALL_CATEGORIES:
        assert {f"{category} MARK", f"MARK_{category}"} <= set(drawn)


def test_sizes_are_those_asked_for() -> None:
    """Lists and ids have every size within the bounds, and no other."""
    for draw in (strategies.offered_ids, strategies.listed):
        sizes = {len(found) for found in drawn_from(draw(min_size=2, max_size=3), runs=1)}
        assert sizes == {2, 3}
    assert {len(ids) for ids in drawn_from(strategies.offered_ids())} == set(range(10))


def test_candidates_have_hostile_names() -> None:
    """Among the texts are often some that look alike, like an id, a line or an answer's end."""
    lists = drawn_from(strategies.listed(), runs=10)
    assert {len(found) for found in lists} == set(range(10))
    candidates = [one for found in lists for one in found]
    for texts in (
        Counter(one.name for one in candidates),
        Counter(alias for one in candidates for alias in one.aliases),
        Counter(one.description for one in candidates),
    ):
        common = {text for text, times in texts.items() if times > len(candidates) / 400}
        assert {"c1", '"}]}', "{one}"} <= common
        for sign in ("\n", "\u2028", "\u202e"):
            assert any(sign in text for text in common)
        assert len({unicodedata.normalize("NFC", text) for text in common}) < len(common)
        assert any(len(text.encode()) > NAME_MAX_BYTES for text in common)
        assert len(texts) > 2 * len(common)
    assert "" in {one.description for one in candidates}
    assert {len(one.aliases) for one in candidates} == set(range(ALIASES_MAX + 2))


@given(strategies.proposals(request_ids(3), unknown=strategies.imitating_ids("MARK")))
def test_what_was_not_offered_is_marked(proposal: Proposal) -> None:
    """A test can look for the marker wherever no text of a model may be."""
    for some_id in ids_in(proposal):
        assert some_id in request_ids(3) or "MARK" in some_id


@given(strategies.listed())
def test_a_list_is_one_line_a_candidate(candidates: list[Listed]) -> None:
    """No candidate that is drawn forges a line of the prompt."""
    prompt = build_request(THING, candidates).prompt.messages[-1].content
    empty = build_request(THING, []).prompt.messages[-1].content
    assert prompt.count("\n") == empty.count("\n") + max(0, len(candidates) - 1)


def test_short_lists_have_proposals() -> None:
    """Where nothing or one thing was offered, there are proposals all the same."""

    @settings(max_examples=100, database=None)
    @given(OFFERED.filter(lambda ids: len(ids) < 2).flatmap(strategies.replies))
    def look(text: str) -> None:
        parsed = parse_proposal(text)
        if isinstance(parsed, Proposal):
            lengths.update(len(group.candidate_ids) for group in parsed.groups)

    lengths: set[int] = set()
    look()
    assert lengths >= {0, 1, 2}


WITHOUT_HYPOTHESIS = (
    "import notarius.semanticreconcile, notarius.semanticreconcile.testing\n"
    "try:\n"
    "    import notarius.semanticreconcile.testing.strategies\n"
    "except ModuleNotFoundError as error:\n"
    "    print(error.name, error)\n"
)


def said_by(code: str) -> str:
    """Return what a new process prints."""
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout


def test_hypothesis_is_needed_by_the_strategies_alone() -> None:
    """The package and its helpers import without hypothesis; the strategies say what is missing."""
    said = said_by(f"import sys\nsys.modules['hypothesis'] = None\n{WITHOUT_HYPOTHESIS}")
    assert said.startswith("hypothesis ")
    assert "needs hypothesis" in said
    assert "notarius-semanticreconcile[testing]" in said


def test_what_hypothesis_lacks_is_said_as_it_is(tmp_path: Path) -> None:
    """Nobody is told to install hypothesis where it is there and something else is missing."""
    (tmp_path / "hypothesis.py").write_text("import no_such_module\n")
    said = said_by(f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\n{WITHOUT_HYPOTHESIS}")
    assert said.startswith("no_such_module ")
    assert "[testing]" not in said


def test_a_reply_is_what_a_model_would_write() -> None:
    """Keys in the order of the schema, and letters as they are."""
    group = ProposedGroup(candidate_ids=("c1", "c2"), canonical_id="c2")
    assert json.loads(reply_text([group])) == {
        "duplicate_groups": [{"name": "it", "candidate_ids": ["c1", "c2"], "canonical_id": "c2"}]
    }
    assert "Zoë" in reply_text([group], name="Zoë")


@pytest.mark.parametrize("name", ["Orla", '"}], "x": {'])
def test_a_reply_names_its_groups(name: str) -> None:
    """The free-text name stands in every group, and changes nothing."""
    group = ProposedGroup(candidate_ids=("c1", "c2"), canonical_id="c2")
    text = reply_text([group, group], name=name)
    assert text.count('"name"') == 2
    assert parse_proposal(text) == Proposal(groups=(group, group))
