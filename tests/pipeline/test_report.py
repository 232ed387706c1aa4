"""The page about an output folder: what it shows, and that nothing in it can do anything."""

import base64
import hashlib
import json
import os
import re
import shutil
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from notarius.attempts import AttemptPolicy, TerminalPolicy
from notarius.contracts import (
    AttemptCause,
    AttemptResult,
    FinishReason,
    ProviderError,
    ProviderErrorKind,
    Reply,
    StructuralDefect,
    Usage,
    canonical_json,
)
from notarius.pipeline import InputError, RunSettings, Settings, cli, reconcile, run_campaign
from notarius.pipeline._page import duration, seen
from notarius.pipeline._plain import cause_words, defect_words, outcome_words, result_words
from notarius.pipeline._report import report
from notarius.registries import ItemCandidate, ItemRules, NpcCandidate, NpcRules, Registry
from notarius.semanticreconcile import ALL_CATEGORIES, CATEGORY_PROSE

Write = Callable[..., Path]
Scripted = Callable[..., Any]
Groups = Callable[..., str]
CODE = re.compile(r"[a-z]+_[a-z_]+")
PEOPLE = [
    {"source_id": "p1", "name": "Orla Venn", "aliases": ["the Captain"], "description": "one\ntwo"},
    {"source_id": "p2", "name": "Captain Venn", "evidence": ["She steers."], "extra": {"n": 1}},
    {"source_id": "p3", "name": "Tamsin", "evidence": ["Tamsin sells a map."]},
    {"source_id": "p4", "name": "Brother Aldous"},
]
HOSTILE = [
    "<script>window.__pwned = 1</script>",
    "</script><script>window.__pwned = 1</script>",
    "</style><img src=x onerror='window.__pwned = 1'>",
    '"><svg onload=window.__pwned=1>',
    "' onmouseover='window.__pwned = 1",
    "{{ 7 * 7 }}{% for x in y %}{# no #}",
    "<!--", "-->", "]]>", "</bdi></article></body></html>", "<plaintext>", "<textarea>",
    "&lt;b&gt; &amp; &#0; &notanentity;",
    "javascript:window.__pwned=1",
    "\0\x01\x1b[31m\x7f\x85",
    "\u202eevil\u202c \u2066x \u200f \u061c \u2028 \u2029",
    "a\r\nb\rc\nd\te",
    "\ufffe\uffff\ufdd0 \U0001f409 e\u0301 \u05d0\u05d1",
    "z\u200bero \u2060w\ufeffidth so\u00adft \u3164 \ufff9\U000e0041\U0001d173\u180e",
    "me\u200cmb \u0915\u094d\u200d\u0937 \U0001f469\u200d\U0001f680 \u2764\ufe0f \u0600",
    "n" * 2000,
]  # fmt: skip


class Page(HTMLParser):
    """A page taken apart: its elements with all their attributes, and the text of each."""

    def __init__(self, data: bytes) -> None:
        """Read the page."""
        super().__init__()
        self.elements: list[tuple[str, tuple[tuple[str, str | None], ...]]] = []
        self.open: list[int] = []
        self.texts: list[tuple[tuple[int, ...], str]] = []
        self.others: list[str] = []
        self.source = data.decode()
        self.feed(self.source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Open an element."""
        self.elements.append((tag, tuple(attrs)))
        if tag not in {"meta", "input", "br", "rect"}:
            self.open.append(len(self.elements) - 1)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep an element without content."""
        self.elements.append((tag, tuple(attrs)))

    def handle_endtag(self, tag: str) -> None:
        """Close the innermost element, which must be this."""
        assert self.elements[self.open.pop()][0] == tag

    def handle_data(self, data: str) -> None:
        """Keep a text with the elements around it."""
        self.texts.append((tuple(self.open), data))

    def handle_comment(self, data: str) -> None:
        """Keep what the page must not have."""
        self.others.append(data)

    handle_pi = unknown_decl = handle_comment

    def text(self, *, of: str = "", classed: str = "", within: str = "") -> str:
        """Return the text of all elements of a name or class, or of the element of an id."""

        def fits(number: int) -> bool:
            tag, attrs = self.elements[number]
            found = dict(attrs)
            named = not of or tag == of
            classes = (found.get("class") or "").split()
            return (
                named
                and (not classed or classed in classes)
                and (not within or found.get("id") == within)
            )

        return "".join(text for around, text in self.texts if any(map(fits, around)))

    @property
    def words(self) -> str:
        """The text that a person sees."""
        hidden = {"style", "script"}
        return "".join(
            text
            for around, text in self.texts
            if not any(self.elements[number][0] in hidden for number in around)
        )

    def attributes(self, name: str) -> list[str]:
        """Return all values of an attribute."""
        return [value or "" for _, attrs in self.elements for key, value in attrs if key == name]


def looked_at(out: Path, **options: Any) -> Page:  # noqa: ANN401 - options of the function
    """Write a report and read it."""
    return Page(Path(report(out, **options).file).read_bytes())


def seal(folder: Path, files: dict[str, object]) -> None:
    """Write JSON files and their manifest."""
    folder.mkdir(parents=True, exist_ok=True)
    written = {name: canonical_json(value) + b"\n" for name, value in files.items()}
    listed = [
        {"name": name, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in written.items()
    ]
    manifest = canonical_json({"schema": "notarius.manifest.v1", "files": listed})
    for name, data in {**written, "manifest.json": manifest}.items():
        (folder / name).write_bytes(data)


def attempt(number: int = 1, **more: object) -> dict[str, object]:
    """Return an attempt as a receipt has it."""
    usual = {
        "number": number,
        "part": 1,
        "cause": "initial",
        "result": "accepted",
        "duration_ms": 10,
        "issue_counts": {},
        "refused": [],
        "repairs": 0,
        "transport_retries": 0,
        "usage": None,
        "request_sha256": "0" * 64,
    }
    return usual | more


def results(
    folder: Path,
    groups: Sequence[Sequence[NpcCandidate]],
    attempts: Sequence[dict[str, object]] = (attempt(),),
    *,
    warnings: Sequence[dict[str, object]] = (),
    **more: object,
) -> Path:
    """Write the folder of a run that put these groups of candidates together."""
    rules = NpcRules()
    entries = tuple(rules.entry(group[0], group) for group in groups)
    parts: set[Any] = {one["part"] for one in attempts}
    receipt = {
        "schema": "notarius.receipt.v1",
        "outcome": "fell_back" if warnings else "accepted",
        "registry": "npc",
        "model": "tiny",
        "policy_fingerprint": "2" * 64,
        "input": {"sha256": "1" * 64, "candidates": sum(map(len, groups))},
        "attempts": list(attempts),
        "parts": [
            {"number": number, "outcome": "accepted", "remembered": False}
            for number in sorted(parts)
        ],
        "budgets": {
            "normalize_retries": {"allowed": 2, "spent": len(attempts) - len(parts)},
            "repair_retries": {"allowed_per_attempt": 1, "spent": 0},
            "transport_retries": {"allowed_per_attempt": 2, "spent": 0},
        },
        "usage": None if attempts else {"input_tokens": 0, "output_tokens": 0},
    }
    registry = Registry(schema="notarius.registry.npc.v1", entries=entries)
    seal(
        folder,
        {
            "registry.json": registry,
            "receipt.json": receipt | more,
            "warnings.json": {"schema": "notarius.warnings.v1", "warnings": list(warnings)},
        },
    )
    return folder


def hostile_results(folder: Path, text: str) -> Path:
    """Write results that have a text in every place where a text of somebody else can stand."""
    first, second, third = (
        NpcCandidate(
            source_id=f"{text}{number}",
            name=f"{text}name{number}",
            aliases=(f"{text}alias{number}",),
            description=f"{text}description{number}",
            evidence=(f"{text}evidence{number}",),
            extra={f"{text}key": f"{text}value", "n": number},
        )
        for number in (1, 2, 3)
    )
    refused: dict[str, object] = {
        "group": 1,
        "categories": [text],
        "source_ids": [first.source_id, third.source_id],
    }
    made = attempt(
        result="refused", cause=text, issue_counts={text: 1}, refused=[refused], finish_reason=text
    )
    later = {
        "schema": "notarius.receipt.v1",
        "outcome": text,
        "registry": "npc",
        "model": text,
        "input": {"sha256": f"i{text}", "candidates": 3},
        "attempts": [attempt(structural_defect=text, result=text, response_sha256=f"r{text}")],
        "failure": {"message": f"{text}failure", "code": text, "kind": text},
        "policy_fingerprint": f"p{text}",
    }
    short = text.isprintable() and text.strip() and len(text) < 100
    message = f"{text if short else ''}message"
    warning: dict[str, object] = {
        "kind": "process",
        "code": "some_code",
        "message": message,
        "samples": [message],
    }
    results(folder, [[first, second], [third]], [made], warnings=[warning], model=f"m{text}")
    (folder / "failed-receipt.json").write_bytes(canonical_json(later))
    return folder


# Also what is not yet given to a character there.
UNSEEN_BLOCKS = [(0x2060, 0x206F), (0xFFF0, 0xFFFB), (0xE0000, 0xE00FF)]


def as_seen(text: str) -> str:
    """Return a text with what can't be seen made visible."""

    def unseen(c: str) -> bool:
        turning = unicodedata.bidirectional(c) in {
            *("LRE", "RLE", "LRO", "RLO", "PDF"),
            *("LRI", "RLI", "FSI", "PDI"),
        }
        marks = c in "\u200e\u200f\u061c\u2028\u2029" or unicodedata.category(c) == "Cs"
        none = 0xFDD0 <= ord(c) <= 0xFDEF or c in "\ufffe\uffff"
        thin = unicodedata.category(c) == "Cf" and unicodedata.bidirectional(c) == "BN"
        blank = c in "\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0"
        block = any(first <= ord(c) <= last for first, last in UNSEEN_BLOCKS)
        control = unicodedata.category(c) == "Cc" and c != "\n"
        joiner = c in "\u200c\u200d"
        return not joiner and (control or turning or marks or none or thin or blank or block)

    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    return "".join("\ufffd" if unseen(c) else c for c in lines)


@pytest.fixture(scope="session")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """A campaign and the folder of its run."""
    folder = tmp_path_factory.mktemp("campaign")
    lists: dict[str, Any] = {
        "npc": PEOPLE,
        "item": [{"source_id": "i1", "name": "5 gp"}],
        "location": PEOPLE,
    }
    for kind, records in lists.items():
        text = "".join(json.dumps(record) + "\n" for record in records)
        (folder / f"{kind}.jsonl").write_text(text)
    out = tmp_path_factory.mktemp("results") / "out"
    run_campaign(RunSettings(campaign=folder, out=out))
    return SimpleNamespace(folder=folder, out=out)


@pytest.fixture
def own(campaign: SimpleNamespace, tmp_path: Path) -> Path:
    """A copy of the campaign's results, for this test alone."""
    return Path(shutil.copytree(campaign.out, tmp_path / "own"))


def test_all_that_a_registry_holds_is_on_the_page(own: Path) -> None:
    """Every entry with names, texts, extra and the ids of its candidates; tags of an item too."""
    page = looked_at(own)
    for path in own.glob("*/registry.json"):
        for number, entry in enumerate(json.loads(path.read_bytes())["entries"], start=1):
            shown = page.text(within=f"{path.parent.name}-{number}")
            texts = [entry["name"], *entry["aliases"], *entry["descriptions"], *entry["evidence"]]
            assert all(text in shown for text in (*texts, *entry["source_ids"]))
            assert all(json.dumps(extra) in shown for extra in entry["extra"])
            merged = len(entry["source_ids"])
            assert ("merged from" in shown) == (merged > 1)
            assert f"merged from {merged}" in shown or merged == 1
    assert "currency" in page.text(within="item-1")
    assert "gp" in page.text(within="item-1")
    assert page.text(of="h1") == "NPCs, items and locations"
    assert page.text(classed="fold") == (
        "4 candidates → 3 entries1 candidate → 1 entry4 candidates → 4 entries"
    )
    assert "Verified: 13 files" in page.text(classed="banner")
    assert "model was not asked" in page.text(within="summary")  # one item alone
    assert "not reported by the model" in page.text(within="summary")
    assert "--candidates" in page.text(classed="hint")


def test_candidates_are_shown_as_they_were(own: Path, campaign: SimpleNamespace) -> None:
    """With the candidates each of a merged entry has its own texts, beside its own name."""
    without = looked_at(own)
    page = looked_at(own, candidates=campaign.folder)
    assert without.text(classed="before") == ""
    before = page.text(classed="before")
    assert before.index("Orla Venn") < before.index("one\ntwo") < before.index("Captain Venn")
    assert "She steers." in before
    assert "Tamsin" not in before
    assert "--candidates" not in page.text(classed="hint")


def test_other_candidates_are_refused(own: Path, campaign: SimpleNamespace, tmp_path: Path) -> None:
    """Candidates that the run did not have are an error, and nothing is written."""
    other = Path(shutil.copytree(campaign.folder, tmp_path / "other"))
    with (other / "item.jsonl").open("a") as handle:
        handle.write("\n")
    with pytest.raises(InputError, match=r"other item candidates .*item.receipt\.json"):
        report(own, candidates=other)
    (other / "item.jsonl").unlink()
    with pytest.raises(InputError, match="holds no candidates of the item registry"):
        report(own, candidates=other)
    with pytest.raises(InputError, match="give the campaign's folder"):
        report(own, candidates=campaign.folder / "npc.jsonl")
    (own / "npc" / "receipt.json").write_text("{}")
    with pytest.raises(InputError, match=r"npc.receipt\.json: can't be read"):
        report(own, candidates=campaign.folder)
    assert not (own / "report.html").exists()


def test_one_registry_can_be_looked_at_with_its_candidates(
    own: Path, campaign: SimpleNamespace
) -> None:
    """A registry's folder takes its candidate file, or the campaign that has it."""
    for given_path in (campaign.folder, campaign.folder / "npc.jsonl"):
        page = looked_at(own / "npc", candidates=given_path)
        assert page.text(of="h1") == "NPCs"
        assert "Captain Venn" in page.text(classed="before")
    with pytest.raises(InputError, match="other npc candidates"):
        report(own / "npc", candidates=campaign.folder / "item.jsonl")


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_becomes_part_of_the_page(tmp_path: Path, text: str) -> None:
    """Whatever the texts are, elements and attributes are those of a harmless page."""
    plain = looked_at(hostile_results(tmp_path / "plain", "x"))
    page = looked_at(hostile_results(tmp_path / "hostile", text))
    assert page.elements == plain.elements
    assert page.others == []
    assert page.open == []
    shown = page.text(within="npc-1")
    for what in ("name1", "alias1", "description1", "evidence1", "alias2", "2"):
        assert as_seen(f"{text}{what}") in shown
    assert as_seen(f"m{text}") in page.text(of="header")
    assert as_seen(f"{text}failure") in page.text(within="warnings")
    assert as_seen(f"{text}3") in page.text(within="refused")
    assert as_seen(f"p{text}") in page.text(within="auditors")
    assert as_seen(page.words) == page.words


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(st.characters(codec="utf-8"), max_size=30))
def test_no_text_at_all_becomes_part_of_the_page(tmp_path: Path, text: str) -> None:
    """The same for any text, but for a code such as `fell_back`, which has a meaning."""
    assume(not re.fullmatch("[a-z_]+", text))
    page = looked_at(hostile_results(tmp_path / "any", text))
    assert page.elements == _harmless(tmp_path).elements
    assert page.others == []
    assert as_seen(f"{text}name1") in page.text(within="npc-1")
    assert as_seen(page.words) == page.words


def _harmless(place: Path) -> Page:
    return looked_at(hostile_results(place / "harmless", "x"))


def test_halves_of_characters_are_made_visible() -> None:
    """A path can hold what no page can; what stays as it is are numbers and our own markup."""
    assert seen("a\ud800b\udfff") == "a\ufffdb\ufffd"
    assert (seen(7), seen("a\nb \u00a0\u200d")) == (7, "a\nb \u00a0\u200d")


def test_the_page_allows_its_own_style_and_script_alone(own: Path) -> None:
    """The policy names exactly these two; there is no other source, handler or inline style."""
    page = looked_at(own)
    (policy,) = (
        dict(attrs)["content"]
        for tag, attrs in page.elements
        if tag == "meta" and dict(attrs).get("http-equiv") == "Content-Security-Policy"
    )
    hashes = {
        tag: base64.b64encode(hashlib.sha256(page.text(of=tag).encode()).digest()).decode()
        for tag in ("style", "script")
    }
    assert (policy or "").split("; ") == [
        "default-src 'none'",
        f"style-src 'sha256-{hashes['style']}'",
        f"script-src 'sha256-{hashes['script']}'",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    assert [tag for tag, _ in page.elements].count("script") == 1
    assert [tag for tag, _ in page.elements].count("style") == 1
    names = {name for _, attrs in page.elements for name, _ in attrs}
    assert not {name for name in names if name.startswith("on")} | names & {"src", "style"}
    assert all(link.startswith("#") for link in page.attributes("href"))
    assert "http" not in page.source.replace("http-equiv", "")
    assert page.source.startswith('<!doctype html>\n<html lang="en">')


def test_every_link_leads_somewhere_on_the_page(tmp_path: Path) -> None:
    """Refused groups and entries lead to each other, and each id stands once."""
    page = looked_at(hostile_results(tmp_path / "out", "x"))
    ids = page.attributes("id")
    assert len(ids) == len(set(ids))
    assert {link[1:] for link in page.attributes("href")} <= set(ids)
    assert "#npc-1" in page.attributes("href")
    assert "#npc-2" in page.attributes("href")


def test_a_receipt_that_repeats_itself_gives_ids_of_their_own(tmp_path: Path) -> None:
    """Attempts and groups of the same number can be told apart: a link leads to one of them."""
    group = {"group": 1, "categories": [], "source_ids": ["a"]}
    made = [attempt(refused=[group, group]), attempt(refused=[group]), attempt(part=2)]
    ada = NpcCandidate(source_id="a", name="Ada")
    page = looked_at(results(tmp_path / "out", [[ada]], made))
    ids = page.attributes("id")
    assert len(ids) == len(set(ids))
    assert page.text(within="npc-1").count("part 1, attempt 1, group 1") == 3


def test_folders_of_one_registry_are_told_apart(own: Path) -> None:
    """Also where one lies in the folder of another, which is a problem, no id stands twice."""
    shutil.rmtree(own / "item")
    shutil.copytree(own / "npc", own / "item")
    page = looked_at(own)
    assert "lies in the folder of item" in page.text(classed="banner")
    ids = page.attributes("id")
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("category", ALL_CATEGORIES)
def test_a_refused_group_is_explained_in_words(tmp_path: Path, category: str) -> None:
    """What was wrong is said in the operator's words, with what became of the candidates."""
    people = [NpcCandidate(source_id=f"p{n}", name=f"Name{n}") for n in range(4)]
    refused = [
        {"group": 3, "categories": [category], "source_ids": ["p0", "p2"]},
        {"group": 4, "categories": [category], "source_ids": ["p0", "p1"]},
        {"group": 5, "categories": [category], "source_ids": ["p3"]},
        {"group": 6, "categories": [category, category], "source_ids": []},
    ]
    made = [
        attempt(result="refused", issue_counts={category: 5}, refused=refused),
        attempt(2, cause="corrective_retry"),
    ]
    out = results(tmp_path / "out", [people[:2], [people[2]], [people[3]]], made)
    page = looked_at(out)
    words = CATEGORY_PROSE[category]  # type: ignore[index]  # parametrised by its own members
    said = page.text(within="refused")
    assert f"Group 3 {words.operator_one}." in said
    assert said.count(words.operator_one) == 4
    assert said.index("kept in 2 entries") < said.index("They are one entry all the same")
    assert "The candidate is kept" in said
    assert "It named no candidate of the list." in said
    assert f"5 groups {words.operator_many}" in page.text(within="attempts")
    assert "attempt 1, group 3, attempt 1, group 4" in page.text(within="npc-1")
    assert "refused" not in page.text(within="npc-3").replace("In a refused group", "", 1)
    assert CODE.findall(page.words) == []


def test_no_code_stands_in_the_page(
    candidate_file: Write, out: Path, scripted: Scripted, groups: Groups
) -> None:
    """Outcomes, causes, results, reasons and categories are words, in a run with all of them."""
    reply = Reply(
        text=groups(["c1", "c3"], ["c2", "c9"], ["c1", "c1"]),
        finish_reason=FinishReason.STOP,
        usage=Usage(input_tokens=1234, output_tokens=5),
    )
    settings = Settings(registry="npc", candidates=candidate_file(PEOPLE), out=out)
    reconcile(settings, backend=scripted([reply, "no JSON", "no JSON", reply]))
    page = looked_at(out)
    assert CODE.findall(page.words) == []
    receipt = json.loads((out / "receipt.json").read_bytes())
    codes = {receipt["outcome"]} | {made["cause"] for made in receipt["attempts"]}
    assert {"fell_back", "corrective_retry", "structural_retry"} <= codes
    assert "safe part applied" in page.text(of="header")
    warning = json.loads((out / "warnings.json").read_bytes())["warnings"][0]
    assert warning["message"] in page.text(within="warnings")
    assert all(sample in page.text(within="warnings") for sample in warning["samples"])
    said = page.text(within="attempts")
    assert "not exactly one JSON object" in said
    assert "1 repair" in said
    assert "tokens: 1,234 in, 5 out" in said
    assert receipt["policy_fingerprint"] in page.text(within="auditors")
    assert receipt["attempts"][1]["guidance_sha256"] in page.text(within="auditors")


def test_what_a_newer_version_wrote_gets_general_words(tmp_path: Path) -> None:
    """An unknown category, cause, result or outcome is no fault, and is not shown as a code."""
    ada = NpcCandidate(source_id="a", name="Ada")
    refused = [{"group": 1, "categories": ["wholly_new"], "source_ids": ["a"]}]
    made = attempt(
        cause="wholly_new",
        result="wholly_new",
        issue_counts={"wholly_new": 2, "other_new": 1},
        refused=refused,
        structural_defect=None,
    )
    parts = [{"number": 1, "outcome": "wholly_new", "remembered": True}]
    page = looked_at(results(tmp_path / "out", [[ada]], [made], parts=parts))
    assert CODE.findall(page.words) == []
    assert "Group 1 has a defect." in page.words
    assert "3 groups have defects" in page.words
    assert "2 defects more" in page.text(within="refused")
    assert "at least 1" in page.text(within="summary")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (AttemptCause, cause_words),
        (AttemptResult, lambda value: result_words(value)[0]),
        (StructuralDefect, defect_words),
        (
            ("accepted", "fell_back", "failed", "cancelled"),
            lambda value: outcome_words(value).words,
        ),
    ],
)
def test_each_value_has_words_of_its_own(
    values: Iterable[str], words: Callable[[str], str]
) -> None:
    """No two values, and no unknown one, are told alike, and none by its code."""
    said = [words(value) for value in (*values, "unknown")]
    assert len(set(said)) == len(said)
    assert all(not CODE.search(one) for one in said)


def test_attempts_follow_one_another_on_the_time_line(tmp_path: Path) -> None:
    """Bars are to the scale of the longest part, each where the one before ended."""
    ada = NpcCandidate(source_id="a", name="Ada")
    made = [
        attempt(1, duration_ms=100, result="refused"),
        attempt(2, duration_ms=300, cause="module_retry", transport_retries=2),
        attempt(1, part=2, duration_ms=200),
    ]
    page = looked_at(results(tmp_path / "out", [[ada]], made))
    bars = [
        (dict(attrs).get("x"), dict(attrs)["width"])
        for tag, attrs in page.elements
        if tag == "rect" and dict(attrs)["class"] == "run"
    ]
    assert bars == [("0", "250"), ("250", "750"), ("0", "500")]
    said = page.text(within="attempts")
    assert "2 calls repeated" in said
    assert "300 ms" in said
    assert "600 ms" in page.text(within="summary")
    assert "Part 2" in said


def test_what_was_known_before_is_told_apart(own: Path, campaign: SimpleNamespace) -> None:
    """A part that was taken from the checkpoints is marked, and cost nothing in this run."""
    assert "known from before" not in looked_at(own).words
    run_campaign(RunSettings(campaign=campaign.folder, out=own))
    page = looked_at(own)
    assert "known from before, not asked in this run" in page.text(within="attempts")
    assert "in this run: 0 in, 0 out" in page.text(within="summary")


@pytest.mark.parametrize(
    ("milliseconds", "said"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1000, "1.0 s"),
        (59_949, "59.9 s"),
        (59_999, "60.0 s"),
        (60_000, "1 min 0 s"),
        (3_599_999, "59 min 59 s"),
        (3_600_000, "1 h 0 min"),
    ],
)
def test_durations_are_written_for_a_person(milliseconds: int, said: str) -> None:
    """The unit grows with the duration."""
    assert duration(milliseconds) == said


@pytest.mark.parametrize("earlier", [False, True])
def test_a_run_without_a_result_is_shown(
    candidate_file: Write, out: Path, scripted: Scripted, groups: Groups, *, earlier: bool
) -> None:
    """Its failure stands in full; what an earlier run left is shown as the earlier run's."""
    settings = Settings(
        registry="npc",
        candidates=candidate_file(PEOPLE),
        out=out,
        policy=AttemptPolicy(normalize_retries=0, terminal=TerminalPolicy.FAIL),
    )
    if earlier:
        reconcile(settings, backend=scripted([groups(["c1", "c2"])]))
    failed = reconcile(settings, backend=scripted([groups(["c1", "c9"])]))
    page = looked_at(out)
    assert failed.failure is not None
    assert failed.failure["message"] in page.text(within="warnings")
    assert "names a candidate that was not offered" in page.text(within="refused")
    assert "p1" in page.text(within="refused")
    assert ("a later run" in page.words) == earlier
    assert ("Orla Venn" in page.text(within="entries")) == earlier
    assert ("accepted" in page.text(of="header")) == earlier
    assert "failed" in page.text(of="header")
    assert ("No registry can be shown." in page.words) != earlier
    assert CODE.findall(page.words) == []


def test_other_endings_are_shown(candidate_file: Write, out: Path, scripted: Scripted) -> None:
    """A lost server and an interruption are told in words."""
    settings = Settings(registry="npc", candidates=candidate_file(PEOPLE), out=out)
    reconcile(settings, backend=scripted([ProviderError(ProviderErrorKind.DENIED)]))
    page = looked_at(out)
    assert "failed" in page.text(of="header")
    assert "no answer from the model" in page.text(within="attempts")
    with pytest.raises(KeyboardInterrupt):
        reconcile(settings, backend=scripted([KeyboardInterrupt()]))
    page = looked_at(out)
    assert "interrupted" in page.text(of="header")
    assert "stopped before its end" in page.text(within="warnings")


def test_registries_that_ended_differently_are_summed_up(own: Path) -> None:
    """The heading names the registries where they are not alike, and what is not complete."""
    for kind, outcome in (("npc", "fell_back"), ("item", "cancelled")):
        path = own / kind / "receipt.json"
        path.write_bytes(canonical_json(json.loads(path.read_bytes()) | {"outcome": outcome}))
        said = looked_at(own).text(of="header")
        assert "NPCs: safe part applied" in said
        assert ("not complete" in said) == (kind == "item")
        assert ("done, with a warning" in said) == (kind == "npc")


@pytest.mark.parametrize("name", ["registry.json", "receipt.json", "warnings.json"])
@pytest.mark.parametrize("damage", ["missing", "cut", "other"])
def test_damage_is_shown_first(own: Path, tmp_path: Path, name: str, damage: str) -> None:
    """What does not match stands above everything, with its file and the remedy."""
    path = own / "npc" / name
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-20] if damage == "cut" else b'{"schema": "x.v1"}')
    page = looked_at(own)
    banner = page.text(classed="banner")
    assert f"npc/{name}" in banner
    assert "bring it back" in banner
    assert "Verified" not in page.words
    assert f"npc/{name}" in page.text(within="warnings")
    assert "p4" in page.text(within="location-4")
    assert ("Orla Venn" in page.text(within="npc-1")) == (name != "registry.json")
    assert str(tmp_path) not in page.source


def test_a_folder_without_results_is_an_error(tmp_path: Path) -> None:
    """There is nothing to report on, and nothing is written."""
    with pytest.raises(InputError, match=r"holds no manifest\.json"):
        report(tmp_path)
    with pytest.raises(InputError, match="can't be read as a folder"):
        report(tmp_path / "none")
    assert list(tmp_path.iterdir()) == []


def test_equal_folders_give_equal_pages(own: Path, tmp_path: Path) -> None:
    """Neither the place nor the time is in a page, nor an earlier page of the same folder."""
    first = Path(report(own).file).read_bytes()
    copy = Path(shutil.copytree(own, tmp_path / "a copy"))
    assert Path(report(copy).file).read_bytes() == first
    assert Path(report(own).file).read_bytes() == first
    assert str(tmp_path) not in first.decode()


CANARY = "QUETZALCOATLUS"
REFUSED = json.dumps(
    {
        "duplicate_groups": [
            {"name": CANARY, "candidate_ids": ["c3", "c4"], "canonical_id": "c3", CANARY: 1},
            {"name": "", "candidate_ids": ["c1", f"c-{CANARY}"], "canonical_id": CANARY},
        ],
        "note": CANARY,
    }
)


@pytest.mark.parametrize("terminal", TerminalPolicy)
def test_no_text_of_a_model_is_on_the_page(
    candidate_file: Write, out: Path, scripted: Scripted, terminal: TerminalPolicy
) -> None:
    """Neither a reply nor a line of a correction is found anywhere in the file."""
    source = candidate_file(PEOPLE)
    model = scripted([f"{CANARY} is no JSON", REFUSED, f'{{"{CANARY}": 1}}', REFUSED, REFUSED])
    policy = AttemptPolicy(normalize_retries=2, terminal=terminal)
    reconcile(Settings(registry="npc", candidates=source, out=out, policy=policy), backend=model)
    page = looked_at(out, candidates=source)
    first = len(model.messages(1))
    corrections = [
        line
        for number in range(1, len(model.calls) + 1)
        for role, content in model.messages(number)[first:]
        if role == "user"
        for line in content.splitlines()
        if line
    ]
    assert len(corrections) > 4
    assert CANARY not in page.source
    assert [line for line in corrections if line in page.source or line in page.words] == []


@pytest.mark.parametrize(
    "name",
    [
        *("registry.json", "npc/registry.json", "npc/../item/receipt.json", "manifest.json"),
        *("location/failed-receipt.json", "checkpoints.sqlite", "checkpoints.sqlite-wal"),
    ],
)
def test_no_result_is_overwritten(own: Path, name: str) -> None:
    """A report takes the place of no output file, also of one that is not there."""
    before = {path: path.read_bytes() for path in own.rglob("*") if path.is_file()}
    with pytest.raises(InputError, match="would overwrite"):
        report(own, html=own / name)
    assert {path: path.read_bytes() for path in own.rglob("*") if path.is_file()} == before


def test_no_candidate_is_overwritten(own: Path, campaign: SimpleNamespace, tmp_path: Path) -> None:
    """A report takes the place of no candidate file, by no name of it."""
    folder = Path(shutil.copytree(campaign.folder, tmp_path / "campaign"))
    for html in (folder / "npc.jsonl", folder / "notarius.toml"):
        with pytest.raises(InputError, match="would overwrite"):
            report(own, html=html, candidates=folder)
    (tmp_path / "link.html").hardlink_to(folder / "npc.jsonl")
    with pytest.raises(InputError, match="would overwrite"):
        report(own, html=tmp_path / "link.html", candidates=folder)
    with pytest.raises(InputError, match="is a folder"):
        report(own, html=folder)
    with pytest.raises(InputError, match=r"can't be written to .* choose another --html"):
        report(own, html=folder / "npc.jsonl" / "report.html")


FOREIGN = {
    "a list of another campaign": b'{"source_id": "a", "name": "Orla"}\n',
    "an empty file": b"",
    "another page": b'<!doctype html>\n<html lang="en">\n<head>\n<title>notarius report</title>',
    "a word about a report": b"notarius report",
    "bytes": b"\xff\xfe\x00",
}


@pytest.mark.parametrize("what", FOREIGN)
def test_nothing_but_an_earlier_report_is_overwritten(own: Path, tmp_path: Path, what: str) -> None:
    """Whatever else has the name that was given is left as it is, wherever it lies."""
    path = tmp_path / "elsewhere" / "npc.jsonl"
    path.parent.mkdir()
    path.write_bytes(FOREIGN[what])
    said = f"{path}: is there already, and is no earlier report; move it, or choose another --html"
    with pytest.raises(InputError, match=f"^{re.escape(said)}$"):
        report(own, html=path)
    assert path.read_bytes() == FOREIGN[what]
    assert [one.name for one in path.parent.iterdir()] == ["npc.jsonl"]


def test_results_of_another_run_are_not_overwritten(own: Path, tmp_path: Path) -> None:
    """Each file of an output folder is safe from a report about another one."""
    other = Path(shutil.copytree(own, tmp_path / "other"))
    files = {path: path.read_bytes() for path in other.rglob("*") if path.is_file()}
    assert len(files) > 12
    for path in files:
        with pytest.raises(InputError, match="is no earlier report"):
            report(own, html=path)
    assert {path: path.read_bytes() for path in other.rglob("*") if path.is_file()} == files


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_what_is_no_file_is_not_taken_for_a_report(own: Path, tmp_path: Path) -> None:
    """A pipe is not opened, since that would wait; a link to nowhere is somebody's link."""
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(tmp_path / "nowhere")
    for path in (pipe, link):
        with pytest.raises(InputError, match="is no earlier report"):
            report(own, html=path)
    assert pipe.is_fifo()
    assert link.is_symlink()


def test_an_earlier_report_is_replaced(own: Path, tmp_path: Path) -> None:
    """Also one about other results, in a place of any name."""
    path = tmp_path / "page"
    other = results(tmp_path / "other", [[NpcCandidate(source_id="i", name="Kanari")]])
    report(other, html=path)
    first = path.read_bytes()
    report(own, html=path)
    assert path.read_bytes() != first
    report(other, html=path)
    assert path.read_bytes() == first


def test_the_command_says_what_it_wrote(
    own: Path, campaign: SimpleNamespace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line, or one object; a problem is a warning; bad input is an error with status 2."""
    assert cli.main(["report", str(own)]) == 0
    assert capsys.readouterr().out == f"written: {own / 'report.html'}\n"
    html = tmp_path / "deep" / "page.html"
    arguments = ["report", str(own), "--html", str(html), "--candidates", str(campaign.folder)]
    assert cli.main([*arguments, "--format", "json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["file"], said["bytes"]) == (str(html), html.stat().st_size)
    assert said["registries"][0] == {
        "registry": "npc",
        "outcome": "accepted",
        "candidates": 4,
        "entries": 3,
        "merged": 1,
        "refused_groups": 0,
    }
    (own / "npc" / "warnings.json").unlink()
    assert cli.main(["report", str(own)]) == 0
    assert "in these results" in capsys.readouterr().err
    assert cli.main(["report", str(tmp_path / "none")]) == 2
    assert capsys.readouterr().err.startswith(f"error: {tmp_path / 'none'}: ")


def test_money_is_told_by_its_coin(tmp_path: Path) -> None:
    """An item's kind and coin stand beside its name."""
    rules = ItemRules()
    coin = ItemCandidate(source_id="i", name="gold")
    entries = (rules.entry(coin, [coin]),)
    out = results(tmp_path / "out", [[NpcCandidate(source_id="i", name="gold")]], registry="item")
    files = {path.stem: json.loads(path.read_bytes()) for path in out.glob("*.json")}
    del files["manifest"]
    files["registry"] = Registry(schema="notarius.registry.item.v1", entries=entries)
    seal(out, {f"{name}.json": value for name, value in files.items()})
    page = looked_at(out)
    assert "Verified" in page.words
    assert "gold currency gp" in page.text(within="item-1")
