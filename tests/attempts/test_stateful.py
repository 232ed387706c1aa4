"""Arbitrary operations, one step at a time, in threads and in asyncio side by side.

Each step answers the one call that both drivers wait for, or does something to them meanwhile; then
the invariants of the machine must hold in both, and both must have told the same story. Time is
simulated, the event loop's too, so that hours and stopped calls cost nothing.
"""

import abc
import asyncio
import logging
import queue
import threading
from collections.abc import Coroutine
from hashlib import sha256
from typing import Any, ClassVar

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from notarius.attempts import AttemptMachine, AttemptPolicy, CancelToken, State, arun, run
from notarius.attempts._events import CancelRequested, Started
from notarius.attempts.testing import FakeClock, JsonObjectContract, ScriptedProducer, Turn
from notarius.attempts.testing import strategies as drawn
from notarius.contracts import (
    Accepted,
    AttemptCause,
    AttemptRecord,
    AttemptResult,
    Cancellation,
    Cancelled,
    ContractError,
    DeadlineExceededError,
    Failed,
    Fallback,
    FellBack,
    InvariantError,
    ModelCandidate,
    NoReplyError,
    Normalized,
    NormalizeRetry,
    Outcome,
    Produced,
    ProducerRequest,
    Prompt,
    ResponseContract,
    Role,
    canonical_json,
)

CONTRACT = JsonObjectContract()
PATIENCE_S = 30.0  # real seconds after which a driver that hangs fails the test
ENOUGH = 200  # examples that must come everywhere
REFUSING = ["correct", "correct", "again", "slow"]
UNSOUND = ["stale", "unpaired"]
FAULTS = [ZeroDivisionError, TimeoutError, KeyboardInterrupt, SystemExit]
PLANS = ["accept", *REFUSING, *UNSOUND, "cancel", "fault", "interrupt"]


class Judge:
    """Does what the plan says with whatever was produced; remembers both."""

    def __init__(self, clock: FakeClock, token: CancelToken) -> None:
        self.clock = clock
        self.token = token
        self.plan = "accept"
        self.raised: BaseException | None = None
        self.judged: list[tuple[Produced, NormalizeRetry[str] | None]] = []

    def normalize(self, produced: Produced) -> Normalized[str] | NormalizeRetry[str]:
        """Judge."""
        self.judged.append((produced, None))
        if self.plan in {"fault", "interrupt"}:
            self.raised = ZeroDivisionError() if self.plan == "fault" else KeyboardInterrupt()
            raise self.raised
        if self.plan == "cancel":
            self.token.cancel()
        if self.plan == "slow":
            self.clock.advance(20.0)
        if self.plan in {"accept", "cancel"}:
            return Normalized(value="everything")
        retry = self._retry(produced.result)
        self.judged[-1] = (produced, retry)
        return retry

    def _retry(self, result: object) -> NormalizeRetry[str]:
        number = len(self.judged)
        candidate = result if isinstance(result, ModelCandidate) else None
        if self.plan == "stale":
            # Guidance about a text that is not the latest reply: the one before, or one made up.
            earlier = [p.result for p, _ in self.judged if isinstance(p.result, ModelCandidate)]
            candidate = next((c for c in earlier if c != result), ModelCandidate.of("{} "))
        if self.plan == "again":
            candidate = None
        retry: NormalizeRetry[str] = NormalizeRetry(
            reason_code="groups_refused",
            operator_message="Some groups were refused.",
            fallback=Fallback(value=f"safe {number}", preserved="The rest was kept apart."),
            candidate=candidate,
            guidance=None if candidate is None else f"Mend <guide-{number - 1}>.",
        )
        if self.plan == "unpaired":
            # What no constructor allows: guidance without a candidate.
            msgspec.structs.force_setattr(retry, "candidate", None)
            msgspec.structs.force_setattr(retry, "guidance", f"Mend <guide-{number - 1}>.")
        return retry


class Lane(abc.ABC):
    """One live operation: stands still wherever its driver waits for the producer."""

    def __init__(self, prompt: Prompt, policy: AttemptPolicy, *, cancelled: bool) -> None:
        self.clock = FakeClock()
        self.token = CancelToken()
        if cancelled:
            self.token.cancel()
        self.judge = Judge(self.clock, self.token)
        self.machine: AttemptMachine[str] = AttemptMachine(prompt, policy)
        self.requests: list[ProducerRequest] = []
        self.reported: list[AttemptRecord] = []
        self.ended: Outcome[str] | BaseException | None = None
        self.options: dict[str, Any] = {
            "contract": CONTRACT,
            "clock": self.clock,
            "cancellation": self.token,
            "hooks": [self.reported.append, self._fail],
        }

    def _fail(self, record: AttemptRecord) -> None:
        """A hook that always breaks; nobody may notice but the log."""
        raise LookupError(record.number)

    @property
    def left_s(self) -> float:
        """Simulated seconds that the latest request allows."""
        return self.requests[-1].timeout_s or 0.0

    @abc.abstractmethod
    def answer(self, turn: Turn) -> None:
        """Answer the call."""

    @abc.abstractmethod
    def cancel(self) -> None:
        """Cancel while the producer is at it."""

    @abc.abstractmethod
    def hang(self) -> None:
        """Let the producer take all the time there is, and more."""

    @abc.abstractmethod
    def interrupt(self) -> None:
        """End it as Ctrl-C, or the loop, would."""

    @abc.abstractmethod
    def close(self) -> None:
        """Leave nothing behind."""


class Threads(Lane):
    """`run` in a thread of its own; its producer looks at the token and keeps to its time."""

    def __init__(self, prompt: Prompt, policy: AttemptPolicy, *, cancelled: bool) -> None:
        super().__init__(prompt, policy, cancelled=cancelled)
        self._turns: queue.SimpleQueue[Turn] = queue.SimpleQueue()
        self._still: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._still.get(timeout=PATIENCE_S)

    def _run(self) -> None:
        try:
            self.ended = run(self.machine, self, self.judge, **self.options)
        except BaseException as error:  # noqa: BLE001 - what comes out is what is tested
            self.ended = error
        self._still.put(None)

    def produce(
        self, request: ProducerRequest, *, contract: ResponseContract, cancellation: Cancellation
    ) -> Produced:
        """Wait for the next turn, and play it."""
        self.requests.append(request)
        self._still.put(None)
        turn = self._turns.get(timeout=PATIENCE_S)
        producer = ScriptedProducer([turn.step(self.clock, self.token)])
        return producer.produce(request, contract=contract, cancellation=cancellation)

    def answer(self, turn: Turn) -> None:
        """Let the waiting producer play it."""
        self._turns.put(turn)
        self._still.get(timeout=PATIENCE_S)

    def cancel(self) -> None:
        """Set the token; the producer looks at it next."""
        self.token.cancel()
        self.answer(Turn(answer="{}"))

    def hang(self) -> None:
        """Let the producer give up by itself."""
        self.answer(Turn(answer=DeadlineExceededError(), takes_s=self.left_s + 1.0))

    def interrupt(self) -> None:
        """Raise what a signal handler raises."""
        self.answer(Turn(answer=KeyboardInterrupt()))

    def close(self) -> None:
        """End the thread."""
        if self.ended is None:
            self.cancel()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()


class Asyncio(Lane):
    """`arun` in a loop that moves only when it is told; its producer never looks at anything."""

    def __init__(self, prompt: Prompt, policy: AttemptPolicy, *, cancelled: bool) -> None:
        super().__init__(prompt, policy, cancelled=cancelled)
        clock = self.clock

        class Simulated(asyncio.SelectorEventLoop):
            def time(self) -> float:
                return clock.monotonic()

        self._loop = Simulated()
        self._turn: asyncio.Future[Turn] | None = None
        self._task = self._loop.create_task(
            self._run(arun(self.machine, self, self.judge, **self.options))
        )
        self._go_on()

    async def _run(self, operation: Coroutine[Any, Any, Outcome[str]]) -> None:
        try:
            self.ended = await operation
        except BaseException as error:  # noqa: BLE001 - what comes out is what is tested
            self.ended = error

    async def aproduce(self, request: ProducerRequest, *, contract: ResponseContract) -> Produced:
        """Wait for the next turn, and play it."""
        self.requests.append(request)
        self._turn = self._loop.create_future()
        turn = await self._turn
        producer = ScriptedProducer([turn.step(self.clock, self.token)])
        return await producer.aproduce(request, contract=contract)

    def _go_on(self) -> None:
        self._turn = None
        for _ in range(100):
            if self._task.done() or self._turn is not None:
                return
            self._loop.call_soon(self._loop.stop)
            self._loop.run_forever()
        pytest.fail("the driver neither asks nor ends")

    def answer(self, turn: Turn) -> None:
        """Let the waiting producer play it."""
        assert self._turn is not None
        self._turn.set_result(turn)
        self._go_on()

    def cancel(self) -> None:
        """Set the token; the driver must stop the producer."""
        self.token.cancel()
        self._go_on()

    def hang(self) -> None:
        """Let the time pass; the driver must stop the producer."""
        self.clock.advance(self.left_s + 1.0)
        self._go_on()

    def interrupt(self) -> None:
        """Cancel the task."""
        self._task.cancel()
        self._go_on()

    def close(self) -> None:
        """End the task, and close the loop."""
        if self.ended is None:
            self.cancel()
        self._loop.close()


class Story(RuleBasedStateMachine):
    """One operation in both lanes, and all that was done to it."""

    SOUGHT: ClassVar[set[object]] = set()
    """Results, endings and lengths of all examples: shows that the search came everywhere."""

    def __init__(self) -> None:
        super().__init__()
        self.lanes: list[Lane] = []
        self.done: list[tuple[str, Turn | None, str]] = []
        self.log: list[str] = []
        self.handler = logging.Handler()
        self.handler.emit = lambda record: self.log.append(record.getMessage())  # type: ignore[method-assign]  # a sink
        logging.getLogger("notarius.attempts").addHandler(self.handler)

    @initialize(
        prompt=drawn.prompts(),
        policy=drawn.policies(),
        cancelled=st.sampled_from([False] * 9 + [True]),
        quiet=st.integers(0, 3),
    )
    def begin(self, prompt: Prompt, policy: AttemptPolicy, quiet: int, *, cancelled: bool) -> None:
        """Start both drivers; the first calls, a `quiet` number, bring nothing but refusals."""
        self.prompt, self.policy, self.cancelled, self.quiet = prompt, policy, cancelled, quiet
        self.passed_in = canonical_json([prompt, policy])
        self.lanes = [kind(prompt, policy, cancelled=cancelled) for kind in (Threads, Asyncio)]

    def act(self, what: str, turn: Turn | None = None, plan: str = "accept") -> None:
        """Do the same to both."""
        self.done.append((what, turn, plan))
        for lane in self.lanes:
            self._act(lane, what, turn, plan)

    @staticmethod
    def _act(lane: Lane, what: str, turn: Turn | None, plan: str) -> None:
        lane.judge.plan = plan
        if turn is not None:
            lane.answer(turn)
        else:
            getattr(lane, what)()

    def mark(self) -> str:
        """Return what tells the text of the coming reply from every other."""
        return f"<turn-{len(self.lanes[0].requests) - 1}>"

    def running(self) -> bool:
        """Whether both drivers wait for an answer."""
        return bool(self.lanes) and self.lanes[0].ended is None

    def eventful(self) -> bool:
        """Whether something else than a refusal may happen to them."""
        return self.running() and len(self.lanes[0].requests) > self.quiet

    def timed(self) -> bool:
        """Whether they wait no longer than a deadline."""
        return self.eventful() and self.policy.deadline_s is not None

    # ------------------------------------------------------------------ what can happen

    @precondition(running)
    @rule(data=st.data(), plan=st.sampled_from(REFUSING))
    def a_valid_reply_is_refused(self, data: st.DataObject, plan: str) -> None:
        """Whatever it says."""
        self.act("reply", Turn(answer=data.draw(drawn.valid_texts(self.mark()))), plan)

    @precondition(eventful)
    @rule(data=st.data())
    def a_valid_reply_is_accepted(self, data: st.DataObject) -> None:
        """The good end."""
        self.act("reply", Turn(answer=data.draw(drawn.valid_texts(self.mark()))))

    @precondition(running)
    @rule(data=st.data(), plan=st.sampled_from(["again", "correct"]))
    def a_reply_of_any_kind_is_refused(self, data: st.DataObject, plan: str) -> None:
        """Candidates and structural failures."""
        self.act("reply", Turn(answer=data.draw(drawn.replies(self.mark()))), plan)

    @precondition(eventful)
    @rule(data=st.data(), plan=st.sampled_from(PLANS))
    def anything_happens(self, data: st.DataObject, plan: str) -> None:
        """Any call, any verdict; also verdicts that no normalizer may give."""
        self.act("reply", data.draw(drawn.turns(self.mark())), plan)

    @precondition(eventful)
    @rule(data=st.data(), plan=st.sampled_from(UNSOUND))
    def the_verdict_is_unsound(self, data: st.DataObject, plan: str) -> None:
        """A normalizer that is broken or worse."""
        self.act("reply", Turn(answer=data.draw(drawn.valid_texts(self.mark()))), plan)

    @precondition(eventful)
    @rule(how=st.sampled_from(["cancel", "interrupt", *FAULTS]))
    def the_call_is_ended(self, how: str | type[BaseException]) -> None:
        """By somebody who cancels, by Ctrl-C or the loop, by a fault of the producer."""
        if isinstance(how, str):
            self.act(how)
        else:
            self.act("raise", Turn(answer=how()))

    @precondition(eventful)
    @rule(error=drawn.errors())
    def there_is_no_reply(self, error: NoReplyError) -> None:
        """Nothing to judge."""
        self.act("reply", Turn(answer=error))

    @precondition(timed)
    @rule()
    def the_producer_hangs(self) -> None:
        """Until its time is over."""
        self.act("hang")

    @precondition(lambda self: bool(self.lanes) and not self.running())
    @rule()
    def what_ended_stays_ended(self) -> None:
        """No event moves a finished machine, and a late cancel changes nothing."""
        for lane in self.lanes:
            before = (lane.machine.records, lane.ended, len(lane.requests))
            for event in (Started(), CancelRequested(elapsed_ms=1)):
                with pytest.raises(InvariantError):
                    lane.machine.handle(event)
            lane.token.cancel()
            assert (lane.machine.records, lane.ended, len(lane.requests)) == before
        self.lanes_were_cancelled_late = True

    # ------------------------------------------------------------------ what always holds

    lanes_were_cancelled_late = False

    @invariant()
    def both_tell_the_same_story(self) -> None:
        """The drivers differ in nothing but the kind of interruption."""
        if not self.lanes:
            return
        one, other = self.lanes
        assert one.requests == other.requests
        assert one.machine.records == other.machine.records
        assert one.machine.state is other.machine.state
        assert one.machine.retries_spent == other.machine.retries_spent
        if isinstance(one.ended, BaseException):
            assert isinstance(other.ended, BaseException)
            assert isinstance(one.ended, Exception) is isinstance(other.ended, Exception)
        else:
            assert one.ended == other.ended

    @invariant()
    def only_the_latest_exchange_is_sent(self) -> None:
        """1, 2, 5: the prompt; after a refusal with guidance its exact reply and the guidance."""
        for lane in self.lanes:
            for number, request in enumerate(lane.requests):
                original = self.prompt.messages
                assert request.messages[: len(original)] == original
                added = [(m.role, m.content) for m in request.messages[len(original) :]]
                produced, verdict = lane.judge.judged[number - 1] if number else (None, None)
                if produced and verdict and verdict.guidance is not None:
                    assert isinstance(produced.result, ModelCandidate)
                    expected = [
                        (Role.ASSISTANT, produced.result.text),
                        (Role.USER, verdict.guidance),
                    ]
                    assert added == expected
                    assert request.cause is AttemptCause.CORRECTIVE_RETRY
                else:
                    assert added == []
                    assert request.cause is not AttemptCause.CORRECTIVE_RETRY
                # Whatever the text: nothing from before the latest attempt is in it.
                sent = "".join(content for _, content in added)
                old = [f"<{what}-{n}>" for n in range(number - 1) for what in ("turn", "guide")]
                assert [mark for mark in old if mark in sent] == []

    @invariant()
    def records_hold_digests_of_exactly_what_was_sent_and_received(self) -> None:
        """2: what was received and what corrected it can be proved, byte for byte."""
        for lane in self.lanes:
            records = lane.machine.records
            assert [r.number for r in records] == list(range(1, len(records) + 1))
            for record, request in zip(records, lane.requests, strict=False):
                assert record.request_sha256 == request.sha256
                assert record.request_messages == len(request.messages)
                added = request.messages[len(self.prompt.messages) :]
                digests = [sha256(m.content.encode()).hexdigest() for m in added]
                before = records[record.number - 2].response_sha256
                assert digests == ([before, record.guidance_sha256] if added else [])
                assert (record.guidance_sha256 is not None) is bool(added)
            for record, (produced, _) in zip(records, lane.judge.judged, strict=False):
                if isinstance(produced.result, ModelCandidate):
                    text = produced.result.text.encode("utf-8", "surrogatepass")
                    assert record.response_sha256 == sha256(text).hexdigest()
                    assert record.response_bytes == len(text)

    @invariant()
    def nothing_passed_in_is_changed(self) -> None:
        """3: the original prompt and the limits are what they were."""
        if self.lanes:
            assert canonical_json([self.prompt, self.policy]) == self.passed_in

    @invariant()
    def an_unsound_verdict_ends_it(self) -> None:
        """5: guidance about anything but the latest reply, or without one, is never sent."""
        if not self.lanes or not self.done or self.done[-1][2] not in UNSOUND:
            return
        for lane in self.lanes:
            judged = lane.judge.judged
            if len(judged) == len(lane.requests) and judged[-1][1] is not None:
                assert isinstance(lane.ended, InvariantError | ContractError)
                assert lane.machine.records[-1].result is AttemptResult.BROKEN

    @invariant()
    def budgets_are_apart(self) -> None:
        """11: a retry spends one unit of the stage's budget; what a producer spent is its own."""
        for lane in self.lanes:
            spent, limit = lane.machine.retries_spent, self.policy.normalize_retries
            assert 0 <= spent <= limit
            refused = [verdict for _, verdict in lane.judge.judged if verdict is not None]
            assert spent <= len(refused)
            # An attempt that is due but not begun when time or will runs out is no request.
            assert len(lane.requests) in {spent, spent + 1}
            assert len(lane.requests) == spent + 1 or lane.ended is not None
            if isinstance(lane.ended, FellBack | Failed) and lane.ended.records:
                exhausted = lane.machine.records[-1].result in {"refused", "structural_failure"}
                late = lane.clock.now >= (self.policy.deadline_s or float("inf"))
                assert not exhausted or late or spent == limit
            for (what, turn, _), record in zip(self.done, lane.machine.records, strict=False):
                answer = None if turn is None else turn.answer
                spender = answer if isinstance(answer, Produced | NoReplyError) else None
                told = record.result is not AttemptResult.BROKEN or isinstance(answer, Produced)
                if what == "reply" and told:
                    assert record.repairs == (spender.repairs if spender else 0)
                    assert record.transport_retries == (spender.transport_retries if spender else 0)

    @invariant()
    def the_latest_valid_fallback_applies(self) -> None:
        """ADR 0002: that of the latest attempt with a candidate, or of the latest without any."""
        for lane in self.lanes:
            if isinstance(lane.ended, FellBack):
                judged = enumerate(lane.judge.judged, 1)
                refused = [(n, produced) for n, (produced, verdict) in judged if verdict]
                valid = [n for n, p in refused if isinstance(p.result, ModelCandidate)]
                assert lane.ended.applied_attempt == (valid or [n for n, _ in refused])[-1]
                assert lane.ended.value == f"safe {lane.ended.applied_attempt}"

    @invariant()
    def a_cancel_wins(self) -> None:
        """12: after it nobody is asked, nothing is a result, and all attempts are on record."""
        for lane in self.lanes:
            assert lane.machine.records == tuple(lane.reported)
            if lane.token.cancelled and not self.lanes_were_cancelled_late:
                assert isinstance(lane.ended, Cancelled)
                assert lane.ended.records == lane.machine.records
            if lane.ended is None:
                assert lane.machine.state is State.PRODUCING
                assert len(lane.requests) == len(lane.machine.records) + 1
                continue
            assert lane.machine.state is State.DONE
            assert len(lane.requests) == len(lane.machine.records)
            if isinstance(lane.ended, Accepted | FellBack | Failed | Cancelled):
                assert lane.ended.records == lane.machine.records
            elif not isinstance(lane.ended, Exception):
                assert lane.machine.records[-1].result is AttemptResult.CANCELLED

    @invariant()
    def an_error_comes_out_unchanged(self) -> None:
        """12: what producer or normalizer raised is never swallowed, replaced or wrapped."""
        if not self.lanes or not self.done:
            return
        what, turn, plan = self.done[-1]
        for lane in self.lanes:
            if what == "raise" and turn is not None:
                assert lane.ended is turn.answer
            elif what == "interrupt":
                assert isinstance(lane.ended, KeyboardInterrupt | asyncio.CancelledError)
            elif plan in {"fault", "interrupt"} and lane.judge.raised is not None:
                assert lane.ended is lane.judge.raised

    @invariant()
    def no_text_of_a_model_is_at_rest(self) -> None:
        """13: neither a reply nor guidance stands in a record, an outcome, a warning or a log."""
        for lane in self.lanes:
            kept = f"{lane.machine.records!r} {lane.ended!r} {lane.judge.judged!r} {self.log}"
            kept += canonical_json(lane.machine.records).decode()
            if isinstance(lane.ended, Accepted | FellBack | Failed | Cancelled):
                kept += canonical_json(lane.ended).decode()
            assert "<turn-" not in kept
            assert "<guide-" not in kept

    def teardown(self) -> None:
        """10: the same again gives the same bytes. Then leave nothing behind."""
        try:
            if self.lanes:
                self._again()
        finally:
            for lane in self.lanes:
                lane.close()
            logging.getLogger("notarius.attempts").removeHandler(self.handler)

    def _again(self) -> None:
        lane = Asyncio(self.prompt, self.policy, cancelled=self.cancelled)
        try:
            for what, turn, plan in self.done:
                self._act(lane, what, turn, plan)
            first = self.lanes[1]
            assert canonical_json(lane.machine.records) == canonical_json(first.machine.records)
            assert canonical_json(lane.requests) == canonical_json(first.requests)
            assert type(lane.ended) is type(first.ended)
            if isinstance(lane.ended, Accepted | FellBack | Failed | Cancelled):
                assert canonical_json(lane.ended) == canonical_json(first.ended)
        finally:
            lane.close()
        self.SOUGHT.update(record.result for record in lane.machine.records)
        self.SOUGHT.update([type(lane.ended), len(lane.requests)])


def test_every_story_keeps_the_invariants() -> None:
    """Valid, refused, structural and slow replies, errors, cancels, interruptions: in any order."""
    Story.SOUGHT.clear()
    examples = 4 * settings().max_examples
    run_state_machine_as_test(
        Story, settings=settings(max_examples=examples, stateful_step_count=10)
    )
    if examples < ENOUGH:
        return
    results = [*AttemptResult]
    endings = [Accepted, FellBack, Failed, Cancelled, InvariantError, ContractError]
    lengths = range(5)
    assert [x for x in (*results, *endings, *lengths) if x not in Story.SOUGHT] == []
