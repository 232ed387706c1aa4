import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from notarius.attempts import AttemptMachine, AttemptPolicy, CancelToken, arun, run
from notarius.attempts.testing import JsonObjectContract, ScriptedProducer
from notarius.contracts import (
    Accepted,
    AttemptResult,
    Cancelled,
    DeadlineExceededError,
    Fallback,
    FellBack,
    ModelCandidate,
    NormalizeRetry,
    OperationCancelledError,
    Outcome,
    Produced,
    ProducerRequest,
    Prompt,
    ProviderError,
    ProviderErrorKind,
    ResponseContract,
)

Play = Callable[..., Any]
World = Any
LONG = 30.0  # seconds, after which a test that hangs is failed instead


def cancelling(answer: object) -> Callable[[World, ProducerRequest], object]:
    """Return a step that cancels and then answers all the same."""

    def step(world: World, request: ProducerRequest) -> object:
        world.token.cancel()
        return answer

    return step


class Refuses:
    """Asks again, always with guidance."""

    def normalize(self, produced: Produced) -> NormalizeRetry[str]:
        """Refuse."""
        assert isinstance(produced.result, ModelCandidate)
        return NormalizeRetry(
            reason_code="groups_refused",
            operator_message="Refused.",
            fallback=Fallback(value="safe", preserved="Kept apart."),
            candidate=produced.result,
            guidance="A check found a mistake.",
        )


class Hangs:
    """Answers nothing, from the call after `replies` good ones on; tells when it was stopped."""

    def __init__(self, *, replies: int = 0, meanwhile: Callable[[], object] = lambda: None) -> None:
        self.replies = replies
        self.meanwhile = meanwhile
        self.calls = 0
        self.stopped = False

    async def aproduce(self, request: ProducerRequest, *, contract: ResponseContract) -> Produced:
        """Wait for what never happens."""
        self.calls += 1
        if self.calls <= self.replies:
            return Produced(result=ModelCandidate.of('{"bad": "a"}'))
        self.meanwhile()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.stopped = True
            raise
        raise AssertionError


def finish(operation: Coroutine[Any, Any, Outcome[str]]) -> Outcome[str]:
    """Run an operation, and fail if it hangs.

    In debug mode the loop refuses calls from another thread that might not wake it up.
    """

    async def watched() -> Outcome[str]:
        return await asyncio.wait_for(operation, LONG)

    return asyncio.run(watched(), debug=True)


def start(
    machine: AttemptMachine[str], producer: Hangs, token: CancelToken | None = None
) -> Coroutine[Any, Any, Outcome[str]]:
    """Return the operation in asyncio."""
    return arun(machine, producer, Refuses(), contract=JsonObjectContract(), cancellation=token)


def machine(deadline_s: float | None = None) -> AttemptMachine[str]:
    """Return a machine with budget to spare."""
    return AttemptMachine(Prompt.of("hi"), AttemptPolicy(deadline_s=deadline_s))


@pytest.mark.parametrize(
    "answer",
    [
        '{"ok": "a"}',
        '{"bad": "a"}',
        "",
        OperationCancelledError("seen"),
        ProviderError(ProviderErrorKind.TIMED_OUT),
        DeadlineExceededError("over"),
    ],
)
@pytest.mark.parametrize("before", [[], ['{"bad": "z"}'], ["", '{"bad": "z"}']])
def test_a_cancel_during_a_call_wins_over_its_answer(
    before: list[str], answer: object, play: Play
) -> None:
    """Whatever the call still gives, good or bad, nothing is judged and nothing more is asked."""
    played = play(*before, cancelling(answer), '{"ok": "never"}')
    assert isinstance(played.ended, Cancelled)
    assert len(played.requests) == len(before) + 1
    assert len(played.judged) == len(before)
    assert played.ended.records == played.records
    assert [r.result for r in played.records][len(before) :] == [AttemptResult.CANCELLED]
    got_text = isinstance(answer, str)
    assert (played.records[-1].response_sha256 is not None) is got_text


@pytest.mark.parametrize("reply", ['{"ok": "a"}', '{"bad": "a"}', '{"again": "a"}'])
def test_a_cancel_during_the_judging_wins_over_the_verdict(reply: str, play: Play) -> None:
    """An accepted value that came after the cancel is not handed out."""

    class Interrupted:
        def __init__(self, world: World) -> None:
            self.world = world

        def normalize(self, produced: Produced) -> NormalizeRetry[str]:
            self.world.token.cancel()
            return Refuses().normalize(produced)

    played = play(reply, '{"ok": "never"}', normalizer=Interrupted)
    assert isinstance(played.ended, Cancelled)
    assert [record.result for record in played.records] == [AttemptResult.CANCELLED]
    assert len(played.requests) == 1


@pytest.mark.parametrize("reply", ['{"bad": "a"}', '{"again": "a"}', ""])
def test_a_cancel_between_attempts_begins_no_other(reply: str, play: Play) -> None:
    """A hook may cancel: the attempt that was made survives, and the next is never asked for."""
    played = play(
        reply, '{"ok": "never"}', hooks=lambda world: [lambda record: world.token.cancel()]
    )
    assert isinstance(played.ended, Cancelled)
    assert len(played.requests) == len(played.records) == 1
    assert played.records[0].result in {AttemptResult.REFUSED, AttemptResult.STRUCTURAL}


def test_a_cancel_before_the_start_asks_for_nothing(play: Play) -> None:
    """No producer is called, no record is left."""
    token = CancelToken()
    token.cancel()
    producer = ScriptedProducer([])
    contract = JsonObjectContract()
    ended = [
        run(machine(), producer, Refuses(), contract=contract, cancellation=token),
        finish(arun(machine(), producer, Refuses(), contract=contract, cancellation=token)),
    ]
    assert ended == [Cancelled(records=())] * 2
    assert producer.requests == []


@pytest.mark.parametrize(("reply", "kind"), [('{"ok": "a"}', Accepted), ("", FellBack)])
def test_a_cancel_after_the_end_changes_nothing(reply: str, kind: type, play: Play) -> None:
    """What was reached before somebody cancelled stays reached."""
    played = play(
        reply,
        policy=AttemptPolicy(normalize_retries=0),
        hooks=lambda world: [lambda record: world.token.cancel()],
    )
    assert isinstance(played.ended, kind)


def test_a_cancel_comes_before_the_end_of_time(play: Play) -> None:
    """Where both happened, nothing may be kept as a result."""

    def step(world: World, request: ProducerRequest) -> str:
        world.clock.advance(100)
        return '{"bad": "a"}'

    played = play(
        step,
        policy=AttemptPolicy(deadline_s=10),
        hooks=lambda world: [lambda record: world.token.cancel()],
    )
    assert isinstance(played.ended, Cancelled)


@pytest.mark.parametrize("error_type", [KeyboardInterrupt, asyncio.CancelledError, SystemExit])
@pytest.mark.parametrize("before", [[], ['{"bad": "z"}']])
def test_an_interruption_comes_out_and_the_records_survive(
    before: list[str], error_type: type[BaseException], play: Play
) -> None:
    """No interruption is swallowed or replaced; the attempt that it ended is on record."""
    error = error_type()
    played = play(*before, error, '{"ok": "never"}')
    assert played.ended is error
    assert len(played.requests) == len(before) + 1
    assert [r.result for r in played.records][len(before) :] == [AttemptResult.CANCELLED]
    assert played.events == list(played.records)


@pytest.mark.parametrize("replies", [0, 1])
def test_a_cancelled_task_raises_cancelled_error(replies: int) -> None:
    """The loop's own cancellation stops the producer and comes out of `arun` as it must."""
    operation, producer = machine(), Hangs(replies=replies)

    async def scenario() -> asyncio.Task[Outcome[str]]:
        task = asyncio.create_task(start(operation, producer))
        producer.meanwhile = task.cancel
        await asyncio.wait([task], timeout=LONG)
        return task

    task = asyncio.run(scenario())
    assert task.cancelled()
    assert producer.stopped
    expected = [AttemptResult.REFUSED] * replies + [AttemptResult.CANCELLED]
    assert [record.result for record in operation.records] == expected


@pytest.mark.parametrize("replies", [0, 1])
def test_a_token_set_in_another_thread_stops_a_hanging_call(replies: int) -> None:
    """The async driver wakes up, cancels the producer, and asks for nothing more."""
    token = CancelToken()
    thread = threading.Thread(target=token.cancel)
    operation, producer = machine(), Hangs(replies=replies, meanwhile=thread.start)
    ended = finish(start(operation, producer, token))
    thread.join()
    assert ended == Cancelled(records=operation.records)
    assert operation.records[-1].result is AttemptResult.CANCELLED
    assert producer.stopped
    assert producer.calls == replies + 1


@pytest.mark.parametrize("replies", [0, 1])
def test_a_hanging_call_is_stopped_at_the_deadline(replies: int) -> None:
    """The async driver does not depend on the producer's own timeout."""
    operation, producer = machine(deadline_s=0.25), Hangs(replies=replies)
    ended = finish(start(operation, producer))
    assert producer.stopped
    assert operation.records[-1].result is AttemptResult.DEADLINE
    assert isinstance(ended, FellBack) is bool(replies)


def test_a_timeout_of_the_producers_own_comes_out() -> None:
    """Only the operation's own deadline is a deadline; another `TimeoutError` is a fault."""

    class Impatient:
        async def aproduce(
            self, request: ProducerRequest, *, contract: ResponseContract
        ) -> Produced:
            raise TimeoutError

    operation = machine(deadline_s=1000)
    with pytest.raises(TimeoutError):
        finish(arun(operation, Impatient(), Refuses(), contract=JsonObjectContract()))
    assert [record.result for record in operation.records] == [AttemptResult.BROKEN]


def test_a_finished_operation_leaves_nothing_behind_in_the_token() -> None:
    """A token that lives longer can be cancelled later, from any thread, without harm."""

    class Counting(CancelToken):
        subscribed = 0

        def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
            undo = super().subscribe(callback)
            self.subscribed += 1

            def forget() -> None:
                self.subscribed -= 1
                undo()

            return forget

    token, contract = Counting(), JsonObjectContract()
    producer = ScriptedProducer(['{"bad": "a"}', '{"bad": "b"}', '{"bad": "c"}'])
    finish(arun(machine(), producer, Refuses(), contract=contract, cancellation=token))
    assert len(producer.requests) == 3
    assert token.subscribed == 0
    token.cancel()


class Behind(CancelToken):
    """A token that is set in another thread as an operation ends: it has its subscribers already.

    They are called after all, before the operation is done or `later`.
    """

    def __init__(self, *, later: bool) -> None:
        super().__init__()
        self.later = later
        self.called: list[Callable[[], None]] = []

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Keep the subscriber."""
        self.called.append(callback)
        return (lambda: None) if self.later else callback


def test_a_cancel_behind_a_call_is_of_no_account() -> None:
    """It meets a call that has ended, or a loop that has; nobody is told of an error."""
    token, contract = Behind(later=False), JsonObjectContract()
    producer = ScriptedProducer(['{"bad": "a"}'] * 3)
    complaints: list[dict[str, Any]] = []

    async def operation() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, told: complaints.append(told))
        await arun(machine(), producer, Refuses(), contract=contract, cancellation=token)
        await asyncio.sleep(0)

    asyncio.run(operation())
    assert len(producer.requests) == len(token.called) == 3
    assert complaints == []
    gone = Behind(later=True)
    finish(
        arun(
            machine(), ScriptedProducer(["{}"] * 3), Refuses(), contract=contract, cancellation=gone
        )
    )
    for callback in gone.called:
        callback()


def test_a_token_that_fails_to_subscribe_is_a_fault() -> None:
    """Its very error comes out, and the attempt is recorded."""

    class Broken(CancelToken):
        def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
            raise ZeroDivisionError

    operation, contract = machine(), JsonObjectContract()
    producer = ScriptedProducer(["{}"])
    with pytest.raises(ZeroDivisionError):
        finish(arun(operation, producer, Refuses(), contract=contract, cancellation=Broken()))
    assert producer.requests == []
    assert [record.result for record in operation.records] == [AttemptResult.BROKEN]
