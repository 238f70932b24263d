"""MaxDeliver advisories: the server gave a work message up, so its job is dead (design D6).

An advisory may be late, repeat, be made up, or never come: whatever it says is checked against the
consumer, the message and the log, and what cannot be dealt with now comes again.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from jobs_admin.maintenance.exhausted_jobs import Exhausted
from trellis_jobs.contract.topology import WORK
from trellis_jobs.errors import JobsError
from trellis_jobs.jetstream.work.messages import InvalidWorkMessage
from trellis_jobs.model import subjects
from trellis_jobs.wire import advisories as wire
from trellis_jobs.wire.advisories import MaxDeliveries

if TYPE_CHECKING:
    from datetime import datetime

    from jobs_admin.maintenance.exhausted_jobs import Burials
    from trellis_jobs.jetstream.work.advisory_feed import Advisory, AdvisoryFeed
    from trellis_jobs.jetstream.work.consumer_info import QueueConsumer, QueueConsumers
    from trellis_jobs.jetstream.work.messages import WorkMessage, WorkMessages

log = logging.getLogger(__name__)


def doubt(said: MaxDeliveries, consumer: QueueConsumer | None) -> str | None:
    """Why the server cannot have said so; None when it can.

    A consumer that is gone gives nothing up: whichever follows it delivers everything anew.
    """
    if consumer is None:
        return "there is no such consumer"
    if consumer.delivery_limit is None:
        return "the consumer has no delivery limit"
    if said.deliveries < consumer.delivery_limit:
        return f"the consumer delivers a message {consumer.delivery_limit} times"
    if said.sequence > consumer.delivered:
        return "the consumer has not delivered this message"
    return None


def is_about(
    consumer: QueueConsumer, message: WorkMessage | InvalidWorkMessage, given_up_at: datetime
) -> bool:
    """Sequences begin anew when the stream is recreated: then a later message has this one."""
    if message.stored_at > given_up_at:
        return False
    if isinstance(message, InvalidWorkMessage):
        return True
    queue = (message.job.service, message.job.job_type)
    return subjects.queue_of(consumer.subject) in (None, queue)


class Advisories:
    def __init__(
        self,
        feed: AdvisoryFeed,
        consumers: QueueConsumers,
        work: WorkMessages,
        burials: Burials,
    ) -> None:
        self._feed = feed
        self._consumers = consumers
        self._work = work
        self._burials = burials

    async def run(self) -> None:
        """Without end; each is acknowledged when everything it means has happened."""
        async for advisory in self._feed.advisories():
            try:
                await self._deal_with(advisory)
            except JobsError as error:
                log.warning(
                    "an advisory could not be handled yet and is tried again: %s",
                    error,
                    extra={"error": str(error)},
                )
                await self._feed.later(advisory)
            else:
                await self._feed.done(advisory)

    async def _deal_with(self, advisory: Advisory) -> None:
        said = wire.decode(advisory.data)
        if not isinstance(said, MaxDeliveries):
            _ignore(advisory, said)
            return
        if said.stream != WORK:
            return
        consumer = await self._consumers.named(said.consumer)
        why_not = doubt(said, consumer)
        if consumer is None or why_not is not None:
            _ignore(advisory, why_not)
            return
        given_up_at = min(said.at, advisory.stored_at)
        message = await self._work.at(said.sequence)
        if message is not None and is_about(consumer, message, given_up_at):
            exhausted = Exhausted(consumer.name, said.deliveries, given_up_at)
            await self._burials.bury(message, exhausted)


def _ignore(advisory: Advisory, why: str | None) -> None:
    log.warning(
        "an advisory on %s is ignored: %s",
        advisory.subject,
        why,
        extra={"subject": advisory.subject, "reason": why},
    )
