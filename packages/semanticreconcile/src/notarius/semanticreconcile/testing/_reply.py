"""The other way round: from a proposal to the text that a model would have written."""

import json
from collections.abc import Iterable

from notarius.semanticreconcile._decode import ProposedGroup


def reply_text(groups: Iterable[ProposedGroup], *, name: str = "it") -> str:
    """Write groups as a reply of protocol version 1, each under the free-text `name`."""
    written = [
        {"name": name, "candidate_ids": group.candidate_ids, "canonical_id": group.canonical_id}
        for group in groups
    ]
    return json.dumps({"duplicate_groups": written}, ensure_ascii=False)
