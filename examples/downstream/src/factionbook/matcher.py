"""A producer that needs no model: it answers in the same protocol, and is checked like any."""

from collections.abc import Sequence

from notarius.contracts import (
    Cancellation,
    OperationCancelledError,
    Produced,
    ProducerRequest,
    Reply,
    ResponseContract,
    canonical_json,
    judge_reply,
    one_line,
)
from notarius.registries import RegistryNormalizer
from notarius.semanticreconcile import ProposedGroup

from factionbook.rules import FactionCandidate, FactionEntry


class NameMatcher:
    """Proposes the factions that share a name or an alias, where the rules allow it."""

    def __init__(
        self,
        candidates: Sequence[FactionCandidate],
        normalizer: RegistryNormalizer[FactionCandidate, FactionEntry],
    ) -> None:
        """Match these candidates, which the normalizer is about."""
        self._candidates = candidates
        self._normalizer = normalizer

    def produce(
        self, request: ProducerRequest, *, contract: ResponseContract, cancellation: Cancellation
    ) -> Produced:
        """Return the duplicate groups as the text of a reply."""
        del request  # it reads the candidates, not the prompt
        if cancellation.cancelled:
            raise OperationCancelledError("cancelled before the names were matched")
        groups = [
            ProposedGroup(candidate_ids=tuple(ids), canonical_id=max(ids, key=self._name_length))
            for ids in self._groups()
        ]
        text = canonical_json({"duplicate_groups": groups}).decode()
        return Produced(result=judge_reply(Reply(text=text), contract))

    def _groups(self) -> list[list[str]]:
        groups: list[tuple[list[str], set[str]]] = []  # ids, and all their names
        for request_id, candidate in zip(
            self._normalizer.request.ids, self._candidates, strict=True
        ):
            names = {_folded(name) for name in (candidate.name, *candidate.aliases)} - {""}
            for ids, known in groups:
                if not known.isdisjoint(names) and self._normalizer.compatible([*ids, request_id]):
                    ids.append(request_id)
                    known.update(names)
                    break
            else:
                groups.append(([request_id], names))
        return [ids for ids, _ in groups if len(ids) > 1]

    def _name_length(self, request_id: str) -> int:
        place = self._normalizer.request.ids.index(request_id)
        return len(self._candidates[place].name)


def _folded(name: str) -> str:
    return one_line(name).casefold().removeprefix("the ")
