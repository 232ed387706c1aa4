"""One exchange that is the same for every library: a prompt, replies, and the checks.

It needs nothing but Python, since each library runs in an environment of its own. The checks are
those that `notarius.semanticreconcile` makes of any registry, as a user of another library would
write them into a validator: ids that were offered, no candidate twice in the reply, a canonical
candidate of the group's own, and two or more candidates.
"""

import itertools
import json
from collections.abc import Iterable, Sequence
from typing import Final

_SYLLABLES: Final = tuple(map("".join, itertools.product("bdgklnrstz", "aeo")))


def name(number: int) -> str:
    """Return a name that no other number has and that holds no telling mark, as `Badego Dababa`."""
    syllables = []
    for _ in range(6):
        number, at = divmod(number, len(_SYLLABLES))
        syllables.append(_SYLLABLES[at])
    return f"{''.join(syllables[:3])} {''.join(syllables[3:])}".title()


OFFERED: Final = tuple(f"c{number}" for number in range(1, 301))
NAMES: Final = tuple(map(name, range(len(OFFERED))))
SYSTEM: Final = "You find duplicates in a list of people that was collected from several sessions."
PROMPT_BYTES: Final = 20_000
USER: Final = "\n".join(
    (
        "Candidates, one a line, each with its id:",
        *(
            f"{i}: {name} - seen at the inn by the river, with a map"
            for i, name in zip(OFFERED, NAMES, strict=True)
        ),
        'Which are the same? Answer with one JSON object: {"duplicate_groups": [...]}.',
    )
).ljust(PROMPT_BYTES - len(SYSTEM), ".")

GROUP_SIZE: Final = 3


def reply(*, groups: int = 51, offered: int = len(OFFERED), faulty: bool) -> str:
    """Return a reply; it has some 4.6 KB by default.

    Of a faulty one every third group breaks a rule: it names an id that was not offered, or one id
    twice, or a canonical candidate from outside, or has a single id.
    """
    proposed = []
    for number in range(groups):
        first = GROUP_SIZE * number + 1
        ids = [f"c{first + at}" for at in range(GROUP_SIZE)]
        canonical = ids[0]
        if faulty and number % 3 == 0:
            match number // 3 % 4:
                case 0:
                    ids[1] = f"c{offered + first}"
                case 1:
                    ids[1] = ids[0]
                case 2:
                    canonical = "c1"
                case _:
                    ids = ids[:1]
        proposed.append({"name": name(first), "candidate_ids": ids, "canonical_id": canonical})
    return json.dumps({"duplicate_groups": proposed})


def script(attempts: int) -> list[str]:
    """Return the replies of one exchange: all are refused but the last."""
    return [reply(faulty=True)] * (attempts - 1) + [reply(faulty=False)]


def complaints(groups: Iterable[tuple[Sequence[str], str]], offered: Iterable[str]) -> str:
    """Return what the checks say about groups of (candidate_ids, canonical_id), or nothing."""
    known = frozenset(offered)
    used: set[str] = set()
    said = []
    for index, (ids, canonical) in enumerate(groups):
        own = set(ids)
        wrong = []
        if not known.issuperset(own) or canonical not in known:
            wrong.append("names an id that is not in the candidate list")
        if len(ids) > len(own) or not used.isdisjoint(own):
            wrong.append("names a candidate that stands elsewhere too")
        if len(own) < 2:  # noqa: PLR2004 - a group is two or more
            wrong.append("has fewer than two different ids")
        if canonical not in own:
            wrong.append("has a canonical_id that is not one of its candidate_ids")
        used |= own
        if wrong:
            said.append(f"duplicate_groups[{index}] {', '.join(wrong)}")
    return "\n".join(said)
