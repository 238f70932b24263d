"""Make a delivered job ours: append `started`, or find out why not and answer accordingly.

The guard is the read (design D2): the work message says which event it stems from, so `started`
is appended on top of that. Only a refusal leads to a look at the log.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trellis_jobs.jetstream.event_log import Refused
from trellis_jobs.model import events as e
from trellis_jobs.model.attempts import Attempt
from trellis_jobs.model.job_errors import Interruption, JobError
from trellis_jobs.model.preflight import (
    Bury,
    Discard,
    Expire,
    LeaveAlone,
    PutBack,
    Start,
    TakeOver,
    decide,
)
from trellis_jobs.model.settlement import Ack, Answer, Nak, Silence, Term

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trellis_jobs.contract.declaration import JobType
    from trellis_jobs.jetstream.deliveries import Delivery
    from trellis_jobs.model.standing import Head, Standing
    from trellis_jobs.worker.running_job import RunningJob
    from trellis_jobs.worker.tools import Tools

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Claimed:
    head: Head
    attempt: Attempt


@dataclass(frozen=True, slots=True)
class _Step:
    """One guarded append, and what it means once it is in the log."""

    event: e.Event
    attempt: Attempt | None = None
    answer: Answer | None = None


async def claim(
    delivery: Delivery,
    queue: JobType[Any, Any],
    tools: Tools,
    running: Mapping[str, RunningJob],
) -> Claimed | None:
    """Ours, with the `started` event in the log; or None, and the delivery is answered.

    `running` are the attempts of this process: what one of them owns is adopted, not taken over.
    """
    head: Head | None = delivery.head
    while head is not None:
        own = running.get(delivery.job.job_id)
        if own is not None and own.terms.attempt == head.standing.owner:
            await own.meet_again(delivery)
            return None
        step = await _next_step(delivery, head.standing, tools)
        if not isinstance(step, _Step):
            await delivery.answer(step)
            return None
        with tools.telemetry.appending(step.event):
            answer = await tools.events.try_append(head, step.event)
            if isinstance(answer, Refused):
                tools.telemetry.refused()
        if isinstance(answer, Refused):
            head = await tools.events.head_since(delivery.job, answer, shared=queue.shared)
            continue
        tools.telemetry.count(step.event)
        head = answer
        if step.attempt is not None:
            return Claimed(head, step.attempt)
        if step.answer is not None:
            await delivery.answer(step.answer)
            return None
    # The leader itself said that the log holds nothing of this job: it was purged.
    await delivery.answer(Ack())
    return None


async def _next_step(delivery: Delivery, standing: Standing, tools: Tools) -> _Step | Answer:
    decision = decide(standing, delivery.delivered, now=tools.surroundings.now())
    match decision:
        case Start():
            return _start(delivery, standing, tools)
        case TakeOver(lost):
            return await _take_over(delivery, standing, lost, tools)
        case Bury(lost):
            return await _bury(delivery, standing, lost, tools)
        case Expire():
            said = _said(delivery, standing.tries, tools)
            return _Step(e.Expired(**said, by="worker", reason="the deadline passed"), answer=Ack())
        case PutBack(delay):
            return Nak(delay)
        case Discard(reason):
            log.info("work message dropped", extra={"job": delivery.job.job_id, "reason": reason})
            return Ack()
        case LeaveAlone(reason):
            log.info("old delivery ignored", extra={"job": delivery.job.job_id, "reason": reason})
            return Silence()


def _start(delivery: Delivery, standing: Standing, tools: Tools) -> _Step:
    attempt = Attempt(
        tools.surroundings.new_id(),
        tools.instance,
        delivery.delivered.work,
        delivery.delivered.number,
    )
    said = _said(delivery, standing.tries + 1, tools)
    return _Step(e.Started(**said, attempt=attempt), attempt=attempt)


async def _take_over(
    delivery: Delivery, standing: Standing, lost: Attempt | None, tools: Tools
) -> _Step:
    error = await _loss(delivery, standing, lost, tools)
    said = _said(delivery, standing.tries, tools)
    log.warning(
        "a lost attempt is taken over", extra={"job": delivery.job.job_id, "why": error.type}
    )
    return _Step(e.RetryScheduled(**said, attempt=lost, error=error))


async def _bury(
    delivery: Delivery, standing: Standing, lost: Attempt | None, tools: Tools
) -> _Step:
    error = await _loss(delivery, standing, lost, tools)
    said = _said(delivery, standing.tries, tools)
    return _Step(
        e.Dead(**said, attempt=lost, error=error), answer=Term(f"dead after {standing.tries} tries")
    )


async def _loss(
    delivery: Delivery, standing: Standing, lost: Attempt | None, tools: Tools
) -> JobError:
    """Why the attempt did not end: its worker is gone, or it went silent for too long."""
    job = delivery.job
    gone = lost is not None and await tools.presence.is_gone(
        job.service, job.job_type, lost.instance
    )
    kind = Interruption.WORKER_DEATH if gone else Interruption.VISIBILITY_TIMEOUT
    who = f"worker {lost.instance}" if lost else "the worker"
    what = "is gone" if gone else f"did not renew its lease within {tools.ack_wait:g} s"
    return JobError(
        type=kind, message=f"{who} {what}", tries=standing.tries, at=tools.surroundings.now()
    )


def _said(delivery: Delivery, tries: int, tools: Tools) -> e.EventFields:
    return {
        "job": delivery.job,
        "context": delivery.begun.context,
        "at": tools.surroundings.now(),
        "tries": tries,
    }
