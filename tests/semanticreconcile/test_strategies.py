import subprocess
import sys
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from notarius.contracts import StructuralDefect
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
from notarius.semanticreconcile.testing import reply_text, strategies

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


def test_proposals_have_every_defect_and_none() -> None:
    """No kind of group is missing from what a test is shown: alone in a reply, and among others."""
    ids = request_ids(5)
    seen: Counter[frozenset[str]] = Counter()
    together: set[bool] = set()

    @settings(max_examples=400, database=None)
    @given(strategies.proposals(ids))
    def look(proposal: Proposal) -> None:
        split = split_proposal(proposal, ids, lambda ids: None)
        seen.update(frozenset(i.category for i in group.issues) for group in split.refused)
        seen[frozenset()] += len(split.safe)
        together.add(bool(split.safe and split.refused))

    look()
    reachable = {str(category) for category in ALL_CATEGORIES} - {"typed_application_refused"}
    assert {category for found in seen for category in found} == reachable
    # What is wrong with a group is often one thing alone.
    assert {category for found in seen if len(found) == 1 for category in found} == reachable
    assert seen[frozenset()] > sum(seen.values()) / 4
    assert together == {True, False}


def test_broken_replies_have_every_defect_that_a_text_can_have() -> None:
    """None holds a proposal, and all ways of not holding one are there."""
    seen: set[object] = set()

    @settings(max_examples=400, database=None)
    @given(strategies.broken_replies(request_ids(3)))
    def look(text: str) -> None:
        seen.add(parse_proposal(text))

    look()
    told = {"empty_reply", "cut_off_reply", "refused_reply", "oversized_reply"}
    assert seen == {defect for defect in StructuralDefect if defect not in told}


@given(OFFERED.flatmap(lambda ids: st.tuples(st.just(ids), strategies.near_miss_ids(ids))))
def test_a_near_miss_was_not_offered(drawn: tuple[tuple[str, ...], str]) -> None:
    """However short the list is, none of its ids is called unknown."""
    assert drawn[1] not in drawn[0]


@given(strategies.proposals(request_ids(3), unknown=strategies.imitating_ids("MARK")))
def test_what_was_not_offered_is_marked(proposal: Proposal) -> None:
    """A test can look for the marker wherever no text of a model may be."""
    for group in proposal.groups:
        for some_id in (*group.candidate_ids, group.canonical_id):
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


def test_hypothesis_is_needed_by_the_strategies_alone() -> None:
    """The package and its helpers import without hypothesis; the strategies say what is missing."""
    code = (
        "import sys\n"
        "sys.modules['hypothesis'] = None\n"
        "import notarius.semanticreconcile, notarius.semanticreconcile.testing\n"
        "try:\n"
        "    import notarius.semanticreconcile.testing.strategies\n"
        "except ModuleNotFoundError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert "needs hypothesis" in done.stdout
    assert "notarius-semanticreconcile[testing]" in done.stdout


@pytest.mark.parametrize("name", ["Orla", '"}], "x": {'])
def test_a_reply_names_its_groups(name: str) -> None:
    """The free-text name stands in every group, and changes nothing."""
    group = ProposedGroup(candidate_ids=("c1", "c2"), canonical_id="c2")
    text = reply_text([group, group], name=name)
    assert text.count('"name"') == 2
    assert parse_proposal(text) == Proposal(groups=(group, group))
