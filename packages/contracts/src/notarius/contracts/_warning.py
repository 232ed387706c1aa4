"""The one warning that a fallback leaves behind."""

from typing import Literal, TypeVar

from notarius.contracts._errors import ContractError
from notarius.contracts._limits import WARNING_MESSAGE_MAX_BYTES
from notarius.contracts._retry import Fallback, require_samples
from notarius.contracts._text import require_code, require_count, require_prose
from notarius.contracts._value import Value

T = TypeVar("T")


class ProcessWarning(Value, frozen=True, kw_only=True):
    """A bounded notice about the process (not about the quality of an extraction).

    Raises `ContractError` if a bound does not hold.
    """

    code: str
    message: str
    refused_groups: int = 0
    samples: tuple[str, ...] = ()
    kind: Literal["process"] = "process"

    def __post_init__(self) -> None:
        """Check the bounds."""
        if self.kind != "process":
            message = "a process warning must be of the process kind"
            raise ContractError(message)
        require_code(self.code, "the code of a warning")
        require_prose(self.message, "the message of a warning", max_bytes=WARNING_MESSAGE_MAX_BYTES)
        require_count(self.refused_groups, "the number of refused groups")
        require_samples(self.samples)


def fallback_warning(
    *, final_code: str, final_message: str, applied: Fallback[T]
) -> ProcessWarning:
    """Return the warning for a fallback: why the final attempt failed, and what was preserved.

    The final failure and the fallback may come from different attempts: after a refused
    proposal, a last reply may have been cut off.
    """
    return ProcessWarning(
        code=final_code,
        message=f"{final_message} {applied.preserved}",
        refused_groups=applied.refused_groups,
        samples=applied.samples,
    )
