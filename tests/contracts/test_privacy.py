import copy
import enum
import inspect
import pickle
from collections.abc import Callable, Iterator

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from notarius import contracts as c
from notarius.contracts import Value

Make = Callable[[type[Value], str], Value]
STRUCTS = [v for v in vars(c).values() if inspect.isclass(v) and issubclass(v, Value)]
# These places hold what a model wrote, what is sent to one, or a registry's content.
WITH_PRIVATE_TEXT = {
    c.Accepted, c.Fallback, c.FellBack, c.Message, c.ModelCandidate, c.NormalizeRetry, c.Normalized,
    c.Produced, c.ProducerRequest, c.Prompt, c.Reply, c.SemanticCorrection,
}  # fmt: skip
MARK = "Canary"
CANARIES = st.text(st.characters(categories=["L", "N", "P", "S"])).map(
    lambda text: f"{MARK}{text}{MARK}"
)
struct = pytest.mark.parametrize("struct", STRUCTS, ids=lambda item: item.__name__)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and all that it is chained to, suppressed or not."""
    while error is not None:
        yield error
        yield from _chain(error.__cause__)
        error = error.__context__


def _everything_said(error: BaseException) -> str:
    """Return all text that an error and its chain hold, in any attribute."""
    parts = []
    for link in _chain(error):
        parts += [str(link), repr(link), repr(link.args), repr(vars(link))]
        if isinstance(link, UnicodeError):
            parts.append(repr(getattr(link, "object", "")))
    return "\n".join(parts)


@struct
@given(canary=CANARIES)
def test_no_view_of_a_value_shows_private_text(
    struct: type[Value], canary: str, make: Make
) -> None:
    """`repr`, `str`, the debug view and rich's view hold lengths and digests of it only."""
    value = make(struct, canary)
    views = (value, str(value), f"{value}", value.debug_view(), value.__rich_repr__(), [value])
    assert all(MARK not in repr(view) for view in views)
    assert MARK.encode() not in msgspec.json.encode(value.debug_view())
    # The test can fail: the text is there.
    assert (MARK.encode() in msgspec.json.encode(value)) is (struct in WITH_PRIVATE_TEXT)


@struct
def test_a_debug_view_is_plain_data_with_every_field(struct: type[Value], make: Make) -> None:
    """An operator sees each field by name, as data that any encoder takes."""
    view = make(struct, "text").debug_view()
    assert tuple(view) == struct.__struct_fields__
    assert _plain(view)


def test_a_debug_view_tells_length_and_digest() -> None:
    """Private text is shown by its bytes and SHA-256, so that two replies can be compared."""
    candidate = c.ModelCandidate.of("Zoë")
    assert candidate.debug_view()["text"] == {"bytes": 4, "sha256": candidate.sha256}
    assert c.Normalized(value=["Zoë"]).debug_view() == {"value": {"type": "list"}}
    retry = c.NormalizeRetry(
        reason_code="some_code",
        operator_message="No.",
        fallback=c.Fallback(value=1, preserved="Kept apart."),
    )
    assert retry.debug_view()["guidance"] is None


@given(canary=CANARIES)
def test_no_error_of_a_contract_holds_private_text(canary: str) -> None:
    """What is refused is not quoted: in no message, attribute or chained error."""
    candidate = c.ModelCandidate.of(canary)
    fallback = c.Fallback(value=canary, preserved="Kept apart.")
    sound = c.NormalizeRetry(
        reason_code="some_code",
        operator_message="Two groups were refused.",
        fallback=fallback,
        candidate=candidate,
        guidance=canary,
    )
    refused: list[tuple[type[Value], dict[str, object]]] = [
        (c.Message, {"role": c.Role.USER, "content": canary + "\ud800"}),
        (c.Message, {"role": c.Role.USER, "content": canary.encode()}),
        (c.ModelCandidate, {"text": canary, "sha256": "0" * 64}),
        (c.ModelCandidate, {"text": canary + "\ud800", "sha256": candidate.sha256}),
        (c.ModelCandidate, {"text": canary, "sha256": candidate.sha256, "protocol": "other"}),
        (c.Reply, {"text": canary.encode()}),
        (c.Reply, {"text": canary, "usage": None}),
        (c.SemanticCorrection, {"prompt": None, "candidate": candidate, "guidance": canary}),
        (c.SemanticCorrection, {"prompt": c.Prompt.of("x"), "candidate": canary, "guidance": "x"}),
        *(
            (c.NormalizeRetry, _fields(sound) | change)
            for change in (
                {"candidate": None},
                {"guidance": None},
                {"candidate": canary},
                {"guidance": canary + "\x1b"},
                {"guidance": canary + "\ud800"},
                {"guidance": canary + "x" * c.GUIDANCE_MAX_BYTES},
                {"guidance": canary + "some_code"},
                {"guidance": canary + "Two groups were refused."},
            )
        ),
    ]
    for struct, fields in refused:
        with pytest.raises(c.ContractError) as constructed:
            struct(**fields)
        assert MARK not in _everything_said(constructed.value)
        with pytest.raises(msgspec.ValidationError) as converted:
            msgspec.convert(
                msgspec.to_builtins(fields, builtin_types=(bytes,)) | _tag(struct), struct
            )
        assert MARK not in _everything_said(converted.value)


@given(canary=CANARIES)
def test_no_decoding_error_holds_private_text(canary: str) -> None:
    """A stored value that breaks a contract is refused without being quoted."""
    plain = {"text": canary, "sha256": "0" * 64, "type": "model_candidate"}
    for codec in (msgspec.json, msgspec.msgpack):
        with pytest.raises(msgspec.ValidationError) as caught:
            codec.decode(codec.encode(plain), type=c.ModelCandidate)
        assert MARK not in _everything_said(caught.value)
        assert any(isinstance(link, c.ContractError) for link in _chain(caught.value))


@given(CANARIES)
def test_a_repeated_key_is_in_no_message(canary: str) -> None:
    """A key may be the model's own word; it is kept for callers, and not said."""
    key = msgspec.json.encode(canary).decode()
    with pytest.raises(c.RepeatedKeyError) as caught:
        c.require_unique_keys(f"{{{key}: 1, {key}: 2}}")
    assert caught.value.key == canary
    assert MARK not in str(caught.value) + repr(caught.value)
    assert pickle.loads(pickle.dumps(caught.value)).key == canary  # noqa: S301 - our own bytes


@pytest.mark.parametrize("kind", c.ProviderErrorKind)
@pytest.mark.parametrize(("status", "wait"), [(None, None), (429, 2.5)])
def test_a_provider_error_survives_a_process_boundary(
    kind: c.ProviderErrorKind, status: int | None, wait: float | None
) -> None:
    """Kind, status and wait come back; the message is made of closed words and the status."""
    error = c.ProviderError(kind, status=status, retry_after_s=wait)
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):  # noqa: S301 - our own bytes
        assert type(twin) is c.ProviderError
        assert (twin.kind, twin.status, twin.retry_after_s) == (kind, status, wait)
        assert str(twin) == str(error)
    assert vars(error).keys() == {"kind", "status", "retry_after_s"}
    assert (str(status) in str(error)) is (status is not None)


def test_every_kind_of_provider_error_reads_differently() -> None:
    """An operator can tell the kinds apart, and none shows its raw code."""
    messages = {str(c.ProviderError(kind)) for kind in c.ProviderErrorKind}
    assert len(messages) == len(c.ProviderErrorKind)
    assert not any(kind.value in text for kind in c.ProviderErrorKind for text in messages)


def _fields(value: Value) -> dict[str, object]:
    return {name: getattr(value, name) for name in value.__struct_fields__}


def _tag(struct: type[Value]) -> dict[str, object]:
    return {"type": struct.__struct_config__.tag} if struct.__struct_config__.tag else {}


def _plain(view: object) -> bool:
    if isinstance(view, dict):
        return all(isinstance(k, str) and _plain(v) for k, v in view.items())
    if isinstance(view, list):
        return all(map(_plain, view))
    is_plain = view is None or isinstance(view, bool | int | float | str)
    return is_plain and not isinstance(view, enum.Enum)
