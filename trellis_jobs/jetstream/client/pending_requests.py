"""Questions that were sent, until they are answered, fail, or are of no interest any more."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from trellis_jobs.jetstream.client.message import Message

SWEEP_INTERVAL: Final = 0.25


class ConnectionLost(Exception):
    """The connection broke, or no answer came: the question may or may not have arrived."""


class NoResponders(Exception):
    """Nobody serves this subject: no such stream, no leader right now, or no JetStream."""


@dataclass(slots=True)
class _Question:
    """`subjects`: it, or they, if several messages ask it; `is_answer`: where not all are."""

    subjects: str
    answer: asyncio.Future[Message]
    deadline: float
    is_answer: Callable[[Message], bool] | None


class PendingRequests:
    """All of a connection share one inbox: an answer finds its question by the token after it."""

    def __init__(self, inbox: str) -> None:
        self.inbox = inbox
        self._loop = asyncio.get_running_loop()
        self._open: dict[str, _Question] = {}
        self._asked = 0
        self._sweeper: asyncio.TimerHandle | None = None

    def next_token(self) -> str:
        self._asked += 1
        return str(self._asked)

    def add(
        self,
        token: str,
        subjects: str,
        timeout: float,
        is_answer: Callable[[Message], bool] | None = None,
    ) -> asyncio.Future[Message]:
        answer: asyncio.Future[Message] = self._loop.create_future()
        deadline = self._loop.time() + timeout
        self._open[token] = _Question(subjects, answer, deadline, is_answer)
        if self._sweeper is None:
            self._sweeper = self._loop.call_later(SWEEP_INTERVAL, self._sweep)
        return answer

    def receive(self, message: Message) -> None:
        token = message.subject[len(self.inbox) + 1 :].partition(".")[0]
        question = self._open.get(token)
        if question is None or (question.is_answer and not question.is_answer(message)):
            return
        del self._open[token]
        if question.answer.done():
            return
        if message.status == "503":
            question.answer.set_exception(NoResponders(question.subjects))
        else:
            question.answer.set_result(message)

    def fail(
        self, because: Callable[[str], Exception], *, about: Callable[[str], bool] = lambda _: True
    ) -> bool:
        """Those about such a subject; False when there are none."""
        failed = [question for question in self._open.values() if about(question.subjects)]
        for question in failed:
            if not question.answer.done():
                question.answer.set_exception(because(question.subjects))
        return bool(failed)

    def close(self) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()

    def _sweep(self) -> None:
        now = self._loop.time()
        for token, question in list(self._open.items()):
            if not question.answer.done() and question.deadline <= now:
                question.answer.set_exception(ConnectionLost(f"no answer from {question.subjects}"))
            if question.answer.done():
                del self._open[token]
        self._sweeper = self._loop.call_later(SWEEP_INTERVAL, self._sweep) if self._open else None
