"""Checks a folder of results: its files against the manifests, and what follows from them.

Whatever is wrong becomes a line for a person.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar

import msgspec

from notarius.contracts import ContractError, ProcessWarning, Usage, canonical_json
from notarius.pipeline._errors import PROBLEMS_SHOWN_MAX, InputError
from notarius.pipeline._exchange import rules_for
from notarius.pipeline._outputs import (
    FAILED_RECEIPT,
    KINDS,
    MANIFEST,
    OURS,
    RECEIPT,
    REGISTRY,
    RESTORE,
    WARNINGS,
    UnfitFileError,
    file_digest,
    file_size,
    listing,
    names_in,
    read_json,
    read_registry,
    reason,
)
from notarius.pipeline._shown import counted, json_text, quoted, some, visible
from notarius.registries import Registry, RegistryKind

T = TypeVar("T")

_MANIFEST_MAX_BYTES: Final = 16 * 1024 * 1024
_STAGING_PREFIX: Final = ".notarius-staging-"
_DISTRUST: Final = "don't rely on it; run notarius again"

_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
_Outcome: TypeAlias = Literal["accepted", "fell_back", "failed", "cancelled"]


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that does not fit: the path of the file, what is wrong, and how to mend it."""

    file: str
    what: str
    hint: str


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """What was found. All texts can be written as JSON, whatever bytes a path has.

    `files` counts the files that were compared with a manifest. `leftovers` are staging folders
    that killed runs left behind, which is no fault of the results.
    """

    out: str
    files: int
    problems: tuple[Problem, ...]
    leftovers: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether everything fits."""
        return not self.problems


class _Listed(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    size: _Count = msgspec.field(name="bytes")
    sha256: str


class _Manifest(msgspec.Struct, frozen=True, kw_only=True):
    files: tuple[_Listed, ...]


class _Warnings(msgspec.Struct, frozen=True, kw_only=True):
    warnings: tuple[ProcessWarning, ...]


class _Budget(msgspec.Struct, frozen=True, kw_only=True):
    spent: _Count


class _Budgets(msgspec.Struct, frozen=True, kw_only=True):
    normalize_retries: _Budget
    repair_retries: _Budget
    transport_retries: _Budget


class _Attempt(msgspec.Struct, frozen=True, kw_only=True):
    part: int = 1  # of a list that was asked about in several parts
    repairs: _Count
    transport_retries: _Count
    usage: Usage | None


class _Input(msgspec.Struct, frozen=True, kw_only=True):
    sha256: str
    candidates: _Count


class _Part(msgspec.Struct, frozen=True, kw_only=True):
    remembered: bool


class _Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a receipt that must fit other parts."""

    outcome: _Outcome
    registry: RegistryKind
    model: str
    policy_fingerprint: str
    input: _Input
    parts: tuple[_Part, ...]
    budgets: _Budgets
    attempts: tuple[_Attempt, ...]
    usage: Usage | None

    @property
    def has_result(self) -> bool:
        """Whether a registry was written."""
        return self.outcome in {"accepted", "fell_back"}


class _Settled(msgspec.Struct, frozen=True, kw_only=True):
    """What a run's receipt says of a registry."""

    outcome: _Outcome
    candidates: _Count
    entries: _Count | None
    parts: _Count
    remembered: _Count
    policy_fingerprint: str
    input_sha256: str


class _RunReceipt(msgspec.Struct, frozen=True, kw_only=True):
    model: str
    registries: dict[RegistryKind, _Settled]


def verify(
    out: Path, candidates: Mapping[RegistryKind, Path | Sequence[Path]] | None = None
) -> Verification:
    """Check a folder of results, or a campaign's folder of such folders.

    `candidates` are the candidate files by registry, in the order of the run, to be compared with
    the receipts. Raises `InputError` if `out` is no readable folder or holds no manifest
    anywhere; whatever else is wrong is in the result.
    """
    held: dict[str, frozenset[str]] = {"": listing(out)}
    held.update((kind, names_in(out / kind)) for kind in KINDS)
    if not any(MANIFEST in names for names in held.values()):
        raise InputError(
            f"{out}: holds no {MANIFEST}, so no results; name a folder that was an --out"
        )
    sources = {
        kind: (given,) if isinstance(given, Path) else tuple(given)
        for kind, given in (candidates or {}).items()
    }
    check = _Check(out, held, sources)
    check.run()
    return Verification(
        out=json_text(out),
        files=len(check.compared),
        problems=tuple(dict.fromkeys(check.problems)),  # a file may be read more than once
        leftovers=tuple(
            json_text(out / folder / name)
            for folder, names in held.items()
            for name in sorted(names)
            if name.startswith(_STAGING_PREFIX)
        ),
    )


def verification_lines(found: Verification) -> tuple[str, ...]:
    """Return the result as lines for a person; of many problems only the first."""
    verdict = "ok" if found.ok else counted(len(found.problems), "problem", "problems")
    lines = [f"{found.out}: {verdict}, {counted(found.files, 'file', 'files')} compared"]
    lines += [f"  {at.file}: {at.what}; {at.hint}" for at in found.problems[:PROBLEMS_SHOWN_MAX]]
    if len(found.problems) > PROBLEMS_SHOWN_MAX:
        lines.append(f"  and {len(found.problems) - PROBLEMS_SHOWN_MAX} more")
    lines += [
        f"  {left}: left behind by a run that was killed, no fault; it may be removed"
        for left in found.leftovers[:PROBLEMS_SHOWN_MAX]
    ]
    return tuple(visible(line) for line in lines)


class _Check:
    """One check of one folder. Files go by their names below it, parted by slashes.

    `held` are the names in the folder itself (`""`) and in those of the registries.
    """

    def __init__(
        self,
        out: Path,
        held: Mapping[str, frozenset[str]],
        candidates: Mapping[RegistryKind, Sequence[Path]],
    ) -> None:
        self._out = out
        self._held = held
        self._candidates = candidates
        self._listed: set[str] = set()
        self._readable: set[str] = set()  # folders whose manifest could be read
        self.problems: list[Problem] = []
        self.compared: set[str] = set()

    def run(self) -> None:
        """Find all problems."""
        self._manifest("")
        folders = self._folders()
        for folder in folders:
            if folder:
                self._manifest(folder)
        for folder in dict.fromkeys(("", *folders)):
            self._unlisted(folder)
        of_campaign = folders and "" not in folders
        run = self._read(RECEIPT, _read_run_receipt) if of_campaign else None
        met = {self._contents(folder, run) for folder in folders}
        for kind in sorted(self._candidates.keys() - met):
            self._report(
                "",
                f"holds no readable receipt of {quoted(kind)} to compare the candidates with",
                "name the folder of that run, or leave these candidates out",
            )

    def _folders(self) -> Sequence[str]:
        """Return the folders with results: those of a campaign, or the folder itself.

        A campaign's manifest lists files in them. If it can't be read, the registry tells: a
        campaign's folder has none of its own.
        """
        parts = [kind for kind in KINDS if self._held[kind] & OURS]
        nested = any("/" in name for name in self._listed)
        lost = not self._readable and parts and REGISTRY not in self._held[""]
        return parts if nested or lost else ("",)

    def _report(self, name: str, what: str, hint: str) -> None:
        path = self._out / name if name else self._out
        self.problems.append(Problem(file=json_text(path), what=what, hint=hint))

    def _read(self, name: str, reader: Callable[[Path, str], T]) -> T | None:
        """Return what `reader` makes of a file; `None` if it is unfit, which is reported."""
        try:
            return reader(self._out, name)
        except UnfitFileError as error:
            self._report(name, error.what, error.hint)
            return None

    def _manifest(self, folder: str) -> None:
        """Compare all files that a manifest lists."""
        own = _join(folder, MANIFEST)
        manifest = self._read(own, _read_manifest)
        if manifest is None:
            return
        self._readable.add(folder)
        for name, times in Counter(listed.name for listed in manifest.files).items():
            if times > 1:
                self._report(own, f"lists {quoted(name)} {times} times", _DISTRUST)
        for listed in manifest.files:
            if _leaves(listed.name):
                self._report(
                    own,
                    f"lists {quoted(listed.name)}, which is no plain name below its folder",
                    f"nothing was opened there; {_DISTRUST}",
                )
            else:
                self._compare(_join(folder, listed.name), listed, own)

    def _compare(self, name: str, listed: _Listed, manifest: str) -> None:
        self._listed.add(name)
        size = self._read(name, file_size)
        if size is None:
            return
        self.compared.add(name)
        if size != listed.size:
            what = f"has {counted(size, 'byte', 'bytes')}, but {manifest} says {listed.size}"
            self._report(name, what, RESTORE)
        elif self._read(name, file_digest) not in {listed.sha256, None}:
            self._report(name, f"has other content than {manifest} says (SHA-256)", RESTORE)

    def _unlisted(self, folder: str) -> None:
        """Report files that are there, though no manifest that could be read lists them."""
        for name in sorted(self._held[folder] & OURS):
            witnesses = {"", folder} - ({folder} if name == MANIFEST else set())
            if witnesses & self._readable and _join(folder, name) not in self._listed:
                self._report(
                    _join(folder, name),
                    "is there, but no manifest lists it",
                    "it is no part of these results; move it away, or run notarius again",
                )

    def _contents(self, folder: str, run: _RunReceipt | None) -> str | None:
        """Check one registry's files against each other and against the receipt of its run.

        Return the registry of its receipt.
        """
        receipt = self._read(_join(folder, RECEIPT), _read_receipt)
        wanted = set(self._held[folder])
        if receipt is not None and receipt.has_result:
            wanted |= {REGISTRY, WARNINGS}
        entries = None
        if REGISTRY in wanted:
            name = _join(folder, REGISTRY)
            registry = self._read(name, read_registry)
            if registry is not None:
                entries = len(registry[1].entries)
                self._faults(name, _registry_faults(*registry, receipt))
        if WARNINGS in wanted:
            name = _join(folder, WARNINGS)
            warnings = self._read(name, _read_warnings)
            if warnings is not None:
                self._faults(name, _warnings_faults(warnings, receipt))
        if receipt is None:
            return None
        name = _join(folder, RECEIPT)
        self._faults(name, _receipt_faults(receipt, folder))
        if receipt.registry in self._candidates:
            self._input(name, receipt)
        if run is not None:
            self._run(folder, run, receipt, entries)
        return receipt.registry

    def _run(self, folder: str, run: _RunReceipt, receipt: _Receipt, entries: int | None) -> None:
        """Compare what the run's receipt says of a registry with what lies in its folder."""
        said = run.registries.get(receipt.registry)
        if said is None:
            self._report(RECEIPT, f"says nothing of {folder}, which has results", _DISTRUST)
            return
        name = _join(folder, RECEIPT)
        if said.entries is None and FAILED_RECEIPT in self._held[folder]:
            # The run came to nothing, and the registry is that of an earlier one.
            name, entries = _join(folder, FAILED_RECEIPT), None
            failed = self._read(name, _read_receipt)
            if failed is None:
                return
            receipt = failed
        elif entries is None and receipt.has_result:
            entries = said.entries  # a registry that can't be read was told of
        self._faults(name, _run_faults(run.model, said, receipt, entries))

    def _faults(self, name: str, faults: Iterator[str]) -> None:
        for what in faults:
            self._report(name, what, _DISTRUST)

    def _input(self, name: str, receipt: _Receipt) -> None:
        """Compare the input as a receipt knows it: one file's digest, or that of their list."""
        paths = self._candidates[receipt.registry]
        digests = []
        for path in paths:
            try:
                with path.open("rb") as handle:
                    digests.append(hashlib.file_digest(handle, "sha256").hexdigest())
            except OSError as error:
                what = f"can't be read ({reason(error)})"
                hint = "give the candidate file of that run"
                self.problems.append(Problem(file=json_text(path), what=what, hint=hint))
                return
        found = (
            digests[0] if len(digests) == 1 else hashlib.sha256(canonical_json(digests)).hexdigest()
        )
        if found != receipt.input.sha256:
            self._report(
                name,
                f"was made from other candidates than {some([path.name for path in paths])}",
                "give the files that the run had, in its order, or run notarius again with these",
            )


def _registry_faults(
    kind: RegistryKind, registry: Registry[Any], receipt: _Receipt | None
) -> Iterator[str]:
    """Yield what contradicts itself in a registry, or the receipt beside it."""
    times = Counter(source_id for entry in registry.entries for source_id in entry.source_ids)
    repeated = [source_id for source_id, count in times.items() if count > 1]
    if repeated:
        many = counted(len(repeated), "source_id", "source_ids")
        yield f"has {many} more than once: {some(repeated)}"
    wrong = [e.entry_id for e in registry.entries if e.entry_id != _entry_id(kind, e.source_ids)]
    if wrong:
        many = counted(len(wrong), "entry_id", "entry_ids")
        yield f"has {many} that the members do not give: {some(wrong)}"
    if receipt is None:
        return
    if not receipt.has_result:
        yield f"is there, but the receipt tells of no result (outcome `{receipt.outcome}`)"
    if receipt.registry != kind:
        yield f"is the {kind} registry, but the receipt is of {receipt.registry}"
    if receipt.input.candidates != len(times):
        yield (
            f"holds {counted(len(times), 'candidate', 'candidates')}, "
            f"but the receipt counts {receipt.input.candidates}"
        )


def _entry_id(kind: RegistryKind, source_ids: Sequence[str]) -> str | None:
    """Return the id of an entry of these candidates; `None` if there can be no such entry."""
    rules = rules_for(kind)
    try:
        members = [rules.candidate_type(source_id=one, name="any") for one in source_ids]
    except ContractError:
        return None
    entry_id: str | None = rules.entry(members[0], members).entry_id if members else None
    return entry_id


def _warnings_faults(found: _Warnings, receipt: _Receipt | None) -> Iterator[str]:
    count = len(found.warnings)
    many = counted(count, "process warning", "process warnings")
    if count > 1:
        yield f"holds {many}; there is at most one"
    elif receipt is not None and count != (receipt.outcome == "fell_back"):
        yield f"holds {many}, which does not fit the outcome `{receipt.outcome}` of the receipt"


def _receipt_faults(receipt: _Receipt, folder: str) -> Iterator[str]:
    """Yield what contradicts itself in a receipt; `folder` is that of a campaign's registry."""
    if folder not in {"", receipt.registry}:
        yield f"is of the {receipt.registry} registry, but lies in the folder of {folder}"
    attempts = receipt.attempts
    parts = {attempt.part for attempt in attempts}
    for what, budget, total in (
        ("normalize", receipt.budgets.normalize_retries, len(attempts) - len(parts)),
        ("repair", receipt.budgets.repair_retries, sum(a.repairs for a in attempts)),
        (
            "transport",
            receipt.budgets.transport_retries,
            sum(a.transport_retries for a in attempts),
        ),
    ):
        if budget.spent != total:
            yield f"says {budget.spent} {what} retries were spent; its attempts make {total}"
    used = sum((a.usage or Usage() for a in attempts), start=Usage(input_tokens=0, output_tokens=0))
    if used != (receipt.usage or Usage()):
        yield "has a usage that is not the sum over its attempts"


def _run_faults(
    model: str, said: _Settled, receipt: _Receipt, entries: int | None
) -> Iterator[str]:
    """Yield where a registry is not as the receipt of its run says."""
    for what, there, here in (
        ("outcome", said.outcome, receipt.outcome),
        ("model", model, receipt.model),
        ("number of candidates", said.candidates, receipt.input.candidates),
        ("number of entries", said.entries, entries),
        ("number of parts", said.parts, len(receipt.parts)),
        ("number of remembered parts", said.remembered, sum(p.remembered for p in receipt.parts)),
        ("digest of the input", said.input_sha256, receipt.input.sha256),
        ("fingerprint of the policy", said.policy_fingerprint, receipt.policy_fingerprint),
    ):
        if there != here:
            yield (
                f"is of another run than the {RECEIPT} above it: "
                f"the {what} is {quoted(str(here))} here, and {quoted(str(there))} there"
            )


def _read_manifest(folder: Path, name: str) -> _Manifest:
    shapes = {"notarius.manifest.v1": _Manifest}
    return read_json(folder, name, shapes, max_bytes=_MANIFEST_MAX_BYTES)


def _read_receipt(folder: Path, name: str) -> _Receipt:
    return read_json(folder, name, {"notarius.receipt.v1": _Receipt})


def _read_run_receipt(folder: Path, name: str) -> _RunReceipt:
    return read_json(folder, name, {"notarius.run_receipt.v1": _RunReceipt})


def _read_warnings(folder: Path, name: str) -> _Warnings:
    return read_json(folder, name, {"notarius.warnings.v1": _Warnings})


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _leaves(name: str) -> bool:
    """Whether a name in a manifest could lead out of its folder, on any system."""
    odd = any(character in name for character in "\\:")
    return odd or any(part in {"", ".", ".."} for part in name.split("/"))
