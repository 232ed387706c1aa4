"""llama.cpp in this process; needs `notarius-llmruntime[llama]`."""

from notarius.llmruntime._llama import CONTEXT_TOKENS, AsyncLlamaBackend

__all__ = ["CONTEXT_TOKENS", "AsyncLlamaBackend"]
