"""MaxDeliver advisories: the server gave a work message up, so its job is dead (design D6).

An advisory may be late, repeat, or never come: whatever it says is checked against the message and
the log, and what cannot be dealt with now comes again.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from jobs_admin.upkeep.burials import Exhausted
from trellis_jobs.contract.topology import WORK
from trellis_jobs.errors import JobsError
from trellis_jobs.wire import advisories as wire
from trellis_jobs.wire.advisories import MaxDeliveries

if TYPE_CHECKING:
    from jobs_admin.upkeep.burials import Burials
    from trellis_jobs.jetstream.advisory_feed import Advisory, AdvisoryFeed
    from trellis_jobs.jetstream.work_messages import NoWork, WorkMessage, WorkMessages

log = logging.getLogger(__name__)


def is_about(said: MaxDeliveries, message: WorkMessage | NoWork) -> bool:
    """Sequences begin anew when the stream is recreated: then a later message has this one."""
    return message.stored_at <= said.at


class Advisories:
    def __init__(self, feed: AdvisoryFeed, work: WorkMessages, burials: Burials) -> None:
        self._feed = feed
        self._work = work
        self._burials = burials

    async def run(self) -> None:
        """Without end; each is acknowledged when everything it means has happened."""
        async for advisory in self._feed.advisories():
            try:
                await self._deal_with(advisory)
            except JobsError as error:
                log.warning("an advisory has to wait", extra={"error": str(error)})
                await self._feed.later(advisory)
            else:
                await self._feed.done(advisory)

    async def _deal_with(self, advisory: Advisory) -> None:
        said = wire.decode(advisory.data)
        if not isinstance(said, MaxDeliveries):
            log.warning(
                "not an advisory, ignored", extra={"subject": advisory.subject, "reason": said}
            )
            return
        if said.stream != WORK:
            return
        message = await self._work.at(said.sequence)
        if message is not None and is_about(said, message):
            exhausted = Exhausted(said.consumer, said.deliveries, said.at)
            await self._burials.bury(message, exhausted)
