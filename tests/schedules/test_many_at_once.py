"""A decision about many jobs, whose creation takes longer than the lease of an alarm."""

from __future__ import annotations

from collections import Counter

from tests.schedules.lab import ALARMS, MINUTE, TASK, clock, clock_producer, clock_worker, clockwork
from tests.support.facts import until
from tests.support.fault_proxy import Then, fault_proxy
from trellis_jobs import Every
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.environment import utc_now


async def test_a_process_keeps_its_alarm_while_it_creates_jobs(server: EmbeddedServer) -> None:
    """The reply to the first job is lost, so the others come seconds later."""
    jobs = clock({"pulse": Every(3600, payload=TASK, catch_up="all")})
    async with clockwork(server.url) as found, fault_proxy(server.url) as way:
        async with clock_producer(server.url, jobs):
            pass
        await found.leave_record(jobs, "pulse", decided_until=utc_now() - 190 * MINUTE)
        answers: list[str] = []

        def note(subject: str) -> None:
            if subject.startswith(f"$JS.ACK.{ALARMS}."):
                answers.append(subject)

        way.when_client_sends(rb"HPUB \S+\.created ", lambda: Then.SWALLOW)
        way.on_message(note)
        async with clock_worker(way.url, jobs):
            await found.ring("pulse")
            await found.until_ticks("pulse", 3, deadline=30)
            await until(lambda: 2 in Counter(answers).values(), "one was renewed, and then acked")
