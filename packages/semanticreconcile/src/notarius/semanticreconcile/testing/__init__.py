"""Test helpers for users. The strategies in `testing.strategies` need hypothesis; this does not."""

from notarius.semanticreconcile.testing._reply import reply_text

__all__ = ["reply_text"]
