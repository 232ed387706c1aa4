"""What a person is shown of an output folder: read from its files, and put into plain words.

No code, category or digest stands among the words; the digests have a place of their own. How it
looks is decided by `_page`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from notarius.contracts import canonical_json
from notarius.pipeline import _results
from notarius.pipeline._campaign import CONFIG, read_campaign
from notarius.pipeline._candidates import read_candidates
from notarius.pipeline._errors import InputError
from notarius.pipeline._exchange import rules_for
from notarius.pipeline._files import publish_page
from notarius.pipeline._outputs import (
    FAILED_RECEIPT,
    KINDS,
    OURS,
    RECEIPT,
)
from notarius.pipeline._page import (
    MARK,
    About,
    Attempt,
    Outcome,
    Part,
    Place,
    RefusedGroup,
    Report,
    Run,
    ShownEntry,
    ShownRegistry,
    page,
)
from notarius.pipeline._plain import (
    category_words,
    cause_words,
    defect_words,
    issue_words,
    outcome_words,
    result_words,
    token_words,
)
from notarius.pipeline._run import CHECKPOINTS
from notarius.pipeline._shown import counted, json_text
from notarius.pipeline._verify import Verification, verify
from notarius.registries import (
    STANDARD_COINAGES,
    Candidate,
    Coinage,
    Entry,
    ItemEntry,
    RegistryKind,
)

REPORT: Final = "report.html"
"""The name of the report in the output folder, unless another place is given."""
TITLES: Final[Mapping[RegistryKind, str]] = {
    "npc": "NPCs",
    "item": "items",
    "location": "locations",
}

_BAR_UNITS: Final = 1000


class ReportedRegistry(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one registry; `None` where its files do not tell."""

    registry: str
    outcome: str | None
    candidates: int | None
    entries: int | None
    merged: int | None
    refused_groups: int | None


class Reported(msgspec.Struct, frozen=True, kw_only=True):
    """A report that was written. `problems` counts what does not match in the folder."""

    file: str
    size: int = msgspec.field(name="bytes")
    problems: int
    registries: tuple[ReportedRegistry, ...]


def report(out: Path, *, html: Path | None = None, candidates: Path | None = None) -> Reported:
    """Write one HTML file about a folder of results, or about a campaign's folder of such folders.

    `candidates` is the campaign's folder, or the candidate file of one registry: then each merged
    candidate is shown as it was. Raises `InputError` if `out` holds no results, if the candidates
    are not those of the run, or if the file can't be written; an earlier report is replaced, and
    nothing else.
    """
    found = verify(out)
    results = _results.read_results(out)
    given, sources = _candidates(out, results, candidates)
    shown = Report(
        title=_title([TITLES[one.kind] for one in results if one.kind is not None]),
        models=tuple(
            dict.fromkeys(one.receipt.model for one in results if one.receipt is not None)
        ),
        outcome=_overall(results),
        files=found.files,
        problems=_problems(out, found),
        registries=tuple(_registry(one, given.get(one.kind, {})) for one in results),
        with_candidates=candidates is not None,
    )
    data = page(shown)
    place = out / REPORT if html is None else html
    publish_page(place, data, mark=MARK, keep=(*_results_in(out), *sources))
    return Reported(
        file=json_text(place),
        size=len(data),
        problems=len(found.problems),
        registries=tuple(
            ReportedRegistry(
                registry=one.kind or "unknown",
                outcome=None if one.receipt is None else one.receipt.outcome,
                candidates=None if one.receipt is None else one.receipt.input.candidates,
                entries=None if view.entries is None else len(view.entries),
                merged=None if view.entries is None else view.merged,
                refused_groups=None if view.run is None else view.run.refused_groups,
            )
            for one, view in zip(results, shown.registries, strict=True)
        ),
    )


def _problems(out: Path, found: Verification) -> tuple[tuple[str, str, str], ...]:
    """Return what does not match, with paths below the folder: a copy of it reads the same."""
    top = json_text(out)
    return tuple(
        (at.file.removeprefix(top).lstrip("/\\") or ".", at.what, at.hint) for at in found.problems
    )


def _results_in(out: Path) -> tuple[Path, ...]:
    """Return the files that a run puts, or may put, into a folder."""
    folders = (out, *(out / kind for kind in KINDS))
    written = [folder / name for folder in folders for name in (*OURS, FAILED_RECEIPT)]
    return (*written, *(out / f"{CHECKPOINTS}{end}" for end in ("", "-wal", "-shm")))


_Given: TypeAlias = Mapping[RegistryKind | None, Mapping[str, Candidate]]


def _candidates(
    out: Path, results: Sequence[_results.Result], given: Path | None
) -> tuple[_Given, tuple[Path, ...]]:
    """Return the candidates of the run by registry and `source_id`, and their files."""
    if given is None:
        return {}, ()
    coinages: Sequence[Coinage] = STANDARD_COINAGES
    sources: Mapping[RegistryKind, tuple[Path, ...]]
    if given.is_dir():
        campaign = read_campaign(given)
        sources, coinages = campaign.sources, campaign.config.coinages()
    elif len(results) == 1:
        sources = {} if results[0].kind is None else {results[0].kind: (given,)}
    else:
        raise InputError(
            f"{given}: is no folder, but {out} holds {len(results)} registries; "
            "give the campaign's folder"
        )
    found: dict[RegistryKind | None, Mapping[str, Candidate]] = {}
    for one in results:
        receipt = out / one.folder / RECEIPT
        if one.receipt is None:
            raise InputError(
                f"{receipt}: can't be read, so it is not known from which candidates these results "
                "were made; leave out --candidates"
            )
        kind = one.receipt.registry
        if kind not in sources:
            raise InputError(
                f"{given}: holds no candidates of the {kind} registry; give the folder that the "
                "run had, or leave out --candidates"
            )
        candidates, digest = read_candidates(sources[kind], rules_for(kind, coinages))
        if digest != one.receipt.input.sha256:
            raise InputError(
                f"{given}: holds other {kind} candidates than those that {receipt} was made from; "
                "give the files that the run had, unchanged, or leave out --candidates"
            )
        found[kind] = {candidate.source_id: candidate for candidate in candidates}
    files = tuple(path for paths in sources.values() for path in paths)
    return found, (*files, given / CONFIG)


class _Known(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of candidates by `source_id`: where they ended up, and what they were."""

    places: Mapping[str, Place]
    candidates: Mapping[str, Candidate]


def _registry(found: _results.Result, candidates: Mapping[str, Candidate]) -> ShownRegistry:
    top = found.folder or found.kind or "any"
    entries = found.entries or ()
    known = _Known(
        places={
            source_id: Place(anchor=f"{top}-{number}", name=entry.name)
            for number, entry in enumerate(entries, start=1)
            for source_id in entry.source_ids
        },
        candidates=candidates,
    )
    run = None if found.receipt is None else _run(found.receipt, f"{top}-run", known)
    later = None if found.failed is None else _run(found.failed, f"{top}-later", known)
    refused = {} if run is None else _refused_of(run)
    shown = tuple(
        _entry(entry, f"{top}-{number}", candidates, refused.get(f"{top}-{number}", ()))
        for number, entry in enumerate(entries, start=1)
    )
    return ShownRegistry(
        title=_name(found.kind),
        run=run,
        later=later,
        entries=None if found.entries is None else shown,
        warnings=found.warnings,
        unread=found.unread,
    )


def _refused_of(run: Run) -> dict[str, list[Place]]:
    """Return by the anchor of an entry the refused groups that name a candidate of it."""
    found: dict[str, list[Place]] = {}
    for part in run.parts:
        for attempt in part.attempts:
            for group in attempt.refused:
                where = f"attempt {attempt.number}, group {group.number}"
                if len(run.parts) > 1:
                    where = f"part {part.number}, {where}"
                link = Place(anchor=group.anchor, name=where)
                for anchor in {about.entry.anchor for about in group.about if about.entry}:
                    found.setdefault(anchor, []).append(link)
    return found


def _entry(
    entry: Entry, anchor: str, candidates: Mapping[str, Candidate], refused: Sequence[Place]
) -> ShownEntry:
    merged = entry.source_ids if len(entry.source_ids) > 1 else ()
    return ShownEntry(
        anchor=anchor,
        entry=entry,
        tags=_tags(entry),
        extra=tuple(_json_line(extra) for extra in entry.extra if extra),
        candidates=tuple(candidates[one] for one in merged if one in candidates),
        refused=tuple(refused),
    )


def _tags(entry: Entry) -> tuple[str, ...]:
    if not isinstance(entry, ItemEntry):
        return ()
    coin = () if entry.denomination is None else (entry.denomination,)
    return (entry.item_kind.value, *coin)


def _json_line(extra: dict[str, Any]) -> str:
    return msgspec.json.format(canonical_json(extra), indent=0).decode()


def _run(found: _results.Receipt, anchor: str, known: _Known) -> Run:
    listed = {part.number: part for part in found.parts}
    made: dict[int, list[_results.Attempt]] = {number: [] for number in listed}
    for attempt in found.attempts:
        made.setdefault(attempt.part, []).append(attempt)
    longest = max((sum(one.duration_ms for one in part) for part in made.values()), default=0)
    remembered = {part.number for part in found.parts if part.remembered}
    now = [attempt for attempt in found.attempts if attempt.part not in remembered]
    parts = tuple(
        _part(
            listed.get(number) or _results.Part(number=number, outcome=found.outcome),
            made[number],
            longest,
            f"{anchor}-{number}",
            known,
        )
        for number in made
    )
    attempts = [attempt for part in parts for attempt in part.attempts]
    return Run(
        outcome=outcome_words(found.outcome),
        failure=None if found.failure is None else found.failure.message,
        model=found.model,
        candidates=found.input.candidates,
        attempts=len(attempts),
        refused_groups=sum(len(attempt.refused) for attempt in attempts),
        more_refused=any(attempt.unlisted for attempt in attempts),
        tokens=_tokens(found.usage) if attempts else "none, the model was not asked",
        tokens_now=_tokens(_sum(now)) if len(now) < len(found.attempts) else None,
        duration_ms=sum(attempt.duration_ms for attempt in attempts),
        budgets=_budgets(found.budgets),
        parts=parts,
        digests=(
            ("Policy", found.policy_fingerprint),
            ("Candidates", found.input.sha256),
            ("Prompt", found.prompt_sha256),
        ),
    )


def _part(
    part: _results.Part,
    made: Sequence[_results.Attempt],
    longest: int,
    anchor: str,
    known: _Known,
) -> Part:
    scale = _BAR_UNITS / longest if longest else 0.0
    start, attempts = 0, []
    for place, attempt in enumerate(made, start=1):
        # Receipts hold durations, and one attempt of a part came after the other.
        bar = (round(start * scale), round(attempt.duration_ms * scale))
        attempts.append(_attempt(attempt, bar, f"{anchor}-{place}", known))
        start += attempt.duration_ms
    return Part(
        number=part.number,
        candidates=part.candidates,
        outcome=outcome_words(part.outcome),
        applied_attempt=part.applied_attempt,
        remembered=part.remembered,
        attempts=tuple(attempts),
    )


def _attempt(found: _results.Attempt, bar: tuple[int, int], anchor: str, known: _Known) -> Attempt:
    result, tone = result_words(found.result)
    detail = issue_words(found.issue_counts)
    if found.structural_defect is not None:
        detail = defect_words(found.structural_defect)
    listed = sum(len(group.categories) for group in found.refused)
    return Attempt(
        number=found.number,
        cause=cause_words(found.cause),
        result=result,
        detail=detail,
        tone=tone,
        duration_ms=found.duration_ms,
        start=bar[0],
        length=bar[1],
        tokens=_tokens(found.usage),
        repairs=found.repairs,
        transport_retries=found.transport_retries,
        refused=tuple(
            _refused(group, f"{anchor}-{index}", known)
            for index, group in enumerate(found.refused, start=1)
        ),
        unlisted=max(0, sum(found.issue_counts.values()) - listed),
        digests=tuple(
            (what, text if size is None else f"{text} ({counted(size, 'byte', 'bytes')})")
            for what, text, size in (
                ("request", found.request_sha256, None),
                ("reply", found.response_sha256, found.response_bytes),
                ("correction in the request", found.guidance_sha256, found.guidance_bytes),
            )
            if text
        ),
    )


def _refused(found: _results.Refused, anchor: str, known: _Known) -> RefusedGroup:
    about = tuple(
        About(
            source_id=source_id,
            name=known.candidates[source_id].name if source_id in known.candidates else None,
            entry=known.places.get(source_id),
        )
        for source_id in found.source_ids
    )
    return RefusedGroup(
        anchor=anchor,
        number=found.group,
        why=tuple(
            dict.fromkeys(category_words(category)[0] for category in found.categories or ("",))
        ),
        about=about,
        ended=_ended(about),
    )


def _ended(about: Sequence[About]) -> str:
    """Say what became of the candidates of a refused group."""
    entries = {one.entry.anchor for one in about if one.entry is not None}
    if not about:
        return "It named no candidate of the list."
    if not entries:
        return "No registry was written."
    if len(about) == 1:
        return "The candidate is kept:"
    if len(entries) == 1:
        return "They are one entry all the same, by a group that was safe:"
    return f"They are kept in {len(entries)} entries:"


def _name(kind: RegistryKind | None) -> str:
    name = "unknown registry" if kind is None else TITLES[kind]
    return f"{name[0].upper()}{name[1:]}"


def _title(titles: Sequence[str]) -> str:
    *first, last = titles or ["results"]
    title = f"{', '.join(first)} and {last}" if first else last
    return f"{title[0].upper()}{title[1:]}"


def _overall(results: Sequence[_results.Result]) -> Outcome:
    """Return the outcome of all registries together: what all have in common, or each by name."""
    each = [
        (_name(one.kind), outcome_words(one.receipt.outcome))
        for one in results
        if one.receipt is not None
    ]
    if not each:
        return outcome_words("")
    if all(outcome == each[0][1] for _, outcome in each):
        return each[0][1]
    tones = {outcome.tone for _, outcome in each}
    label, tone = "done, with a warning", "warn"
    if tones & {"bad", "off"}:
        label, tone = "not complete", "bad"
    words = "; ".join(f"{name}: {outcome.label}" for name, outcome in each)
    return Outcome(label=label, words=f"{words}.", tone=tone)


def _tokens(usage: _results.Usage | None) -> str:
    used = usage or _results.Usage()
    return token_words(used.input_tokens, used.output_tokens)


def _sum(attempts: Sequence[_results.Attempt]) -> _results.Usage:
    """Add tokens; a sum with an unknown part is unknown."""
    used = [attempt.usage or _results.Usage() for attempt in attempts]
    into = [one.input_tokens for one in used]
    out = [one.output_tokens for one in used]
    return _results.Usage(
        input_tokens=None if None in into else sum(n for n in into if n is not None),
        output_tokens=None if None in out else sum(n for n in out if n is not None),
    )


def _budgets(found: _results.Budgets) -> tuple[tuple[str, str], ...]:
    def told(budget: _results.Budget) -> str:
        if budget.allowed is not None:
            return f"{budget.spent} (up to {budget.allowed} for each part)"
        if budget.allowed_per_attempt is not None:
            return f"{budget.spent} (up to {budget.allowed_per_attempt} for each attempt)"
        return str(budget.spent)

    return (
        ("Asked again", told(found.normalize_retries)),
        ("Replies repaired", told(found.repair_retries)),
        ("Calls repeated", told(found.transport_retries)),
    )
