import json
import threading
from collections.abc import Callable

import pytest

from notarius.attempts import CancelToken, SystemClock
from notarius.attempts.testing import (
    FakeClock,
    JsonObjectContract,
    ScriptedProducer,
    ScriptExhaustedError,
    Turn,
)
from notarius.contracts import (
    AttemptCause,
    FinishReason,
    Message,
    ModelCandidate,
    OperationCancelledError,
    Produced,
    ProducerRequest,
    Reply,
    Role,
    StructuralDefect,
    StructuralFailure,
    Usage,
    judge_reply,
)

CONTRACT = JsonObjectContract()
REQUEST = ProducerRequest(
    messages=(Message(role=Role.USER, content="hi"),), number=1, cause=AttemptCause.INITIAL
)


def asked(producer: ScriptedProducer, token: CancelToken | None = None) -> Produced:
    """Ask once."""
    return producer.produce(REQUEST, contract=CONTRACT, cancellation=token or CancelToken())


def test_a_cancelled_token_stays_cancelled() -> None:
    """There is no way back, and waiting on it ends at once."""
    token = CancelToken()
    assert not token.cancelled
    assert not token.wait(0)
    token.cancel()
    token.cancel()
    assert token.cancelled
    assert token.wait(1_000_000)


def test_each_subscriber_is_called_once() -> None:
    """On cancellation, at once if it has happened, and never after its undo."""
    token, calls = CancelToken(), list[str]()

    def noting(name: str) -> Callable[[], None]:
        return lambda: calls.append(name)

    token.subscribe(noting("first"))
    undo = token.subscribe(noting("undone"))
    token.subscribe(noting("second"))
    undo()
    undo()
    token.cancel()
    token.cancel()
    assert calls == ["first", "second"]
    token.subscribe(noting("late"))()
    assert calls == ["first", "second", "late"]


def test_a_subscriber_that_raises_does_not_keep_others_running() -> None:
    """Every operation that shares the token is told of the cancellation."""
    token, calls = CancelToken(), list[str]()

    def fail() -> None:
        raise ZeroDivisionError

    token.subscribe(fail)
    token.subscribe(lambda: calls.append("told"))
    with pytest.raises(ZeroDivisionError):
        token.cancel()
    assert calls == ["told"]


def test_a_subscriber_may_use_the_token() -> None:
    """A callback that looks at the token, or subscribes again, does not lock up."""
    token, seen = CancelToken(), list[bool]()
    token.subscribe(lambda: seen.append(token.cancelled))

    def again() -> None:
        token.subscribe(lambda: seen.append(True))

    token.subscribe(again)
    thread = threading.Thread(target=token.cancel, daemon=True)
    thread.start()
    thread.join(30)
    assert not thread.is_alive()
    assert seen == [True, True]


def test_a_script_answers_in_order_and_then_no_more() -> None:
    """Texts, replies, finished answers, errors and functions are played one a call."""
    error = ZeroDivisionError()
    done = Produced(result=ModelCandidate.of("{}"), repairs=3)
    usage = Usage(input_tokens=1, output_tokens=2)
    producer = ScriptedProducer(
        [
            " {} ",
            Reply(text="{}", usage=usage, finish_reason=FinishReason.LENGTH),
            done,
            lambda request: str(request.number),
            error,
        ]
    )
    first = asked(producer)
    assert (first.result, first.finish_reason) == (ModelCandidate.of(" {} "), FinishReason.STOP)
    second = asked(producer)
    assert (second.usage, second.finish_reason) == (usage, FinishReason.LENGTH)
    assert asked(producer) is done
    assert asked(producer).result != ModelCandidate.of("1")  # no object, so no candidate
    with pytest.raises(ZeroDivisionError):
        asked(producer)
    with pytest.raises(ScriptExhaustedError):
        asked(producer)
    assert producer.requests == [REQUEST] * 6


def test_a_scripted_producer_is_not_asked_after_a_cancel() -> None:
    """It keeps the rule that it helps to test."""
    token, producer = CancelToken(), ScriptedProducer(["{}"])
    token.cancel()
    with pytest.raises(OperationCancelledError, match="cancelled"):
        asked(producer, token)
    assert producer.requests == []


@pytest.mark.parametrize(
    ("text", "defect"),
    [
        ("{}", None),
        (' {"a": [1]}\n', None),
        ("[]", StructuralDefect.WRONG_SHAPE),
        ('"text"', StructuralDefect.WRONG_SHAPE),
        ("null", StructuralDefect.WRONG_SHAPE),
        ("", StructuralDefect.NOT_JSON),
        ("{} {}", StructuralDefect.NOT_JSON),
        ("[" * 100_000, StructuralDefect.NOT_JSON),
    ],
)
def test_any_one_json_object_meets_the_helper_contract(
    text: str, defect: StructuralDefect | None
) -> None:
    """Everything else is structural, and nothing crashes it."""
    assert CONTRACT.defect(text) is defect


def test_the_helper_contract_tells_a_server_what_it_wants() -> None:
    """Its name, its schema, and that it takes a reply of one MiB but no longer."""
    assert CONTRACT.name == "json_object"
    assert json.loads(CONTRACT.schema_json) == {"type": "object"}
    longest = "{}".ljust(1024 * 1024)
    assert isinstance(judge_reply(Reply(text=longest), CONTRACT), ModelCandidate)
    longer = judge_reply(Reply(text=f"{longest} "), CONTRACT)
    assert isinstance(longer, StructuralFailure)
    assert longer.defect is StructuralDefect.OVERSIZED


def test_a_turn_takes_no_time_unless_it_is_told_to() -> None:
    """Nor does anybody cancel meanwhile."""
    clock, token = FakeClock(), CancelToken()
    turn = Turn(answer="{}")
    assert (turn.takes_s, turn.cancels) == (0, False)
    asked(ScriptedProducer([turn.step(clock, token)]), token)
    assert (clock.now, token.cancelled) == (0, False)


def test_a_fake_clock_moves_only_when_told() -> None:
    """Tests of time need no time."""
    assert FakeClock().monotonic() == 0
    clock = FakeClock(5)
    assert clock.monotonic() == clock.monotonic() == 5
    clock.advance(2.5)
    assert clock.monotonic() == 7.5


def test_the_system_clock_never_goes_back() -> None:
    """The driver's default clock is monotonic."""
    clock = SystemClock()
    first = clock.monotonic()
    assert clock.monotonic() >= first
