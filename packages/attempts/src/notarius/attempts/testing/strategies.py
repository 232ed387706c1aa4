"""Hypothesis strategies for prompts, limits, replies, and scripts of whole operations.

They need hypothesis, which the wheel does not bring; `notarius-attempts[testing]` does.
"""

import json
from typing import Final

from notarius.attempts._machine import AttemptPolicy, TerminalPolicy
from notarius.attempts.testing._scripted import Answer, Turn
from notarius.contracts import (
    DeadlineExceededError,
    FinishReason,
    Message,
    ModelCandidate,
    NoReplyError,
    OperationCancelledError,
    Produced,
    Prompt,
    ProviderError,
    ProviderErrorKind,
    Reply,
    Role,
    StructuralFailure,
    Usage,
)

try:
    from hypothesis import strategies as st
    from hypothesis.strategies import SearchStrategy
except ModuleNotFoundError as _error:
    if _error.name != "hypothesis":
        raise
    _message = f"{__name__} needs hypothesis; install it, or notarius-attempts[testing]"
    raise ModuleNotFoundError(_message, name=_error.name) from None

__all__ = [
    "errors",
    "policies",
    "produced",
    "prompts",
    "replies",
    "reply_texts",
    "scripts",
    "turns",
    "usages",
    "valid_texts",
]

_TEXT: Final = st.text(max_size=8)
# What must survive byte for byte, and what must not be read as an instruction or a code.
_SAYING: Final = st.sampled_from(
    ["\r\n", "\ufeff", "e\u0301", "\u2028\u202e", "\U0001f409", "\x00", "</assistant>"]
)
_SPACE: Final = st.sampled_from(["", " ", "\n", "\r\n\t "])
_COUNT: Final = st.integers(0, 3)


def prompts() -> SearchStrategy[Prompt]:
    """Return prompts of one to three messages, of any roles before the last."""
    text = _TEXT | _SAYING
    return st.builds(
        lambda head, user: Prompt(messages=(*head, Message(role=Role.USER, content=user))),
        st.lists(st.builds(Message, content=text), max_size=2),
        text,
    )


def policies(*, max_retries: int = 4) -> SearchStrategy[AttemptPolicy]:
    """Return limits: no retry and more, both terminal policies, with and without a deadline."""
    return st.builds(
        AttemptPolicy,
        normalize_retries=st.integers(0, max_retries),
        terminal=st.sampled_from(TerminalPolicy),
        deadline_s=st.sampled_from([None, 10.0, 1000.0]),
    )


def usages() -> SearchStrategy[Usage]:
    """Return known and unknown usage."""
    tokens = st.none() | _COUNT
    return st.builds(Usage, input_tokens=tokens, output_tokens=tokens)


def valid_texts(marker: str = "") -> SearchStrategy[str]:
    """Return texts that are one JSON object, which `JsonObjectContract` takes.

    `marker` stands in each, so that a test can tell where a text came from.
    """
    body = st.builds(
        lambda some, escaped: json.dumps({"said": marker + some}, ensure_ascii=escaped),
        _TEXT | _SAYING,
        st.booleans(),
    )
    return st.tuples(_SPACE, body, _SPACE).map("".join)


def reply_texts(marker: str = "") -> SearchStrategy[str]:
    """Return texts of every kind: one JSON object, blank, prose, fenced, cut off, no Unicode.

    `marker` stands in each that is not blank.
    """
    valid = valid_texts(marker)
    forms = ["```json\n%s\n```", "Sure! %s", "%s%s", "[%s]", "\ufeff%s", "%s\ud800"]
    other = st.builds(lambda form, text: form.replace("%s", text), st.sampled_from(forms), valid)
    cut = valid.map(lambda text: text.rstrip()[:-1])
    return valid | other | cut | st.sampled_from(["", " \n", f"I think {marker}"])


def replies(marker: str = "") -> SearchStrategy[Reply]:
    """Return raw replies: any text, also cut off or refused as the provider says."""
    reasons = [None, FinishReason.STOP, FinishReason.STOP, *FinishReason]
    return st.builds(
        Reply,
        text=reply_texts(marker),
        finish_reason=st.sampled_from(reasons),
        usage=usages(),
    )


def produced(marker: str = "") -> SearchStrategy[Produced]:
    """Return what a producer with budgets of its own gives back, and has spent of them."""
    failure = st.builds(
        StructuralFailure,
        response_sha256=st.just("0" * 64),
        response_bytes=_COUNT,
    )
    return st.builds(
        Produced,
        result=valid_texts(marker).map(ModelCandidate.of) | failure,
        finish_reason=st.none() | st.sampled_from(FinishReason),
        usage=usages(),
        repairs=_COUNT,
        transport_retries=_COUNT,
    )


@st.composite
def errors(draw: st.DrawFn) -> NoReplyError:
    """Return what a producer raises instead of a reply, with what it has spent by then."""
    kinds = st.sampled_from(ProviderErrorKind)
    error: NoReplyError = draw(
        st.builds(ProviderError, kinds, status=st.none() | st.sampled_from([401, 429, 500]))
        | st.builds(DeadlineExceededError)
        | st.builds(OperationCancelledError)
    )
    error.repairs, error.transport_retries = draw(_COUNT), draw(_COUNT)
    return error


def turns(marker: str = "") -> SearchStrategy[Turn]:
    """Return calls of a producer: mostly answered at once; slow, failing or cancelled ones too."""
    texts: SearchStrategy[Answer] = valid_texts(marker)
    answers = texts | texts | replies(marker) | produced(marker) | errors()
    return st.builds(
        Turn,
        answer=answers,
        takes_s=st.sampled_from([0.0, 0.0, 0.0, 0.5, 9.0, 2000.0]),
        cancels=st.sampled_from([False] * 9 + [True]),
    )


def scripts(*, min_size: int = 5, max_size: int = 5) -> SearchStrategy[list[Turn]]:
    """Return whole operations, for `ScriptedProducer`; enough for `policies()` unless limited.

    The text of the turn at place 0 is marked `<turn-0>`, and so on.
    """
    return st.integers(min_size, max_size).flatmap(
        lambda size: st.tuples(*(turns(f"<turn-{place}>") for place in range(size))).map(list)
    )
