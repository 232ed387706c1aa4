from hypothesis import given
from hypothesis import strategies as st

from notarius.contracts import (
    COUNT_MAX,
    OPERATOR_MESSAGE_MAX_BYTES,
    SAMPLE_MAX_BYTES,
    SAMPLES_MAX,
    Fallback,
    cut,
    fallback_warning,
)

LINES = st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1)


def _stretched(text: str, limit: int) -> str:
    """Return text that fills its limit as far as whole characters can."""
    return cut(text * limit, limit)


@given(
    message=LINES, preserved=LINES, samples=st.lists(LINES, max_size=SAMPLES_MAX),
    refused=st.integers(0, COUNT_MAX), long=st.booleans(),
)  # fmt: skip
def test_the_warning_holds_the_final_failure_and_what_was_preserved(
    message: str, preserved: str, samples: list[str], refused: int, long: bool
) -> None:
    """Whatever the two say, up to their limits, both fit whole into the one warning."""
    if long:
        message = _stretched(message, OPERATOR_MESSAGE_MAX_BYTES)
        preserved = _stretched(preserved, OPERATOR_MESSAGE_MAX_BYTES)
        samples = [_stretched(sample, SAMPLE_MAX_BYTES) for sample in samples]
    applied = Fallback(
        value=None, preserved=preserved, refused_groups=refused, samples=tuple(samples)
    )
    warning = fallback_warning(final_code="final_cause", final_message=message, applied=applied)
    assert warning.code == "final_cause"
    assert warning.kind == "process"
    assert warning.message.startswith(message)
    assert warning.message.endswith(preserved)
    assert (warning.refused_groups, warning.samples) == (refused, tuple(samples))
