"""Protocol version 1: what the model sees, and the schema of what it writes."""

import re
from collections.abc import Sequence
from typing import ClassVar, Final

import msgspec

from notarius.contracts import (
    Prompt,
    StructuralDefect,
    Value,
    cut,
    one_line,
)
from notarius.semanticreconcile._decode import reply_defect

PROTOCOL: Final = "notarius.duplicate_groups.v1"
"""The name of what a model is asked and how it answers."""

NAME_MAX_BYTES: Final = 200
ALIAS_MAX_BYTES: Final = 100
ALIASES_MAX: Final = 6
DESCRIPTION_MAX_BYTES: Final = 160
REPLY_MAX_BYTES: Final = 8 * 1024 * 1024
"""The longest reply that is looked at unless a contract says otherwise."""


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """What a list is about: the words for one and for many, and three names for the example.

    The first and the last example name are the same thing under two names.
    """

    one: str
    many: str
    example: tuple[str, str, str]


class Listed(Value, frozen=True, kw_only=True):
    """One candidate as the model is shown it."""

    name: str
    aliases: Sequence[str] = ()
    description: str = ""

    PRIVATE: ClassVar[frozenset[str]] = frozenset({"name", "aliases", "description"})


RESPONSE_SCHEMA: Final = {
    "type": "object",
    "properties": {
        "duplicate_groups": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "candidate_ids": {"type": "array", "items": {"type": "string"}},
                    "canonical_id": {"type": "string"},
                },
                "required": ["name", "candidate_ids", "canonical_id"],
            },
        }
    },
    "required": ["duplicate_groups"],
}
"""Only keywords that every provider takes; the order of properties is the order to write them."""

SYSTEM_TEMPLATE: Final = (
    "You find duplicates in a list of {many} that was collected from several tabletop-game "
    "sessions. The same {one} can be listed more than once under different names, titles or "
    "spellings."
)
USER_TEMPLATE: Final = (
    "Candidates, one a line, each with its id:\n"
    "{lines}\n"
    "\n"
    "Which of these candidates are the same {one}? Answer with one JSON object and nothing else.\n"
    "- Each group starts with the name of the {one}, then lists the ids of all candidates that "
    "are this same {one}, then the id of the candidate with the best name.\n"
    "- Use only ids from the list. A group has two or more ids, and an id stands in one group at "
    "most.\n"
    "- Group only what is certainly the same {one}. Leave out everything that has no duplicate.\n"
    '- If there are no duplicates, answer {{"duplicate_groups": []}}\n'
    "\n"
    "Example: for the candidates\n"
    "{example_lines}\n"
    "the answer is\n"
    "{example_answer}"
)


_BEFORE_NAME: Final = re.compile(r"^(?:[\W\d_]+|(?:the|an?)\s+)+")


class ReconciliationRequest(Value, frozen=True, kw_only=True):
    """The prompt for one list, and the ids that it offers: `c1` to `cN`, in list order."""

    prompt: Prompt
    ids: tuple[str, ...]


def request_ids(count: int) -> tuple[str, ...]:
    """Return the ids of a request with `count` candidates."""
    return tuple(f"c{number}" for number in range(1, count + 1))


def build_request(subject: Subject, candidates: Sequence[Listed]) -> ReconciliationRequest:
    """Return the request for a list of candidates. Nothing is left out.

    Ids are given in the order of the list; the lines stand in alphabetical order, so that like
    names stand together: a small model mistakes neighbours for one another.
    """
    ids = request_ids(len(candidates))
    order = sorted(range(len(ids)), key=lambda at: _place(candidates[at].name))
    lines = "\n".join(_line(ids[at], candidates[at]) for at in order)
    first, other, last = subject.example
    example = [Listed(name=first), Listed(name=other), Listed(name=last)]
    words = {"one": subject.one, "many": subject.many}
    user = USER_TEMPLATE.format(
        lines=lines,
        example_lines="\n".join(map(_line, request_ids(len(example)), example)),
        example_answer=_answer(last, "c1", "c3", canonical="c3"),
        **words,
    )
    return ReconciliationRequest(
        prompt=Prompt.of(user, system=SYSTEM_TEMPLATE.format(**words)), ids=ids
    )


def _place(name: str) -> str:
    """Return what a name is sorted by: without case, articles, amounts and signs before it."""
    folded = cut(one_line(name), NAME_MAX_BYTES).casefold()
    return _BEFORE_NAME.sub("", folded) or folded


def _line(request_id: str, candidate: Listed) -> str:
    """Return `c3: Percy (also: Lord Percival) - a gunslinger`, on one line whatever it holds."""
    line = f"{request_id}: {cut(one_line(candidate.name), NAME_MAX_BYTES)}"
    aliases = [cut(one_line(alias), ALIAS_MAX_BYTES) for alias in candidate.aliases[:ALIASES_MAX]]
    shown = ", ".join(alias for alias in aliases if alias)
    if shown:
        line += f" (also: {shown})"
    description = cut(one_line(candidate.description), DESCRIPTION_MAX_BYTES)
    return f"{line} - {description}" if description else line


def _answer(name: str, *ids: str, canonical: str) -> str:
    group = {"name": name, "candidate_ids": list(ids), "canonical_id": canonical}
    answer = msgspec.json.encode({"duplicate_groups": [group]}).decode()
    # As models write it: a space after each separator.
    return re.sub(r'(?<=["\]])([:,])(?=["\[])', r"\1 ", answer)


class ReconciliationContract:
    """The response contract of protocol version 1."""

    def __init__(self, *, max_bytes: int = REPLY_MAX_BYTES) -> None:
        """Look at replies of at most `max_bytes` bytes."""
        self._max_bytes = max_bytes

    @property
    def name(self) -> str:
        """The name of the schema."""
        return "duplicate_groups"

    @property
    def schema_json(self) -> str:
        """The JSON Schema, properties in the order in which they are to be written."""
        return msgspec.json.encode(RESPONSE_SCHEMA).decode()

    @property
    def max_bytes(self) -> int:
        """The longest reply that is looked at, in bytes."""
        return self._max_bytes

    def defect(self, text: str) -> StructuralDefect | None:
        """Say what is structurally wrong with a reply, or `None`."""
        return reply_defect(text)
