"""Every size limit that a contract enforces. Bytes are bytes of UTF-8; all bounds are inclusive."""

from typing import Final

GUIDANCE_MAX_BYTES: Final = 4_096
"""The longest guidance for a model, in bytes."""

OPERATOR_MESSAGE_MAX_BYTES: Final = 1_024
"""The longest operator message, and preservation sentence of a fallback, in bytes."""

WARNING_MESSAGE_MAX_BYTES: Final = 2 * OPERATOR_MESSAGE_MAX_BYTES + 1
"""The longest warning, in bytes: an operator message, a space, and a preservation sentence."""

SAMPLE_MAX_BYTES: Final = 240
"""The longest sample of a warning, in bytes."""

SAMPLES_MAX: Final = 5
"""The most samples of a warning."""

CODE_MAX_BYTES: Final = 64
"""The longest reason code, warning code or issue category, in bytes."""

ISSUES_MAX: Final = 64
"""The most issue details that one retry carries; `issue_counts` stays complete."""

ISSUE_IDS_MAX: Final = 16
"""The most request ids that one issue detail names."""

COUNT_MAX: Final = 2**53 - 1
"""The highest number of anything that is counted: any reader of JSON has it exact (RFC 8259, 6)."""

RESPONSE_MAX_BYTES: Final = 64 * 1024 * 1024
"""The longest reply of a model, in bytes."""

PROMPT_MAX_BYTES: Final = 256 * 1024 * 1024
"""The longest prompt, in bytes of all its messages together."""
