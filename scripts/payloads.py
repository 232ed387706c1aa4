"""Values as this version makes and writes them, for scripts/store_payloads.py. All are made up."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import msgspec

from notarius import contracts as c
from notarius import registries as r
from notarius import semanticreconcile as s
from notarius.attempts import AttemptPolicy, TerminalPolicy
from notarius.llmruntime import ChatCall, Sampling
from notarius.pipeline import Config, RunSettings, Settings, reconcile, report, run_campaign


def contracts() -> Iterator[object]:
    """Yield one value of each public type of the contracts."""
    message = c.Message(role=c.Role.USER, content="Which of these are the same? «Zoë»\n")
    prompt = c.Prompt.of(message.content, system="You find duplicates.")
    usage = c.Usage(input_tokens=120, output_tokens=7)
    candidate = c.ModelCandidate.of('{"duplicate_groups": []}\n')
    issue = c.IssueDetails(category="unknown_candidate", group_index=1, request_ids=("c1", "c9"))
    count = c.IssueCount(category="unknown_candidate", count=2)
    value = {"kept": "Zoë"}
    fallback = c.Fallback(
        value=value,
        preserved="The affected candidates were preserved separately.",
        refused_groups=2,
        samples=("Orla Venn, Captain Venn",),
    )
    warning = c.ProcessWarning(
        code="unsafe_groups",
        message="2 groups were refused. The affected candidates were preserved separately.",
        refused_groups=2,
        samples=("Orla Venn, Captain Venn",),
    )
    refused = c.AttemptRecord(
        number=2,
        cause=c.AttemptCause.CORRECTIVE_RETRY,
        result=c.AttemptResult.REFUSED,
        request_sha256="b" * 64,
        request_messages=4,
        duration_ms=31,
        response_sha256=candidate.sha256,
        response_bytes=candidate.size,
        finish_reason=c.FinishReason.STOP,
        reason_code="unsafe_groups",
        issue_counts=(count,),
        issues=(issue,),
        guidance_sha256="d" * 64,
        guidance_bytes=90,
        usage=usage,
        repairs=1,
        transport_retries=1,
    )
    # Every cause and result is written by some record, and so is every defect and finish reason.
    records = (
        refused,
        *(
            msgspec.structs.replace(refused, cause=cause, result=result)
            for cause in c.AttemptCause
            for result in c.AttemptResult
        ),
        *(
            msgspec.structs.replace(refused, structural_defect=defect)
            for defect in c.StructuralDefect
        ),
        *(msgspec.structs.replace(refused, finish_reason=reason) for reason in c.FinishReason),
    )
    yield from (message, prompt, usage, candidate, issue, count, fallback, warning, refused)
    yield c.Value()
    yield c.Reply(text="{}", finish_reason=c.FinishReason.LENGTH, usage=usage)
    yield c.StructuralFailure(
        defect=c.StructuralDefect.CUT_OFF, response_sha256="a" * 64, response_bytes=17
    )
    yield c.ProducerRequest(
        messages=prompt.messages, number=2, cause=c.AttemptCause.MODULE_RETRY, timeout_s=2.5
    )
    yield c.Produced(result=candidate, finish_reason=c.FinishReason.STOP, usage=usage, repairs=1)
    yield c.Normalized(value=value)
    yield c.NormalizeRetry(
        reason_code="unsafe_groups",
        operator_message="2 groups were refused.",
        fallback=fallback,
        issues=(issue,),
        issue_counts=(count,),
        candidate=candidate,
        guidance="Send only ids from the list.",
    )
    yield c.SemanticCorrection(
        prompt=prompt, candidate=candidate, guidance="Send ids from the list."
    )
    yield c.Accepted(value=value, records=records)
    yield c.FellBack(value=value, warning=warning, applied_attempt=1, records=(refused,))
    yield c.Failed(
        kind=c.FailureKind.EXHAUSTED, code="unsafe_groups", message="No.", records=(refused,)
    )
    yield c.Cancelled(records=())


def attempts() -> Iterator[object]:
    """Yield one value of each public type of the attempts."""
    yield AttemptPolicy(normalize_retries=3, terminal=TerminalPolicy.FAIL, deadline_s=60.5)


def semanticreconcile() -> Iterator[object]:
    """Yield one value of each public type of the protocol; the split has every category."""
    subject = s.Subject(one="person", many="people", example=("Old Tom", "Mira", "Thomas Reed"))
    listed = [s.Listed(name=name, aliases=("Zoë",), description="a smith") for name in "ABCDEFGH"]
    groups = (
        s.ProposedGroup(candidate_ids=("c1", "c2"), canonical_id="c1"),
        s.ProposedGroup(candidate_ids=("c1", "c2"), canonical_id="c1"),
        s.ProposedGroup(candidate_ids=("c3", "c3", "c99"), canonical_id="c9"),
        s.ProposedGroup(candidate_ids=("c4",), canonical_id="c4"),
        s.ProposedGroup(candidate_ids=("c4", "c5"), canonical_id="c4"),
        s.ProposedGroup(candidate_ids=("c6", "c7", "c8"), canonical_id="c6"),
    )
    refusal = s.TypedRefusal(
        reason="different things",
        parts=(
            s.Part(label="gold coins", ids=("c6", "c7")),
            s.Part(label="", ids=("c8",), same=False),
        ),
        domain_rule=True,
    )
    request = s.build_request(subject, listed)
    split = s.split_proposal(
        s.Proposal(groups=groups), request.ids, lambda ids: refusal if "c8" in ids else None
    )
    yield from (subject, listed[0], request, groups[2], s.Proposal(groups=groups), split)
    yield from (split.safe[0], split.refused[-1], refusal, refusal.parts[0])
    yield s.CATEGORY_PROSE[s.IssueCategory.REPEATED_GROUP]


def registries() -> Iterator[object]:
    """Yield one value of each public type of the registries, and whole registries."""
    said: dict[str, Any] = {
        "aliases": ("the Captain", "Zoë"),
        "description": "commands the ferry",
        "evidence": ("«Orla!»", "She will not sail."),
        "extra": {"session": 1, "big": 10**30, "deep": [{"a": None}, 0.5]},
    }
    people = [
        r.NpcCandidate(source_id="s1-1", name="Captain Orla Venn", **said),
        r.NpcCandidate(source_id="s1-2", name="Orla"),
    ]
    things = [
        r.ItemCandidate(source_id="s1-3", name="20 gp", item_kind=r.ItemKind.CURRENCY, **said),
        r.ItemCandidate(source_id="s1-4", name="rope", item_kind=r.ItemKind.OBJECT),
        r.ItemCandidate(source_id="s1-5", name="silver pieces", denomination="sp"),
    ]
    places = [r.LocationCandidate(source_id="s1-6", name="the old mill", **said)]
    held = (
        r.NpcNormalizer(people).separate(),
        r.ItemNormalizer(things).separate(),
        r.LocationNormalizer(places).separate(),
    )
    coinage = r.Coinage(code="dm", label="dragonmarks", names=("dragonmark",))
    yield from (people[0], things[0], places[0], *held)
    yield from (registry.entries[0] for registry in held)
    yield r.Candidate(source_id="s1-7", name="the Gull")
    yield r.Entry(**{name: getattr(held[0].entries[0], name) for name in r.Entry.__struct_fields__})
    yield coinage
    yield r.CurrencyRules(coinages=(*r.STANDARD_COINAGES, coinage))
    yield r.Currency(code="gp")
    yield from (r.ItemRules.mark_rules, r.ItemRules.mark_rules.axes[0])


def llmruntime() -> Iterator[object]:
    """Yield one value of each public type of the runtime."""
    yield ChatCall(
        messages=(c.Message(role=c.Role.USER, content="Which are the same?"),),
        schema_name="duplicate_groups",
        schema_json='{"type":"object"}',
        timeout_s=2.5,
        variation=1,
        max_tokens=512,
    )
    yield Sampling(temperature=0.3, seed=1, max_tokens=512)


CAMPAIGN: Final[Mapping[str, str]] = MappingProxyType(
    {
        "npc.jsonl": """\
{"source_id": "s1-npc-1", "name": "Captain Orla Venn", "aliases": ["the Captain"], \
"description": "commands the river ferry", "evidence": ["Captain Orla Venn refuses."], \
"extra": {"session": 1}, "kind": "npc"}
{"source_id": "s2-npc-1", "name": "Orla Venn"}
{"source_id": "s2-npc-2", "name": "Tamsin"}
""",
        "item.jsonl": """\
{"source_id": "s1-item-1", "name": "gold", "item_kind": "currency", "denomination": "gp"}
{"source_id": "s1-item-2", "name": "20 gp"}
{"source_id": "s2-item-1", "name": "silver pieces"}
{"source_id": "s2-item-2", "name": "rope", "item_kind": "object"}
""",
        "location.jsonl": """\
{"source_id": "s1-loc-1", "name": "the old mill"}
{"source_id": "s2-loc-1", "name": "Mill of Reedford"}
""",
        "notarius.toml": """\
model = "openai:made-up"
base-url = "http://127.0.0.1:9/v1"
context-tokens = 8192
at-once = 1
normalize-retries = 1
repair-retries = 1
transport-retries = 0
terminal = "fallback"

[[coinage]]
code = "dm"
label = "dragonmarks"
names = ["dragonmark"]
""",
    }
)
_PARTLY_RIGHT: Final = (
    '{"duplicate_groups": [{"candidate_ids": ["c1", "c2"], "canonical_id": "c1"}, '
    '{"candidate_ids": ["c3", "c4"], "canonical_id": "c3"}]}'
)
# One registry is accepted after a correction, one after a reply that is no JSON, one falls back.
_ANSWERS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "npc": (
            '{"duplicate_groups": [{"candidate_ids": ["c1", "c7"], "canonical_id": "c1"}]}',
            '{"duplicate_groups": [{"candidate_ids": ["c1", "c2"], "canonical_id": "c1"}]}',
        ),
        "item": (_PARTLY_RIGHT, _PARTLY_RIGHT),
        "location": (
            "no JSON",
            "nor this",
            '{"duplicate_groups": [{"candidate_ids": ["c1", "c2"], "canonical_id": "c2"}]}',
        ),
    }
)


class _Scripted:
    """A model that says what it was told to say."""

    def __init__(self, *answers: str) -> None:
        self._answers = iter(answers)

    def complete(self, _call: object, *, cancellation: object) -> c.Reply:  # noqa: ARG002 - protocol
        usage = c.Usage(input_tokens=90, output_tokens=30)
        return c.Reply(text=next(self._answers), finish_reason=c.FinishReason.STOP, usage=usage)


def pipeline() -> Iterator[object]:
    """Write a campaign and all that a run of it leaves; yield what the command prints as JSON."""
    # Relative, so that no folder of this machine stands in a receipt.
    campaign, out = Path("campaign"), Path("out")
    campaign.mkdir()
    for name, text in CAMPAIGN.items():
        (campaign / name).write_text(text, encoding="utf-8", newline="\n")
    yield run_campaign(
        RunSettings(campaign=campaign, out=out),
        backend=lambda kind, _candidates, _normalizer: _Scripted(*_ANSWERS[kind]),
    )
    yield report(out)
    (out / "report.html").unlink()  # for people; no version reads it
    yield reconcile(
        Settings(registry="item", candidates=campaign / "item.jsonl", out=Path("one")),
        backend=lambda *_: _Scripted(*["no JSON"] * 6),
    )
    yield msgspec.toml.decode(CAMPAIGN["notarius.toml"], type=Config)


MAKERS: Final[Mapping[str, Callable[[], Iterable[object]]]] = MappingProxyType(
    {
        "contracts": contracts,
        "attempts": attempts,
        "semanticreconcile": semanticreconcile,
        "registries": registries,
        "llmruntime": llmruntime,
        "pipeline": pipeline,
    }
)
"""What a package stores: values, and for the pipeline files in the working folder."""


def store(package: str, folder: Path) -> None:
    """Write a package's payloads into an empty folder.

    A value goes into `TYPE.json`; a registry into `Registry-ENTRY.json`, as a generic type does not
    know what it holds.
    """
    with contextlib.chdir(folder):
        for value in MAKERS[package]():
            name = type(value).__name__
            if isinstance(value, r.Registry):
                name += f"-{type(value.entries[0]).__name__}"
            with Path(f"{name}.json").open("xb") as file:
                file.write(c.canonical_json(value) + b"\n")
