"""A version that is pinned meets what a later one wrote: a category, and a field, that it lacks.

adr/0014 says how a category is added; these are the promises that it rests on.
"""

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from notarius.contracts import (
    AttemptRecord,
    FinishReason,
    IssueCount,
    IssueDetails,
    NormalizeRetry,
    Reply,
    canonical_json,
)
from notarius.pipeline import RunSettings, check_campaign, report, run_campaign, verify
from notarius.pipeline._checkpoints import Remembered
from notarius.registries import NpcRules, registry_fingerprint
from notarius.semanticreconcile import (
    ALL_CATEGORIES,
    IssueCategory,
    RefusedGroup,
    UnmappedCategoryError,
    _policy,
    render_guidance,
)

PAYLOADS = Path(__file__).parent / "payloads"
RUN = max((PAYLOADS / "pipeline").iterdir())
CONTRACTS = max((PAYLOADS / "contracts").iterdir())
FUTURE = "later_defect"
KNOWN = IssueCategory.UNKNOWN_CANDIDATE.value


def later(data: bytes) -> bytes:
    """Return what a later version might have written: another category, and a key more."""
    text = data.decode().replace(KNOWN, FUTURE)
    assert FUTURE in text

    def grown(value: Any) -> Any:  # noqa: ANN401 - JSON
        # Keys are fixed but where there are counts by category, of which there may be none.
        if isinstance(value, dict) and value and FUTURE not in value:
            return {**{key: grown(part) for key, part in value.items()}, "later_field": [1]}
        return [grown(part) for part in value] if isinstance(value, list) else value

    return json.dumps(grown(json.loads(text))).encode()


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("IssueDetails", IssueDetails),
        ("IssueCount", IssueCount),
        ("AttemptRecord", AttemptRecord),
        ("NormalizeRetry", NormalizeRetry),
    ],
)
def test_a_value_with_a_category_of_a_later_version_is_read(name: str, kind: type) -> None:
    """It is decoded, and the category is written again as it stood; other keys are passed over."""
    value: object = msgspec.json.decode(later((CONTRACTS / f"{name}.json").read_bytes()), type=kind)
    written = canonical_json(value).decode()
    assert FUTURE in written
    assert "later_field" not in json.loads(written)


def test_a_category_of_a_later_version_is_no_member() -> None:
    """Within a pinned range a match over the enum stays total: what is foreign stays a text."""
    stored = later((CONTRACTS / "IssueDetails.json").read_bytes())
    category = msgspec.json.decode(stored, type=IssueDetails).category
    assert type(category) is str
    assert category not in [*IssueCategory]
    with pytest.raises(ValueError, match=FUTURE):
        IssueCategory(category)


def test_no_model_is_told_about_a_category_of_a_later_version() -> None:
    """Guidance for a group with a foreign category is refused as a whole, without its name."""
    issue = IssueDetails(category=FUTURE, group_index=0, request_ids=("c1", "c2"))
    with pytest.raises(UnmappedCategoryError) as caught:
        render_guidance([RefusedGroup(index=0, ids=("c1", "c2"), issues=(issue,))])
    assert FUTURE not in str(caught.value)


@pytest.fixture
def later_run(tmp_path: Path) -> Path:
    """The output folder of a run of a later version, with a category that this one lacks."""
    out = Path(shutil.copytree(RUN / "out", tmp_path / "out"))
    for folder in (out / "npc", out):
        for name in ("receipt.json", "npc/receipt.json"):
            path = folder / name
            if path.exists() and KNOWN in path.read_text("utf-8"):
                path.write_bytes(later(path.read_bytes()))
        manifest = json.loads((folder / "manifest.json").read_bytes())
        for entry in manifest["files"]:
            data = (folder / entry["name"]).read_bytes()
            entry.update(bytes=len(data), sha256=hashlib.sha256(data).hexdigest())
        (folder / "manifest.json").write_bytes(canonical_json(manifest))
    return out


def test_an_output_folder_of_a_later_version_is_verified(later_run: Path) -> None:
    """Its files fit each other; what this version does not know is passed over."""
    found = verify(later_run)
    assert found.ok, found.problems


def test_a_report_has_general_words_for_a_category_of_a_later_version(
    later_run: Path, tmp_path: Path
) -> None:
    """A person reads that a group has a defect; no code stands in the page."""
    done = report(later_run, html=tmp_path / "r.html")
    assert [one.outcome for one in done.registries] == ["accepted", "fell_back", "accepted"]
    page = (tmp_path / "r.html").read_text("utf-8")
    assert "has a defect" in page
    assert FUTURE not in page


class Declining:
    """A backend that finds no duplicates."""

    def complete(self, call: object, *, cancellation: object) -> Reply:
        """Answer that there are none."""
        return Reply(text='{"duplicate_groups": []}', finish_reason=FinishReason.STOP)


def test_remembered_results_of_a_later_policy_are_never_met(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Another list of categories is another policy, whose results have keys of their own."""

    class Added(str):
        value = FUTURE
        __slots__ = ()

    file, campaign = tmp_path / "checkpoints.sqlite", RUN / "campaign"
    here = registry_fingerprint(NpcRules())
    with monkeypatch.context() as patch:
        patch.setattr(_policy, "ALL_CATEGORIES", (*ALL_CATEGORIES, Added(FUTURE)))
        assert registry_fingerprint(NpcRules()) != here
        run_campaign(
            RunSettings(campaign=campaign, out=tmp_path / "later", checkpoints=file),
            backend=lambda *_: Declining(),
        )
        known = check_campaign(campaign, checkpoints=file).registries
        assert [one.remembered for one in known] == [1, 1, 1]
    met = check_campaign(campaign, checkpoints=file).registries
    assert [one.remembered for one in met] == [0, 0, 0]


def test_a_remembered_result_with_foreign_records_is_read() -> None:
    """A result under our own key, put by a version that records more, answers all the same."""
    record = later((CONTRACTS / "AttemptRecord.json").read_bytes())
    registry = b'{"schema":"notarius.registry.npc.v1","entries":[]}'
    row = b'{"outcome":"accepted","registry":%b,"records":[%b],"applied_attempt":2,"warning":null}'
    found = msgspec.json.decode(row % (registry, record), type=Remembered)
    assert [issue.category for issue in found.records[0].issues] == [FUTURE]
