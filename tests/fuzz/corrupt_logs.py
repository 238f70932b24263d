"""Stretches of the log in which histories of jobs stand, some of their messages corrupt."""

from __future__ import annotations

from random import Random
from typing import Final

from tests.fuzz import samples
from tests.fuzz.mutations import Mutator
from tests.given import REPORT
from trellis_jobs.jetstream.log.feed import LogMessage
from trellis_jobs.model import subjects
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.wire import headers as h

FIRST_STORED_NS: Final = 1_774_699_200_000_000_000
_SECOND_NS: Final = 10**9
_SPOILT: Final = 0.3


class SpoiltLog:
    """An endless stream of messages with sequences; the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._chance = Random(seed)  # noqa: S311 - the same every time
        self._mutator = Mutator(seed)
        self._sequence = 0
        self._jobs = 0

    def stretch(self, length: int) -> list[LogMessage]:
        messages: list[LogMessage] = []
        while len(messages) < length:
            messages += self.history()
        return messages

    def history(self) -> list[LogMessage]:
        """Of one job that was not there before, in the order of the log or almost."""
        self._jobs += 1
        job = JobAddress(REPORT.service, REPORT.job_type, f"J{self._jobs}")
        told = list(self._chance.choice(samples.HISTORIES))
        if self._chance.random() < _SPOILT:
            told.insert(self._chance.randrange(len(told) + 1), self._chance.choice(told))
        return [self._message(job, kind, data) for kind, data in told]

    def _message(self, job: JobAddress, kind: EventKind, data: bytes) -> LogMessage:
        own = data.replace(REPORT.job_id.encode(), job.job_id.encode())
        if self._chance.random() < _SPOILT:
            own = self._mutator.message([own])
        subject = subjects.lifecycle(job, kind)
        if self._chance.random() < _SPOILT / 10:
            subject = self._mutator.text([subject, *samples.SUBJECTS])
        if self._chance.random() < _SPOILT / 10:
            subject, own = samples.SUBJECTS[len(EventKind)], self._mutator.message(samples.BEATS)
        self._sequence += 1
        stored_ns = FIRST_STORED_NS + self._sequence * _SECOND_NS
        headers = self._chance.choice(samples.HEADERS)
        block = h.block(headers) if headers else b""
        return LogMessage(subject, self._sequence, stored_ns, 0, own, block)
