"""Forms of the first prompt that were tried, to measure ours against. None is used elsewhere."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

import msgspec
from benchmarks.lists import CandidateList

from notarius.contracts import Prompt
from notarius.registries import ItemRules, LocationRules, NpcRules
from notarius.semanticreconcile import Subject

Form: TypeAlias = Callable[[Prompt, Subject], Prompt]
"""Turns our prompt about a list into another about the same list."""

_EXAMPLE: Final = "\n\nExample: for the candidates\n"
_ANSWER: Final = "\nthe answer is\n"
_LARGER: Final = {
    "person": (
        (
            *("c3: Captain Hale", "c6: Lady Hale", "c2: Mira", "c5: Mira the baker"),
            *("c1: Old Tom", "c4: Thomas Reed (also: Old Tom)"),
        ),
        (("Mira the baker", "c2", "c5"), ("Thomas Reed", "c1", "c4")),
    ),
    "item": (
        (
            *("c4: Draught of Healing", "c7: gold ring", "c1: healing draught", "c5: iron key"),
            *("c2: rope", "c6: 2 silver pieces", "c3: sp"),
        ),
        (("silver pieces", "c3", "c6"), ("Draught of Healing", "c1", "c4")),
    ),
    "place": (
        (
            *("c4: Mill of Reedford (also: the old mill)", "c3: North Gate", "c1: the old mill"),
            *("c2: Reedford", "c6: South Gate", "c5: town of Reedford"),
        ),
        (("Mill of Reedford", "c1", "c4"), ("Reedford", "c2", "c5")),
    ),
}


def ours(prompt: Prompt, _: Subject) -> Prompt:
    """Our own."""
    return prompt


def list_order(prompt: Prompt, _: Subject) -> Prompt:
    """Write the lines in the order of the list and not of the names."""
    before, lines, after = _parts(prompt)
    by_number = sorted(lines, key=lambda line: int(line.partition(":")[0].removeprefix("c")))
    return _with(prompt, "\n".join((before, *by_number, after)))


def no_example(prompt: Prompt, _: Subject) -> Prompt:
    """Leave the worked example out."""
    return _with(prompt, _user(prompt).partition(_EXAMPLE)[0])


def larger_example(prompt: Prompt, subject: Subject) -> Prompt:
    """Give an example of six or seven candidates and two groups."""
    lines, groups = _LARGER[subject.one]
    answer = {
        "duplicate_groups": [
            {"name": name, "candidate_ids": ids, "canonical_id": ids[-1]} for name, *ids in groups
        ]
    }
    text = _user(prompt).partition(_EXAMPLE)[0] + _EXAMPLE + "\n".join(lines)
    return _with(prompt, text + _ANSWER + msgspec.json.encode(answer).decode())


def no_descriptions(prompt: Prompt, _: Subject) -> Prompt:
    """Show names and aliases alone."""
    before, lines, after = _parts(prompt)
    return _with(prompt, "\n".join((before, *(line.partition(" - ")[0] for line in lines), after)))


def mostly_alone(prompt: Prompt, subject: Subject) -> Prompt:
    """Say that most candidates have no duplicate."""
    said = f"\nMost candidates have no duplicate; two {subject.many} that belong together are two."
    before, example, after = _user(prompt).partition(_EXAMPLE)
    return _with(prompt, before + said + example + after)


def listed_once(prompt: Prompt, subject: Subject) -> Prompt:
    """Ask which are listed more than once, and say that the others get no group."""
    one, many = subject.one, subject.many
    before, lines, after = _parts(prompt)
    rules = (
        f"\nWhich of these {many} are listed more than once, under different names or spellings? "
        "Answer with one JSON object and nothing else.\n"
        f"- Write a group only for a {one} that is listed more than once: first its name, then the "
        "ids of all its lines (two or more), then the id with the best name.\n"
        f"- Write no group for a {one} that is listed once.\n"
        "- Use only ids from the list, each in one group at most. Group only what is certainly the "
        f"same {one}.\n"
        '- If nothing is listed more than once, answer {"duplicate_groups": []}'
    )
    example = "".join(after.partition(_EXAMPLE)[1:])
    return _with(prompt, "\n".join((before, *lines, rules)) + example)


def names_joined(prompt: Prompt, subject: Subject) -> Prompt:
    """Have all names of a group written out before its ids."""
    first, _, last = subject.example
    text = _user(prompt).replace(
        f"Each group starts with the name of the {subject.one}, then lists",
        f"Each group starts with all names that mean this {subject.one}, joined by =, then lists",
    )
    return _with(prompt, text.replace(f'{{"name": "{last}"', f'{{"name": "{first} = {last}"'))


def short(prompt: Prompt, subject: Subject) -> Prompt:
    """Say as little as possible, without an example."""
    _, lines, _ = _parts(prompt)
    one, many = subject.one, subject.many
    form = '{"duplicate_groups": [{"name": ..., "candidate_ids": [...], "canonical_id": ...}]}'
    return Prompt.of(
        "\n".join(lines) + f"\n\nWhich of these ids are the same {one} under different names? "
        f"Write a group only when two or more ids are one {one}; most ids are in no group.",
        system=f"You find duplicate {many} in a list. Answer with JSON: {form}",
    )


def _user(prompt: Prompt) -> str:
    return prompt.messages[-1].content


def _parts(prompt: Prompt) -> tuple[str, list[str], str]:
    """Return the line before the list, the list, and what follows it."""
    before, *rest = _user(prompt).split("\n")
    end = rest.index("")
    return before, rest[:end], "\n".join(rest[end:])


def _with(prompt: Prompt, user: str) -> Prompt:
    return Prompt.of(user, system=prompt.messages[0].content)


PROMPTS: Final[Mapping[str, Form]] = MappingProxyType(
    {
        form.__name__: form
        for form in (
            ours,
            list_order,
            no_example,
            larger_example,
            no_descriptions,
            mostly_alone,
            listed_once,
            names_joined,
            short,
        )
    }
)


def prompt_for(name: str, listed: CandidateList, prompt: Prompt) -> Prompt:
    """Return the prompt of this form in the place of ours."""
    match listed.subject:
        case "people":
            subject = NpcRules.subject
        case "places":
            subject = LocationRules.subject
        case "coins" | "items":
            subject = ItemRules.subject
    return PROMPTS[name](prompt, subject)
