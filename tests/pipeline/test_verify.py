import hashlib
import json
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from notarius.contracts import FinishReason, Reply, Usage, canonical_json
from notarius.pipeline import InputError, RunSettings, Settings, _files, reconcile, run_campaign
from notarius.pipeline import _outputs as module
from notarius.pipeline._outputs import KINDS
from notarius.pipeline._verify import Verification, verification_lines, verify
from notarius.registries import RegistryKind

Write = Callable[..., Path]
Scripted = Callable[..., Any]
Groups = Callable[..., str]
MANIFEST = "manifest.json"
RECORDS = [
    {"source_id": "a", "name": "Ada", "aliases": ["Countess"], "extra": {"n": 1}},
    {"source_id": "b", "name": "Ada"},
    {"source_id": "c", "name": "Bea"},
]


def load(path: Path) -> Any:  # noqa: ANN401 - a JSON value
    """Return the content of a JSON file."""
    return json.loads(path.read_bytes())


def seal(folder: Path) -> None:
    """Write a manifest over all plain JSON files below a folder, those of inner folders first."""
    files = [
        {"name": path.relative_to(folder).as_posix(), **measures(path.read_bytes())}
        for path in sorted(folder.rglob("*.json"))
        if path != folder / MANIFEST and path.is_file() and not path.is_symlink()
    ]
    write(folder / MANIFEST, {"schema": "notarius.manifest.v1", "files": files})


def measures(data: bytes) -> dict[str, Any]:
    """Return what a manifest says of a file."""
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def write(path: Path, value: object) -> None:
    """Write a JSON file as the pipeline does; bytes as they are."""
    path.write_bytes(value if isinstance(value, bytes) else canonical_json(value) + b"\n")


def entry(name: str, data: bytes = b"", **other: object) -> dict[str, object]:
    """Return an entry of a manifest."""
    return {"name": name, **measures(data), **other}


def listing(*files: object) -> dict[str, object]:
    """Return a manifest of these entries."""
    return {"schema": "notarius.manifest.v1", "files": list(files)}


def told(found: Verification, out: Path) -> list[str]:
    """Return the problems as `file: what`, with names below the folder."""
    return [
        f"{Path(at.file).relative_to(out).as_posix()}: {at.what}"
        for at in found.problems
        if at.hint
    ]


def require_problem(out: Path, *words: str) -> None:
    """Each of these is in a problem, and every problem is told and has a remedy."""
    found = verify(out)
    assert not found.ok
    assert len(told(found, out)) == len(found.problems)
    for word in words:
        assert any(word in line for line in told(found, out)), (word, found.problems)
    assert canonical_json(found)
    assert all(line.isprintable() for line in verification_lines(found))


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Candidates, and a campaign's folder with all three registries, as a run writes it."""
    place = tmp_path_factory.mktemp("written")
    for kind in KINDS:
        source = place / f"{kind}.jsonl"
        source.write_bytes(b"\n".join(canonical_json(record) for record in RECORDS))
    run_campaign(
        RunSettings(campaign=place, out=place / "out", checkpoints=place / "checkpoints.sqlite")
    )
    return place


@pytest.fixture
def result(written: Path, tmp_path: Path) -> Path:
    """A folder that a run wrote, for this test alone: two candidates of three are one."""
    shutil.copytree(written / "out" / "npc", tmp_path / "out")
    shutil.copy(written / "npc.jsonl", tmp_path / "in.jsonl")
    assert len(load(tmp_path / "out" / "registry.json")["entries"]) == 2
    return tmp_path / "out"


@pytest.fixture
def campaign(written: Path, tmp_path: Path) -> Path:
    """A campaign's folder, for this test alone."""
    shutil.copytree(written, tmp_path, dirs_exist_ok=True)
    return tmp_path / "out"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [0, 1, 3])
def test_what_a_run_wrote_fits(candidate_file: Write, out: Path, kind: Any, count: int) -> None:  # noqa: ANN401 - one of a literal
    """Nothing is wrong with a folder as it was written, of any registry and size."""
    source = candidate_file(RECORDS[:count])
    reconcile(Settings(registry=kind, candidates=source, out=out))
    found = verify(out, {kind: source})
    assert (found.ok, found.files, found.problems, found.leftovers) == (True, 3, (), ())
    assert verification_lines(found) == (f"{out}: ok, 3 files compared",)


def test_every_outcome_fits(
    candidate_file: Write, out: Path, scripted: Scripted, groups: Groups
) -> None:
    """Fallbacks with their warning, failures with a receipt alone, and one beside a result fit."""
    spent = Reply(
        text=groups(["c9", "c1"]),
        finish_reason=FinishReason.STOP,
        usage=Usage(input_tokens=7, output_tokens=2),
    )
    run = Settings(registry="npc", candidates=candidate_file(RECORDS), out=out)
    with pytest.raises(ConnectionError):
        reconcile(run, backend=scripted(["no JSON", ConnectionError("gone")]))
    assert [path.name for path in sorted(out.iterdir())] == [MANIFEST, "receipt.json"]
    assert verify(out).ok
    reconcile(run, backend=scripted([spent, "no JSON", spent, spent]))
    receipt = load(out / "receipt.json")
    assert (receipt["outcome"], receipt["budgets"]["repair_retries"]["spent"]) == ("fell_back", 1)
    assert verify(out).ok
    reconcile(run, backend=scripted([spent] * 3))
    assert load(out / "receipt.json")["usage"] == {"input_tokens": 21, "output_tokens": 6}
    assert verify(out).ok
    with pytest.raises(ConnectionError):
        reconcile(run, backend=scripted([ConnectionError("gone")]))
    assert (out / "failed-receipt.json").exists()
    assert verify(out).ok


def test_a_campaign_fits(campaign: Path, tmp_path: Path) -> None:
    """A campaign is checked by its own manifest and those of its registries."""
    sources = {kind: tmp_path / f"{kind}.jsonl" for kind in KINDS}
    found = verify(campaign, sources)
    assert (found.problems, found.files) == ((), 13)


NOT_FOLLOWED = "is a link, which is not followed"


def _remove(out: Path) -> None:
    (out / "warnings.json").unlink()


def _append(out: Path) -> None:
    with (out / "registry.json").open("ab") as handle:
        handle.write(b" ")


def _shorten(out: Path) -> None:
    with (out / "registry.json").open("r+b") as handle:
        handle.truncate((out / "registry.json").stat().st_size - 1)


def _flip(out: Path) -> None:
    data = (out / "registry.json").read_bytes()
    write(out / "registry.json", data.replace(b"Bea", b"Bee"))


def _unlist(out: Path) -> None:
    manifest = load(out / MANIFEST)
    manifest["files"] = [at for at in manifest["files"] if at["name"] != "warnings.json"]
    write(out / MANIFEST, manifest)


def _repeat(out: Path) -> None:
    manifest = load(out / MANIFEST)
    write(out / MANIFEST, listing(*manifest["files"], manifest["files"][0]))


def _link_file(out: Path) -> None:
    target = out.parent / "elsewhere.json"
    (out / "registry.json").rename(target)
    (out / "registry.json").symlink_to(target)


def _link_manifest(out: Path) -> None:
    target = out.parent / "elsewhere.json"
    (out / MANIFEST).rename(target)
    (out / MANIFEST).symlink_to(target)


def _folder_for_file(out: Path) -> None:
    (out / "registry.json").unlink()
    (out / "registry.json").mkdir()


def _pipe_for_file(out: Path) -> None:
    (out / "registry.json").unlink()
    os.mkfifo(out / "registry.json")


@pytest.mark.parametrize(
    ("tamper", "told_of"),
    [
        (_remove, "warnings.json: is missing"),
        (_append, "bytes, but manifest.json says"),
        (_shorten, "bytes, but manifest.json says"),
        (_flip, "registry.json: has other content than manifest.json says"),
        (_unlist, "warnings.json: is there, but no manifest lists it"),
        (_repeat, "manifest.json: lists `receipt.json` 2 times"),
        (_link_file, f"registry.json: {NOT_FOLLOWED}"),
        (_link_manifest, f"manifest.json: {NOT_FOLLOWED}"),
        (_folder_for_file, "registry.json: is no plain file"),
        pytest.param(
            _pipe_for_file,
            "registry.json: is no plain file",
            marks=pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes"),
        ),
    ],
)
def test_each_file_is_as_listed(result: Path, tamper: Callable[[Path], None], told_of: str) -> None:
    """A file that is missing, longer, other, unlisted or no plain file is told of, and it alone."""
    tamper(result)
    require_problem(result, told_of)
    assert len(verify(result).problems) == 1


@pytest.mark.parametrize(
    ("content", "told_of"),
    [
        (b"", "is no valid JSON"),
        (b"{", "is no valid JSON"),
        (b"\xef\xbb\xbf{}", "is no valid JSON"),
        (b"[]", "has another shape"),
        (b"null", "has another shape"),
        (b"{}", "has another shape"),
        (b"[" * 100_000 + b"]" * 100_000, "has another shape"),
        (b'{"schema":"x","a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply"),
        (b'{"schema":"notarius.manifest.v1","files":{}}', "has another shape"),
        (b'{"schema":"notarius.manifest.v1","files":[7]}', "has another shape"),
        (b'{"schema":"notarius.manifest.v1","files":[],"files":[]}', "the same key twice"),
        (b'{"schema":"notarius.manifest.v1","files":[],"x":"\\ud800"}', "is no valid JSON"),
        (b'{"schema":"notarius.manifest.v1","files":[],"x":"\xff"}', "is no valid JSON"),
        (b'{"schema":"notarius.manifest.v2","files":[]}', "schema `notarius.manifest.v2`"),
        (b'{"schema":"\\u001b[2J","files":[]}', "schema `\N{REPLACEMENT CHARACTER}[2J`"),
        (canonical_json(listing(entry("a", bytes=-1))), "has another shape"),
        (canonical_json(listing(entry("a", bytes=True))), "has another shape"),
        (canonical_json(listing(entry("a", sha256=None))), "has another shape"),
        (canonical_json(listing(entry("a"))).replace(b"0", b"9" * 5000, 1), "has another shape"),
    ],
)
def test_a_manifest_of_any_content_is_told_of(result: Path, content: bytes, told_of: str) -> None:
    """Whatever stands in a manifest becomes a line for a person, and nothing is raised."""
    write(result / MANIFEST, content)
    require_problem(result, told_of)
    # Without a manifest nothing can be called unlisted.
    assert len(verify(result).problems) == 1


@pytest.mark.parametrize("name", [MANIFEST, "registry.json"])
def test_a_file_of_any_size_is_not_read(result: Path, name: str) -> None:
    """A content that is too large to look at is not looked at."""
    with (result / name).open("r+b") as handle:
        handle.truncate(module.JSON_MAX_BYTES + 1)  # a hole, which takes no space
    require_problem(result, f"{name}: is larger than")


@pytest.mark.parametrize(
    "name",
    [
        *("../in.jsonl", "/etc/passwd", "a/../../in.jsonl", "..", ".", "", "a//b", "a/"),
        *("./registry.json", "registry.json/..", "registry.json/"),
        *("..\\in.jsonl", "C:\\x", "C:x"),
    ],
)
def test_a_name_that_leaves_the_folder_is_not_opened(
    result: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A manifest can't lead the reader out of the folder, nor to a file by another name."""
    source = (result.parent / "in.jsonl").read_bytes()
    write(result / MANIFEST, listing(*load(result / MANIFEST)["files"], entry(name, source)))
    opened: list[str] = []
    original = module._opened

    def spy(folder: Path, below: str) -> object:
        opened.append(below)
        return original(folder, below)

    monkeypatch.setattr(module, "_opened", spy)
    require_problem(result, f"manifest.json: lists `{name}`, which is no plain name")
    assert set(opened) == {MANIFEST, "receipt.json", "registry.json", "warnings.json"}


@pytest.mark.parametrize(
    "name", ["none.json", "a" * 5000, "x\0y", "deep/er/none.json", "registry.json/x"]
)
def test_a_name_of_nothing_is_told_of(result: Path, name: str) -> None:
    """A name that no file has, or can have, is a problem as any other."""
    write(result / MANIFEST, listing(*load(result / MANIFEST)["files"], entry(name)))
    found = verify(result)
    (problem,) = found.problems
    assert problem.what == "is missing" or len(name) > 1000 or "\0" in name
    assert all(line.isprintable() for line in verification_lines(found))


def test_no_link_to_a_folder_is_followed(campaign: Path, tmp_path: Path) -> None:
    """A registry's folder that is a link is not looked into, though all in it would fit."""
    (campaign / "npc" / f"{_files._STAGING_PREFIX}x").mkdir()
    (campaign / "npc").rename(tmp_path / "elsewhere")
    (campaign / "npc").symlink_to(tmp_path / "elsewhere")
    found = verify(campaign)
    assert [at for at in told(found, campaign) if "behind a link" in at] == told(found, campaign)
    assert (len(found.problems), found.files, found.leftovers) == (4, 9, ())


def test_a_leftover_is_no_fault(campaign: Path) -> None:
    """What a killed run left behind is remarked on, and nothing is wrong with the results."""
    for folder in (campaign, campaign / "item"):
        (folder / f"{_files._STAGING_PREFIX}\x1b").mkdir()
    found = verify(campaign)
    assert found.ok
    assert len(found.leftovers) == 2
    lines = verification_lines(found)
    assert len(lines) == 3
    assert all(line.isprintable() for line in lines)


def test_files_of_others_are_no_fault(campaign: Path) -> None:
    """Other files and folders may lie beside ours."""
    for folder in (campaign, campaign / "npc"):
        (folder / "notes.txt").write_text("mine", encoding="utf-8")
        (folder / "notes.json").write_text("mine", encoding="utf-8")
        (folder / "backup").mkdir()
    assert verify(campaign).ok


@pytest.mark.parametrize(
    ("tamper", "told_of"),
    [
        (lambda out: (out / MANIFEST).unlink(), ["manifest.json: is missing"]),
        (lambda out: (out / "npc" / MANIFEST).unlink(), ["npc/manifest.json: is missing"]),
        (
            lambda out: (out / "npc" / "registry.json").unlink(),
            ["npc/registry.json: is missing"],
        ),
        (
            lambda out: write(out / "npc" / "warnings.json", b"{}"),
            [
                "npc/warnings.json: has 2 bytes, but manifest.json says",
                "npc/warnings.json: has 2 bytes, but npc/manifest.json says",
                "npc/warnings.json: has another shape",
            ],
        ),
        (
            lambda out: write(out / "receipt.json", b"{}"),
            [
                "receipt.json: has 2 bytes, but manifest.json says",
                "receipt.json: has another shape",
            ],
        ),
        (
            lambda out: write(out / "warnings.json", b"{}"),
            ["warnings.json: is there, but no manifest lists it"],
        ),
        (
            lambda out: (out / "npc").rename(out / "items"),
            [
                f"npc/{name}.json: is missing"
                for name in ("manifest", "receipt", "registry", "warnings")
            ],
        ),
    ],
)
def test_a_campaign_that_was_changed_is_told_of(
    campaign: Path, tamper: Callable[[Path], object], told_of: list[str]
) -> None:
    """Both manifests have their say about a campaign's files."""
    tamper(campaign)
    require_problem(campaign, *told_of)
    assert len(verify(campaign).problems) == len(told_of)


def test_a_registry_that_the_campaign_does_not_list_is_told_of(campaign: Path) -> None:
    """A registry that was added or run again after the campaign's manifest is noticed."""
    manifest = load(campaign / MANIFEST)
    kept = [at for at in manifest["files"] if not at["name"].startswith("item/")]
    write(campaign / MANIFEST, listing(*kept))
    assert told(verify(campaign), campaign) == [
        "item/manifest.json: is there, but no manifest lists it"
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_registries_of_two_runs_are_told_apart(
    campaign: Path, tmp_path: Path, candidate_file: Write, kind: RegistryKind
) -> None:
    """A registry of another run in a campaign's folder is noticed though all digests fit."""
    source = candidate_file([*RECORDS, {"source_id": "d", "name": "Dora"}])
    reconcile(Settings(registry=kind, candidates=source, out=campaign / kind))
    seal(campaign)
    require_problem(
        campaign,
        f"{kind}/receipt.json: is of another run than the receipt.json above it: "
        "the number of candidates is `4` here, and `3` there",
        "the number of entries is `3` here, and `2` there",
        "the digest of the input is",
    )
    assert len(verify(campaign).problems) == 3


@pytest.mark.parametrize(
    ("key", "to", "told_of"),
    [
        ("outcome", "fell_back", "outcome is `accepted` here"),
        ("candidates", 4, "number of candidates is `3` here"),
        ("entries", 1, "number of entries is `2` here"),
        ("entries", None, "number of entries is `2` here"),
        ("parts", 2, "number of parts is `1` here"),
        ("remembered", 1, "number of remembered parts is `0` here"),
        ("input_sha256", "0", "digest of the input is"),
        ("policy_fingerprint", "0", "fingerprint of the policy is"),
        (None, None, "receipt.json: says nothing of npc, which has results"),
    ],
)
def test_the_receipt_of_the_run_fits_those_of_its_registries(
    campaign: Path, key: str | None, to: object, told_of: str
) -> None:
    """Whatever it says of a registry is compared with the registry's own receipt."""
    value = load(campaign / "receipt.json")
    if key is None:
        del value["registries"]["npc"]
    else:
        value["registries"]["npc"][key] = to
    write(campaign / "receipt.json", value)
    seal(campaign)
    require_problem(campaign, told_of)
    assert len(verify(campaign).problems) == 1


def test_the_receipt_of_the_run_names_the_model_of_all(campaign: Path) -> None:
    """Another model than a registry's is told for each of them."""
    value = load(campaign / "receipt.json")
    write(campaign / "receipt.json", {**value, "model": "openai:other"})
    seal(campaign)
    require_problem(campaign, *(f"{kind}/receipt.json: is of another run" for kind in KINDS))
    assert len(verify(campaign).problems) == 3


def test_a_run_without_a_result_fits_beside_an_earlier_one(
    campaign: Path, tmp_path: Path, scripted: Scripted
) -> None:
    """Its receipt is compared with that of the failure, and the earlier registry is no fault."""
    settings = RunSettings(campaign=tmp_path, out=campaign, checkpoints=tmp_path / "other.sqlite")
    with pytest.raises(ConnectionError):
        run_campaign(settings, backend=scripted([ConnectionError("gone")]))
    assert (campaign / "npc" / "failed-receipt.json").exists()
    assert verify(campaign).ok
    failed = campaign / "npc" / "failed-receipt.json"
    write(failed, {**load(failed), "outcome": "cancelled"})
    require_problem(campaign, "npc/failed-receipt.json: is of another run")
    write(failed, b"{}")
    require_problem(campaign, "npc/failed-receipt.json: has another shape")


def test_other_results_may_lie_below(result: Path, candidate_file: Write) -> None:
    """A run's folder is checked without the results of other runs that lie in it."""
    run = Settings(registry="item", candidates=candidate_file(RECORDS), out=result / "item")
    reconcile(run)
    (result / "item" / "registry.json").unlink()
    assert (verify(result).ok, verify(result).files) == (True, 3)
    write(result / MANIFEST, b"{}")
    assert told(verify(result), result)[0].startswith("manifest.json: has another shape")
    assert (len(verify(result).problems), verify(result).files) == (1, 0)
    receipt = load(result / "receipt.json")
    for name in ("registry.json", "warnings.json"):
        (result / name).unlink()
    write(result / "receipt.json", {**receipt, "outcome": "failed"})
    write(result / MANIFEST, listing(entry("receipt.json", (result / "receipt.json").read_bytes())))
    assert (verify(result).ok, verify(result).files) == (True, 1)


def test_a_registry_lies_in_its_own_folder(campaign: Path) -> None:
    """A registry in the folder of another is noticed though all digests fit."""
    (campaign / "item").rename(campaign / "tmp")
    (campaign / "npc").rename(campaign / "item")
    (campaign / "tmp").rename(campaign / "npc")
    seal(campaign)
    require_problem(campaign, "item/receipt.json: is of the npc registry, but lies in")


def test_a_folder_is_needed(tmp_path: Path, result: Path) -> None:
    """A place that is no folder of results is the caller's mistake: file and remedy are named."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "campaign" / "npc").mkdir(parents=True)
    for place in ("none", "empty", "campaign", "in.jsonl"):
        with pytest.raises(InputError, match=f"{place}: .*; name a folder"):
            verify(tmp_path / place)
    (tmp_path / "link").symlink_to(result)
    assert verify(tmp_path / "link").ok


Edit = Callable[[dict[str, Any]], object]


def _set(*path: Any, to: object) -> Edit:  # noqa: ANN401 - keys and places
    def edit(value: Any) -> None:  # noqa: ANN401 - a JSON value
        for key in path[:-1]:
            value = value[key]
        value[path[-1]] = to

    return edit


WARNING = {"kind": "process", "code": "some_code", "message": "Text.", "refused_groups": 1}


@pytest.mark.parametrize(
    ("name", "edit", "told_of"),
    [
        ("registry.json", _set("schema", to="notarius.registry.location.v1"), "is the location"),
        ("registry.json", _set("schema", to="notarius.registry.npc.v2"), "has the schema"),
        ("registry.json", _set("entries", 0, "source_ids", to=["a", "c"]), "`c`"),
        ("registry.json", _set("entries", 0, "source_ids", to=["a", "a"]), "more than once: `a`"),
        ("registry.json", _set("entries", 0, "source_ids", to=["a"]), "holds 2 candidates, but"),
        ("registry.json", _set("entries", 0, "source_ids", to=["a", "x"]), "members do not give"),
        ("registry.json", _set("entries", 0, "source_ids", to=[]), "members do not give"),
        ("registry.json", _set("entries", 0, "source_ids", to=["a", " "]), "members do not give"),
        (
            "registry.json",
            _set("entries", 0, "entry_id", to="npc-0\x1b"),
            "npc-0\N{REPLACEMENT CHARACTER}",
        ),
        ("registry.json", lambda value: value["entries"].pop(), "holds 2 candidates, but"),
        ("registry.json", _set("entries", to=[[]]), "has another shape"),
        ("registry.json", _set("entries", 0, "extra", to=[1]), "has another shape"),
        ("warnings.json", _set("warnings", to=[WARNING]), "holds 1 process warning, which does"),
        ("warnings.json", _set("warnings", to=[WARNING] * 2), "2 process warnings; there is at"),
        ("warnings.json", _set("warnings", to=[{**WARNING, "kind": "x"}]), "has another shape"),
        ("warnings.json", _set("schema", to="notarius.registry.npc.v1"), "has the schema"),
        ("receipt.json", _set("outcome", to="fell_back"), "warnings.json: holds 0 process"),
        ("receipt.json", _set("outcome", to="failed"), "registry.json: is there, but the receipt"),
        ("receipt.json", _set("outcome", to="fine"), "has another shape"),
        ("receipt.json", _set("registry", to="item"), "registry.json: is the npc registry, but"),
        ("receipt.json", _set("registry", to="x"), "has another shape"),
        ("receipt.json", _set("input", "candidates", to=4), "but the receipt counts 4"),
        ("receipt.json", _set("input", "candidates", to=10**30), "has another shape"),
        ("receipt.json", _set("budgets", "normalize_retries", "spent", to=1), "1 normalize retr"),
        ("receipt.json", _set("budgets", "repair_retries", "spent", to=2), "2 repair retries"),
        ("receipt.json", _set("attempts", 0, "transport_retries", to=3), "0 transport retries"),
        ("receipt.json", _set("usage", to={"input_tokens": 5}), "a usage that is not the sum"),
        ("receipt.json", _set("attempts", to=[]), "a usage that is not the sum"),
        ("receipt.json", _set("attempts", to=None), "has another shape"),
        ("receipt.json", _set("schema", to="x"), "has the schema `x`"),
    ],
)
def test_the_files_fit_each_other(result: Path, name: str, edit: Edit, told_of: str) -> None:
    """What follows without the input is computed again, whatever the manifest says."""
    value = load(result / name)
    edit(value)
    write(result / name, value)
    seal(result)
    require_problem(result, told_of)


def test_retries_are_counted_by_part(result: Path) -> None:
    """The first attempt for each part of a list is no retry."""
    receipt = load(result / "receipt.json")
    receipt["attempts"] = [{**receipt["attempts"][0], "part": part} for part in (1, 1, 2)]
    for spent, told_of in ((1, []), (2, ["receipt.json: says 2 normalize retries"])):
        receipt["budgets"]["normalize_retries"]["spent"] = spent
        write(result / "receipt.json", receipt)
        seal(result)
        assert [line[:38] for line in told(verify(result), result)] == told_of


@pytest.mark.parametrize("name", ["registry.json", "receipt.json", "warnings.json"])
def test_a_result_has_all_its_files(result: Path, name: str) -> None:
    """A file that neither is there nor listed is missed all the same."""
    (result / name).unlink()
    seal(result)
    assert told(verify(result), result) == [f"{name}: is missing"]


def test_the_candidates_fit_the_receipt(result: Path, tmp_path: Path) -> None:
    """The input is compared by its digest; one that is other, gone or of no receipt is told of."""
    source, receipt = tmp_path / "in.jsonl", result / "receipt.json"
    assert verify(result, {"npc": source}).ok
    assert verify(result, {"npc": [source]}).ok
    other = tmp_path / "other.jsonl"
    other.write_bytes(b"")
    cases: list[tuple[dict[RegistryKind, Path | Sequence[Path]], str]] = [
        ({"npc": other}, f"{receipt}: was made from other candidates than `other.jsonl`"),
        ({"npc": [source, other]}, f"{receipt}: was made from other candidates than `in.jsonl`, `"),
        ({"npc": []}, f"{receipt}: was made from other candidates than"),
        ({"npc": tmp_path / "gone"}, f"{tmp_path / 'gone'}: can't be read (No such file"),
        ({"npc": tmp_path}, f"{tmp_path}: can't be read (Is a directory)"),
        ({"item": source}, f"{result}: holds no readable receipt of `item`"),
    ]
    for candidates, told_of in cases:
        (problem,) = verify(result, candidates).problems
        assert f"{problem.file}: {problem.what}".startswith(told_of)
        assert problem.hint


def test_several_files_are_one_input(result: Path, tmp_path: Path) -> None:
    """Of a list that came in several files the receipt holds the digest of their digests."""
    sources = [tmp_path / "in.jsonl", tmp_path / "more.jsonl"]
    sources[1].write_bytes(b"more")
    digests = [hashlib.sha256(source.read_bytes()).hexdigest() for source in sources]
    receipt = load(result / "receipt.json")
    receipt["input"]["sha256"] = hashlib.sha256(canonical_json(digests)).hexdigest()
    write(result / "receipt.json", receipt)
    seal(result)
    assert verify(result, {"npc": sources}).ok
    assert not verify(result, {"npc": sources[::-1]}).ok


def test_many_problems_are_counted(result: Path) -> None:
    """A person sees the first problems and the number of the others; the result holds them all."""
    write(result / MANIFEST, listing(*(entry(f"{n}.json") for n in range(30))))
    found = verify(result)
    assert len(found.problems) == 33
    lines = verification_lines(found)
    assert lines[0] == f"{result}: 33 problems, 0 files compared"
    assert (len(lines), lines[-1]) == (12, "  and 23 more")


def test_a_problem_is_told_once(result: Path) -> None:
    """What is found twice, because it is listed twice or read twice, is one problem."""
    files = [at for at in load(result / MANIFEST)["files"] if at["name"] != "receipt.json"]
    write(result / MANIFEST, listing(*files, *[entry("..")] * 2, *[entry("receipt.json")] * 2))
    (result / "registry.json").unlink()
    assert [line.split(",")[0] for line in told(verify(result), result)] == [
        "manifest.json: lists `..` 2 times",
        "manifest.json: lists `receipt.json` 2 times",
        "registry.json: is missing",
        "manifest.json: lists `..`",
        f"receipt.json: has {(result / 'receipt.json').stat().st_size} bytes",
    ]


def test_words_of_a_file_are_cut(result: Path) -> None:
    """A long value of a file is shown in part."""
    value = load(result / "receipt.json")
    write(result / "receipt.json", {**value, "outcome": "x\x1b" * 1000})
    seal(result)
    (problem,) = verify(result).problems
    assert problem.what.isprintable()
    assert len(problem.what.encode()) < 300


def test_a_long_list_is_cut(result: Path) -> None:
    """Many faults of one kind are one bounded line."""
    value = load(result / "registry.json")
    value["entries"] *= 200
    for number, one in enumerate(value["entries"]):
        value["entries"][number] = {**one, "source_ids": [f"{number}" + "é" * 500] * 2}
    write(result / "registry.json", value)
    seal(result)
    repeated, wrong, counts = verify(result).problems
    assert "has 400 source_ids more than once: `0éé" in repeated.what
    assert repeated.what.endswith(" and 396 more")
    assert wrong.what.startswith("has 400 entry_ids that the members do not give: ")
    assert "holds 400 candidates, but the receipt counts 3" in counts.what
    assert all(len(at.what.encode()) < 500 for at in (repeated, wrong, counts))


def test_paths_of_any_bytes_can_be_written_as_json(result: Path, tmp_path: Path) -> None:
    """A folder whose name is no UTF-8 gives a result that can be encoded and printed."""
    odd = tmp_path / os.fsdecode(b"odd\xff\x1b")
    result.rename(odd)
    (odd / "receipt.json").unlink()
    found = verify(odd)
    assert canonical_json(found)
    assert all(line.isprintable() for line in verification_lines(found))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(name=st.sampled_from(["receipt.json", "registry.json", "warnings.json"]), data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_nothing_is_raised_on_any_content(result: Path, name: str, data: st.DataObject) -> None:
    """Any JSON value in any place gives lines for a person, in the same order each time."""
    path = result / name
    kept = path.read_bytes()
    value = json.loads(kept)
    keys: list[Any] = []
    at = value
    while isinstance(at, dict | list) and at and (not keys or data.draw(st.booleans())):
        among = sorted(at) if isinstance(at, dict) else range(len(at))
        keys.append(data.draw(st.sampled_from(list(among))))
        at = at[keys[-1]]
    _set(*keys, to=data.draw(JSON))(value)
    write(path, json.dumps(value).encode())
    seal(result)
    found = verify(result)
    assert found == verify(result)
    assert canonical_json(found)
    assert all(line.isprintable() for line in verification_lines(found))
    write(path, kept)
    seal(result)
    assert verify(result).ok
