"""Makes one HTML file that needs nothing else: no network, no other file, no foreign script.

What is shown is hostile. Every value that the template puts out is cleaned and escaped by the
environment, whatever the template says; only the page's own style and script are taken as they
are, and a policy in the page lets the browser run those two alone.
"""

import base64
import functools
import hashlib
import re
from importlib.resources import files
from typing import Final

import msgspec
from jinja2 import Environment, StrictUndefined, Template

from notarius.registries import Candidate, Entry

MARK: Final = (
    b'<!doctype html>\n<html lang="en">\n<head>\n'
    b'<meta name="generator" content="notarius report">\n'
)
"""What a page begins with, and no other file: a later page may take the place of such a one."""

# Controls but line feed, what turns the direction of a text, what has no width or is a blank that
# is called a letter, tags, halves of surrogate pairs, and what is no character: none of it can be
# seen, and some of it makes something else be seen. Joiners, which Persian, Hindi and emoji are
# written with, and variation selectors stay.
_UNSEEN: Final = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f"
    "\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff\ufdd0-\ufdef\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e00ff]"
)
_LINE_ENDS: Final = re.compile("\r\n?")
_SECOND_MS: Final = 1_000
_MINUTE_S: Final = 60
_HOUR_S: Final = 3_600


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """A warning that a run left behind."""

    message: str
    samples: tuple[str, ...] = ()


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How something ended, in a word or two and in a sentence; `tone` is good, warn, bad or off."""

    label: str
    words: str
    tone: str


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A link within the page, and the name of what is there."""

    anchor: str
    name: str


class About(msgspec.Struct, frozen=True, kw_only=True):
    """A candidate of a refused group, its name where that is known, and where it ended up."""

    source_id: str
    name: str | None
    entry: Place | None


class RefusedGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A refused group: what is wrong with it, and the candidates that it is about."""

    anchor: str
    number: int
    why: tuple[str, ...]
    about: tuple[About, ...]
    ended: str


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt; `start` and `length` place its bar, in thousandths of the longest part."""

    number: int
    cause: str
    result: str
    detail: str
    tone: str
    duration_ms: int
    start: int
    length: int
    tokens: str
    repairs: int
    transport_retries: int
    refused: tuple[RefusedGroup, ...]
    unlisted: int
    digests: tuple[tuple[str, str], ...]


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One part of a list, with its attempts."""

    number: int
    candidates: int
    outcome: Outcome
    applied_attempt: int | None
    remembered: bool
    attempts: tuple[Attempt, ...]


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """What a receipt tells. `tokens_now` leaves out the parts that were known from before."""

    outcome: Outcome
    failure: str | None
    model: str
    candidates: int
    attempts: int
    refused_groups: int
    more_refused: bool
    tokens: str
    tokens_now: str | None
    duration_ms: int
    budgets: tuple[tuple[str, str], ...]
    parts: tuple[Part, ...]
    digests: tuple[tuple[str, str], ...]


class ShownEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An entry, its own candidates where they are known, and the refused groups that name them."""

    anchor: str
    entry: Entry
    tags: tuple[str, ...]
    extra: tuple[str, ...]
    candidates: tuple[Candidate, ...]
    refused: tuple[Place, ...]

    @property
    def merged(self) -> bool:
        """Whether it was made of several candidates."""
        return len(self.entry.source_ids) > 1


class ShownRegistry(msgspec.Struct, frozen=True, kw_only=True):
    """One registry. `entries` is `None` where there are none to show; `unread` says why."""

    title: str
    run: Run | None
    later: Run | None
    entries: tuple[ShownEntry, ...] | None
    warnings: tuple[Notice, ...]
    unread: tuple[str, ...]

    @property
    def merged(self) -> int:
        """The number of entries that were made of several candidates."""
        return sum(entry.merged for entry in self.entries or ())


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """All that the page shows."""

    title: str
    models: tuple[str, ...]
    outcome: Outcome
    files: int
    problems: tuple[tuple[str, str, str], ...]
    registries: tuple[ShownRegistry, ...]
    with_candidates: bool


def page(report: Report) -> bytes:
    """Return the page; equal reports give equal bytes."""
    style, script = _own("report.css"), _own("report.js")
    policy = "; ".join(
        (
            "default-src 'none'",
            f"style-src {_hash_source(style)}",
            f"script-src {_hash_source(script)}",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
    text = _template().render(report=report, style=style, script=script, policy=policy)
    return text.encode()


def seen(value: object) -> object:
    """Return a value as it may be put out: of a text, what can't be seen is made visible."""
    if isinstance(value, str) and not hasattr(value, "__html__"):  # that is made of seen parts
        return _UNSEEN.sub("\N{REPLACEMENT CHARACTER}", _LINE_ENDS.sub("\n", value))
    return value


def duration(milliseconds: int) -> str:
    """Write a duration as a person would."""
    if milliseconds < _SECOND_MS:
        return f"{milliseconds} ms"
    seconds = milliseconds / _SECOND_MS
    if seconds < _MINUTE_S:
        return f"{seconds:.1f} s"
    if seconds < _HOUR_S:
        return f"{int(seconds // _MINUTE_S)} min {int(seconds % _MINUTE_S)} s"
    return f"{int(seconds // _HOUR_S)} h {int(seconds % _HOUR_S // _MINUTE_S)} min"


def number(value: int) -> str:
    """Write a number with its thousands apart."""
    return f"{value:,}"


@functools.cache
def _template() -> Template:
    environment = Environment(
        autoescape=True,
        finalize=seen,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"duration": duration, "number": number}
    return environment.from_string(_own("report.html.jinja"))


@functools.cache
def _own(name: str) -> str:
    return files("notarius.pipeline").joinpath(name).read_text("utf-8")


def _hash_source(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
