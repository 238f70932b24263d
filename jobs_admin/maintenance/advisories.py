"""MaxDeliver advisories: the server stopped delivering a work message, so its job is dead (D6).

An advisory may be late, repeated, forged or missing, so it is checked against the consumer, the
message and the log. An advisory that cannot be handled now is delivered again later.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from jobs_admin.maintenance.exhausted_jobs import DeliveryLimitReached
from trellis_jobs.contract.topology import WORK
from trellis_jobs.errors import JobsError
from trellis_jobs.jetstream.work.messages import InvalidWorkMessage
from trellis_jobs.model import subjects
from trellis_jobs.wire import advisories as wire
from trellis_jobs.wire.advisories import MaxDeliveries

if TYPE_CHECKING:
    from datetime import datetime

    from jobs_admin.maintenance.exhausted_jobs import ExhaustedJobs
    from trellis_jobs.jetstream.work.advisory_feed import Advisory, AdvisoryFeed
    from trellis_jobs.jetstream.work.consumer_info import QueueConsumer, QueueConsumers
    from trellis_jobs.jetstream.work.messages import WorkMessage, WorkMessages

log = logging.getLogger(__name__)


def why_invalid(event: MaxDeliveries, consumer: QueueConsumer | None) -> str | None:
    """Return why the server cannot have sent this advisory, or None when it can.

    If the consumer was deleted, its successor delivers all messages again.
    """
    if consumer is None:
        return "the consumer does not exist"
    if consumer.delivery_limit is None:
        return "the consumer has no delivery limit"
    if event.deliveries < consumer.delivery_limit:
        return f"the consumer's delivery limit is {consumer.delivery_limit}"
    if event.sequence > consumer.delivered:
        return "the consumer has not delivered this message"
    return None


def is_about(
    consumer: QueueConsumer, message: WorkMessage | InvalidWorkMessage, given_up_at: datetime
) -> bool:
    """False if the stream was recreated, and another message has this sequence now."""
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
        exhausted_jobs: ExhaustedJobs,
    ) -> None:
        self._feed = feed
        self._consumers = consumers
        self._work = work
        self._exhausted_jobs = exhausted_jobs

    async def run(self) -> None:
        """Handle advisories forever; each is acknowledged after it has been handled."""
        async for advisory in self._feed.advisories():
            try:
                await self._deal_with(advisory)
            except JobsError as error:
                log.warning(
                    "an advisory could not be handled and will be retried: %s",
                    error,
                    extra={"error": str(error)},
                )
                await self._feed.later(advisory)
            else:
                await self._feed.done(advisory)

    async def _deal_with(self, advisory: Advisory) -> None:
        event = wire.decode(advisory.data)
        if not isinstance(event, MaxDeliveries):
            _ignore(advisory, event)
            return
        if event.stream != WORK:
            return
        consumer = await self._consumers.named(event.consumer)
        why_not = why_invalid(event, consumer)
        if consumer is None or why_not is not None:
            _ignore(advisory, why_not)
            return
        given_up_at = min(event.at, advisory.stored_at)
        message = await self._work.at(event.sequence)
        if message is not None and is_about(consumer, message, given_up_at):
            exhausted = DeliveryLimitReached(consumer.name, event.deliveries, given_up_at)
            await self._exhausted_jobs.mark_dead(message, exhausted)


def _ignore(advisory: Advisory, why: str | None) -> None:
    log.warning(
        "ignored an advisory on %s: %s",
        advisory.subject,
        why,
        extra={"subject": advisory.subject, "reason": why},
    )
