from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import msgspec
import pytest

from notarius.contracts import canonical_json, policy_fingerprint
from notarius.semanticreconcile import (
    CATEGORY_PROSE,
    RESPONSE_SCHEMA,
    IssueCategory,
    Prose,
    Split,
    Subject,
    _policy,
    _protocol,
    _render,
    policy_content,
)

SUBJECT = Subject(one="person", many="people", example=("Old Tom", "Mira", "Thomas Reed"))


def fingerprint(subject: Subject = SUBJECT) -> str:
    """Return the identity of the reconciliation policy."""
    return policy_fingerprint("tests", policy_content(subject))


BEFORE = fingerprint()
# Of protocol version 1. What was measured and remembered with it is asked for again if it changes.
FROZEN = "sha256:debba049c2b99864c522988864fc40f042cb03e0537c6b607f8e52a6048a4672"


def test_the_identity_is_stable() -> None:
    """The same policy is the same bytes each time, and plain data."""
    assert canonical_json(policy_content(SUBJECT)) == canonical_json(policy_content(SUBJECT))
    assert BEFORE == FROZEN


def test_each_part_of_it_can_be_found() -> None:
    """Whoever compares two policies sees by name what differs; each probe shows its effect."""
    content = policy_content(SUBJECT)
    assert set(content) == {
        "protocol", "correction", "guidance_max_bytes", "reply_max_bytes", "subject", "schema",
        "categories", "prose", "probe_prompt", "probe_split", "probe_guidance",
        "probe_guidance_cut", "probe_guidance_empty", "probe_replies",
    }  # fmt: skip
    split = content["probe_split"]
    assert isinstance(split, Split)
    assert {item.category for item in split.issue_counts} == set(IssueCategory)
    assert split.safe


@pytest.mark.parametrize("field", Prose.__struct_fields__)
@pytest.mark.parametrize("category", IssueCategory)
def test_every_word_of_prose_is_part_of_it(
    category: IssueCategory, field: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any changed text of any category is another policy."""
    changed = msgspec.structs.replace(CATEGORY_PROSE[category], **{field: "Other words."})
    prose: Mapping[IssueCategory, Prose] = MappingProxyType({**CATEGORY_PROSE, category: changed})
    monkeypatch.setattr(_policy, "CATEGORY_PROSE", prose)
    assert fingerprint() != BEFORE


@pytest.mark.parametrize(
    ("module", "name", "other"),
    [
        (_policy, "PROTOCOL", "notarius.duplicate_groups.v2"),
        (_policy, "CORRECTION_MODE", "blind_v0"),
        (_policy, "GUIDANCE_MAX_BYTES", 4_095),
        (_policy, "RESPONSE_SCHEMA", {**RESPONSE_SCHEMA, "required": []}),
        (_policy, "ALL_CATEGORIES", tuple(IssueCategory)[::-1]),
        (_policy, "REPLY_MAX_BYTES", 1),
        (_protocol, "SYSTEM_TEMPLATE", _protocol.SYSTEM_TEMPLATE + "!"),
        (_protocol, "USER_TEMPLATE", _protocol.USER_TEMPLATE + "!"),
        (_protocol, "NAME_MAX_BYTES", _protocol.NAME_MAX_BYTES + 1),
        (_protocol, "ALIAS_MAX_BYTES", _protocol.ALIAS_MAX_BYTES + 1),
        (_protocol, "ALIASES_MAX", _protocol.ALIASES_MAX + 1),
        (_protocol, "DESCRIPTION_MAX_BYTES", _protocol.DESCRIPTION_MAX_BYTES + 1),
        (_render, "OPENING", _render.OPENING + "!"),
        (_render, "MORE", _render.MORE + "!"),
        (_render, "CLOSING", _render.CLOSING + "!"),
        (_render, "CLOSING_LONG", _render.CLOSING_LONG + "!"),
        (_render, "CLOSING_EMPTY", _render.CLOSING_EMPTY + "!"),
        (_render, "IF_SAME", _render.IF_SAME + "!"),
        (_render, "NUMBERS_MAX", _render.NUMBERS_MAX + 1),
        (_render, "IDS_MAX", _render.IDS_MAX + 1),
        (_render, "PARTS_MAX", _render.PARTS_MAX + 1),
    ],
)
def test_every_text_and_limit_is_part_of_it(
    module: object, name: str, other: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A changed protocol, schema, template or limit is another policy without anyone's help."""
    monkeypatch.setattr(module, name, other)
    assert fingerprint() != BEFORE


@pytest.mark.parametrize(
    ("module", "name"),
    [
        (_policy, "render_guidance"),
        (_render, "_sentences"),
        (_render, "_clashes"),
        (_render, "_right"),
        (_protocol, "_line"),
        (_protocol, "_answer"),
    ],
)
def test_what_only_code_words_is_part_of_it(
    module: object, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Code that writes other words for the model is another policy."""
    before: Callable[..., str | list[str]] = getattr(module, name)

    def changed(*args: object, **kwargs: object) -> str | list[str]:
        found = before(*args, **kwargs)
        return f"{found}!" if isinstance(found, str) else [f"{line}!" for line in found]

    monkeypatch.setattr(module, name, changed)
    assert fingerprint() != BEFORE


@pytest.mark.parametrize(
    "change",
    [{"one": "being"}, {"many": "beings"}, {"example": ("A", "B", "C")}],
)
def test_the_subject_is_part_of_it(change: dict[str, Any]) -> None:
    """Registries that ask in other words have other policies."""
    assert fingerprint(msgspec.structs.replace(SUBJECT, **change)) != BEFORE
