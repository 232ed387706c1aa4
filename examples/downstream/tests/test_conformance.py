"""The suites and strategies that come with the wheels, over the registry of factions."""

from typing import ClassVar

from hypothesis import given, settings
from hypothesis import strategies as st
from notarius.attempts.testing import NormalizerConformance, ScriptedProducer
from notarius.contracts import Accepted, FellBack, Prompt, ResponseContract
from notarius.registries import Registry, RegistryNormalizer
from notarius.semanticreconcile import ReconciliationContract, request_ids
from notarius.semanticreconcile.testing import strategies

from factionbook import FactionCandidate, FactionEntry, FactionRules, NameMatcher
from factionbook.command import reconcile

NAMES = (
    "the Harpers",
    "Those Who Harp",
    "Harpers of Waterdeep",
    "Waterdeep chapter of the Harpers",
    "Harpers of Neverwinter",
    "Order of the Gauntlet",
    "rebel Salt Company",
    "loyal Salt Company",
)
CANDIDATES = [FactionCandidate(source_id=f"s-{name}", name=name) for name in NAMES]


def normalizer() -> RegistryNormalizer[FactionCandidate, FactionEntry]:
    """Return a normalizer about the candidates."""
    return RegistryNormalizer(FactionRules(), CANDIDATES)


class TestFactionNormalizer(NormalizerConformance):
    """The machine can rely on the normalizer with the rules of factions."""

    accepted_reply: ClassVar[str] = (
        '{"duplicate_groups": [{"candidate_ids": ["c1", "c2"], "canonical_id": "c1"},'
        ' {"candidate_ids": ["c4", "c3"], "canonical_id": "c3"}]}'
    )
    refused_reply: ClassVar[str] = (
        '{"duplicate_groups": [{"candidate_ids": ["c1", "c2"], "canonical_id": "c1"},'
        ' {"candidate_ids": ["c3", "c5"], "canonical_id": "c3"}]}'
    )

    def make_normalizer(self) -> RegistryNormalizer[FactionCandidate, FactionEntry]:
        """Return a fresh one."""
        return normalizer()

    def make_contract(self) -> ResponseContract:
        """Return the contract of the protocol."""
        return ReconciliationContract()


def value_of(replies: list[str]) -> tuple[Registry[FactionEntry], ScriptedProducer]:
    """Hold an exchange with a model that gives these replies."""
    model = ScriptedProducer(replies)
    outcome = reconcile(normalizer(), model, normalize_retries=len(replies) - 1)
    assert isinstance(outcome, Accepted | FellBack)
    return outcome.value, model


@settings(deadline=None, max_examples=50)
@given(st.lists(strategies.replies(request_ids(len(NAMES))), min_size=2, max_size=2))
def test_no_reply_loses_a_faction_or_mixes_chapters(replies: list[str]) -> None:
    """Whatever a model answers, each candidate is in one entry, and an entry has one seat."""
    registry, _ = value_of(replies)
    held = sorted(source_id for entry in registry.entries for source_id in entry.source_ids)
    assert held == sorted(candidate.source_id for candidate in CANDIDATES)
    seats = {item.source_id: FactionRules().seat(item).casefold() for item in CANDIDATES}
    for entry in registry.entries:
        assert {seats[source_id] for source_id in entry.source_ids} == {entry.seat.casefold()}


@settings(deadline=None, max_examples=50)
@given(strategies.valid_replies(request_ids(len(NAMES)), unknown=strategies.imitating_ids("m4rk")))
def test_a_correction_holds_no_text_of_a_model_or_a_candidate(reply: str) -> None:
    """Beside the original prompt and the exact answer there are closed words alone."""
    _, model = value_of([reply, '{"duplicate_groups": []}'])
    for request in model.requests[1:]:
        *original, answer, correction = request.messages
        assert Prompt(messages=tuple(original)) == normalizer().request.prompt
        assert answer.content == reply
        assert "m4rk" not in correction.content
        assert "Salt" not in correction.content


def test_the_matcher_answers_in_the_protocol() -> None:
    """What the matcher proposes is accepted at the first attempt: the rules were asked before."""
    chapter = FactionCandidate(source_id="n", name="Harpers in Neverwinter", aliases=("Harpers",))
    others = [FactionCandidate(source_id=name, name=name) for name in ("the Harpers", "HARPERS")]
    found = [chapter, *others]
    about = RegistryNormalizer(FactionRules(), found)
    outcome = reconcile(about, NameMatcher(found, about), normalize_retries=0)
    assert isinstance(outcome, Accepted)
    assert [entry.source_ids for entry in outcome.value.entries] == [
        ("n",),
        ("the Harpers", "HARPERS"),
    ]
