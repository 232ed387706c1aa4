"""What the command can fail with, and the exit status of each."""

import enum
from typing import Final

from notarius.contracts import NotariusError


class ExitStatus(enum.IntEnum):
    """Exit statuses of the command."""

    DONE = 0
    FAULT = 1
    BAD_INPUT = 2
    EXHAUSTED = 3
    PROVIDER = 4
    INTERRUPTED = 130


PROBLEMS_SHOWN_MAX: Final = 10
"""Problems of one file that are listed; the others are counted."""


class InputError(NotariusError):
    """Input, options or an output place that can't be used; `problems` are lines for a person.

    Each says where it is, what is wrong and how to mend it. Nothing was written.
    """

    def __init__(self, *problems: str) -> None:
        """Keep the problems."""
        self.problems = problems
        shown = list(problems[:PROBLEMS_SHOWN_MAX])
        if len(problems) > PROBLEMS_SHOWN_MAX:
            shown.append(f"and {len(problems) - PROBLEMS_SHOWN_MAX} more problems")
        super().__init__("\n".join(shown))
