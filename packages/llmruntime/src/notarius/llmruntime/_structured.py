"""Producers over a chat backend: the loops around `Conversation`, in threads and in asyncio."""

import asyncio
import math
import time

from notarius.contracts import (
    Cancellation,
    ContractError,
    DeadlineExceededError,
    NoReplyError,
    OperationCancelledError,
    Produced,
    ProducerRequest,
    ResponseContract,
)
from notarius.llmruntime._backend import AsyncChatBackend, ChatBackend
from notarius.llmruntime._conversation import Conversation


class _Budgets:
    """The two budgets of a producer. Raises `ContractError` if one is negative."""

    def __init__(self, *, repair_retries: int = 0, transport_retries: int = 0) -> None:
        if repair_retries < 0 or transport_retries < 0:
            message = "the number of retries must be 0 or more"
            raise ContractError(message)
        self._repair_retries = repair_retries
        self._transport_retries = transport_retries

    def _begin(self, request: ProducerRequest, contract: ResponseContract) -> Conversation:
        return Conversation(
            request,
            contract,
            repair_retries=self._repair_retries,
            transport_retries=self._transport_retries,
        )


class _Timer:
    """The time of one request, over all its calls."""

    def __init__(self, timeout_s: float | None) -> None:
        self._end = math.inf if timeout_s is None else time.monotonic() + timeout_s

    def left(self) -> float:
        return self._end - time.monotonic()

    def left_for_call(self) -> float | None:
        left = self.left()
        if left <= 0:
            message = "no time is left for another call"
            raise DeadlineExceededError(message)
        return None if left == math.inf else left


class StructuredProducer(_Budgets):
    """A `Producer` over a blocking backend, with repair and transport budgets of its own."""

    def __init__(
        self, backend: ChatBackend, *, repair_retries: int = 0, transport_retries: int = 0
    ) -> None:
        """Use `backend`; both budgets count calls after the first, 0 turns them off."""
        super().__init__(repair_retries=repair_retries, transport_retries=transport_retries)
        self._backend = backend

    def produce(
        self, request: ProducerRequest, *, contract: ResponseContract, cancellation: Cancellation
    ) -> Produced:
        """Return the candidate or the structural failure.

        Raises `ProviderError`, `DeadlineExceededError` or `OperationCancelledError`.
        """
        talk, timer = self._begin(request, contract), _Timer(request.timeout_s)
        while True:
            try:
                if cancellation.cancelled:
                    message = "the operation was cancelled"
                    raise OperationCancelledError(message)
                reply = self._backend.complete(
                    talk.call(timer.left_for_call()), cancellation=cancellation
                )
                produced = talk.take(reply)
                if produced is not None:
                    return produced
            except NoReplyError as error:
                if isinstance(error, DeadlineExceededError) and talk.last is not None:
                    return talk.last
                wait = talk.wait_after(error, timer.left())
                if wait is None:
                    talk.charge(error)
                    raise
                cancellation.wait(wait)


class AsyncStructuredProducer(_Budgets):
    """An `AsyncProducer` over an asyncio backend, with the same budgets."""

    def __init__(
        self, backend: AsyncChatBackend, *, repair_retries: int = 0, transport_retries: int = 0
    ) -> None:
        """Use `backend`; both budgets count calls after the first, 0 turns them off."""
        super().__init__(repair_retries=repair_retries, transport_retries=transport_retries)
        self._backend = backend

    async def aproduce(self, request: ProducerRequest, *, contract: ResponseContract) -> Produced:
        """Do what `StructuredProducer.produce` does; cancelled as any coroutine is."""
        talk, timer = self._begin(request, contract), _Timer(request.timeout_s)
        while True:
            try:
                reply = await self._backend.acomplete(talk.call(timer.left_for_call()))
                produced = talk.take(reply)
                if produced is not None:
                    return produced
            except NoReplyError as error:
                if isinstance(error, DeadlineExceededError) and talk.last is not None:
                    return talk.last
                wait = talk.wait_after(error, timer.left())
                if wait is None:
                    talk.charge(error)
                    raise
                await asyncio.sleep(wait)
