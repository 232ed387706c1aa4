"""Every size limit that a contract enforces. Bytes are bytes of UTF-8; all bounds are inclusive."""

from typing import Final

GUIDANCE_MAX_BYTES: Final = 4_096
"""Model-facing correction guidance."""

OPERATOR_MESSAGE_MAX_BYTES: Final = 1_024
"""One operator message, and the preservation sentence of a fallback."""

WARNING_MESSAGE_MAX_BYTES: Final = 2 * OPERATOR_MESSAGE_MAX_BYTES + 1
"""A process warning: an operator message, a space, and a preservation sentence."""

SAMPLE_MAX_BYTES: Final = 240
"""One sample of a warning."""

SAMPLES_MAX: Final = 5
"""Samples a warning."""

CODE_MAX_BYTES: Final = 64
"""A reason code, warning code or issue category."""

ISSUES_MAX: Final = 64
"""Issue details that one retry carries; `issue_counts` stays complete."""

ISSUE_IDS_MAX: Final = 16
"""Request ids that one issue detail names."""

RESPONSE_MAX_BYTES: Final = 64 * 1024 * 1024
"""The exact text of one model reply."""

PROMPT_MAX_BYTES: Final = 256 * 1024 * 1024
"""All messages of one prompt together."""
