"""OpenAI-compatible servers; needs `notarius-llmruntime[openai]`."""

from notarius.llmruntime._openai import AsyncOpenAIBackend, OutputMode, parse_envelope

__all__ = ["AsyncOpenAIBackend", "OutputMode", "parse_envelope"]
