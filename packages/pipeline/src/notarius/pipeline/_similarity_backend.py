"""The built-in name matcher as a chat backend: it answers in the protocol, like any model."""

import math
import time
from collections.abc import Sequence
from typing import Any

import msgspec

from notarius.contracts import (
    Cancellation,
    DeadlineExceededError,
    FinishReason,
    OperationCancelledError,
    Reply,
)
from notarius.llmruntime import ChatCall
from notarius.pipeline._similarity import canonical, propose
from notarius.registries import Candidate, RegistryKind, RegistryNormalizer


class SimilarityBackend:
    """Answers which candidates have matching names. It reads candidates, not the prompt.

    The same answer each time: there is nothing in a correction that it could learn from, and
    it proposes no group that the registry's rules refuse.
    """

    def __init__(
        self,
        kind: RegistryKind,
        candidates: Sequence[Candidate],
        normalizer: RegistryNormalizer[Any, Any],
    ) -> None:
        """Match these candidates by the rules of their registry."""
        self._kind = kind
        self._candidates = candidates
        self._normalizer = normalizer

    def complete(self, call: ChatCall, *, cancellation: Cancellation) -> Reply:
        """Return the duplicate groups as the text of a reply."""
        ids = self._normalizer.request.ids
        end = math.inf if call.timeout_s is None else time.monotonic() + call.timeout_s

        def compatible(indexes: Sequence[int]) -> bool:
            if cancellation.cancelled:
                message = "the operation was cancelled"
                raise OperationCancelledError(message)
            if time.monotonic() > end:
                message = "the time for matching names is over"
                raise DeadlineExceededError(message)
            return self._normalizer.compatible([ids[index] for index in indexes])

        groups = []
        for members in propose(self._kind, self._candidates, compatible=compatible):
            best = canonical(self._kind, self._candidates, members)
            groups.append(
                {
                    "name": self._candidates[best].name,
                    "candidate_ids": [ids[index] for index in members],
                    "canonical_id": ids[best],
                }
            )
        text = msgspec.json.encode({"duplicate_groups": groups}).decode()
        return Reply(text=text, finish_reason=FinishReason.STOP)
