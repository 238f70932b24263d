"""A stranger writes whatever it likes wherever it may, past a running worker and admin runtime.

Nothing ends: what is no event is shown as ignored, every request is answered, and jobs go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any

import orjson
import pytest

from jobs_admin.api.contract import RPCS
from tests.admin.admin_lab import AdminLab, admin_lab
from tests.fuzz import samples
from tests.fuzz.decoders import REQUESTS
from tests.fuzz.mutations import Mutator
from tests.fuzz.quantity import ASKED, LIVE, SEED
from tests.given import KEY, REPORT
from tests.support.example_service import Task
from tests.support.lab import Probe, probe, worker
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.jetstream.client import api
from trellis_jobs.model.events import EventKind
from trellis_jobs.wire import headers as h

AT_ONCE = 50
ALARM_HEADERS = {
    h.ALARM_SET_AT: ("2026-05-01T12:00:00Z", "9999-12-31T23:59:59-14:00"),
    h.ALARM_AT: ("2026-05-01T12:00:00.5+02:00", "0001-01-01T00:00:00+14:00"),
    h.SCHEDULE: ("@at 2026-05-01T12:00:00Z", "@at 2300-01-01T00:00:00Z", "@every 1s"),
    h.EXPECTED_SEQUENCE: ("0", "17"),
    h.TTL: ("1s", "never"),
}
ADVISED = "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.JOBS_WORK.lab-work"


class Vandal:
    """Everything it sends goes by chance, and the same for the same seed."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._chance = Random(SEED)  # noqa: S311 - the same every time
        self._mutator = Mutator(SEED)
        self._jobs = 0

    async def publish(self) -> None:
        """One message to the log, the work queue, the alarms, the keys, the presence, or the
        advisories.
        """
        make = self._chance.choice(
            (
                self._event,
                self._event,
                self._work,
                self._alarm,
                self._key,
                self._beat,
                self._advisory,
            )
        )
        subject, data, headers = make()
        await self._probe.connection.publish(subject, data, headers=headers)

    def _own(self, seeds: tuple[bytes, ...]) -> tuple[str, bytes]:
        """A message about a job of the lab that was never created."""
        self._jobs += 1
        name = f"J{self._jobs % 40}"
        data = self._chance.choice(seeds)
        for old, new in (
            (REPORT.job_id, name),
            (REPORT.service, "lab"),
            (REPORT.job_type, "work"),
        ):
            data = data.replace(f'"{old}"'.encode(), f'"{new}"'.encode())
        return name, self._mutator.message([data])

    def _event(self) -> tuple[str, bytes, dict[str, str] | None]:
        name, data = self._own((*samples.EVENTS, *samples.FOREIGN))
        kind = self._chance.choice(list(EventKind))
        return f"trellis.jobs.lab.work.{name}.{kind.value}", data, None

    def _work(self) -> tuple[str, bytes, dict[str, str] | None]:
        name, data = self._own(samples.EVENTS)
        run = self._chance.choice(("1", "17", "x", "9" * 20))
        headers = self._chance.choice((None, {h.RUN_SEQUENCE: run}))
        return f"trellis.work.lab.work.{name}", data, headers

    def _alarm(self) -> tuple[str, bytes, dict[str, str] | None]:
        """For a job that exists, or one that does not, or for none; set or come."""
        self._jobs += 1
        name = self._chance.choice((f"J{self._jobs % 40}", "delayed", "J.K", "x" * 300))
        rest = self._chance.choice((f"job.work.{name}", f"job.{name}", f"schedule.work.{name}"))
        kind = self._chance.choice(("due", "alarm"))
        headers = {
            header: self._token(self._mutator.text(seeds))
            for header, seeds in ALARM_HEADERS.items()
            if self._chance.random() < 0.5
        }
        if self._chance.random() < 0.3:
            headers[h.SCHEDULE_TARGET] = f"trellis.due.lab.{rest}"
        return f"trellis.{kind}.lab.{rest}", self._mutator.message(samples.EVENTS), headers or None

    @staticmethod
    def _token(text: str) -> str:
        """A header has one line, which the server can read."""
        return "".join(each for each in text if each.isprintable())[:200]

    def _key(self) -> tuple[str, bytes, dict[str, str] | None]:
        subject = f"$KV.JOBS_KEYS.lab.work.{KEY.hash[:-1]}{self._chance.choice('0123456789')}"
        return subject, self._mutator.message(samples.KEY_STATES), None

    def _beat(self) -> tuple[str, bytes, dict[str, str] | None]:
        subject = f"trellis.jobs.workers.lab.work.{self._chance.choice('abc')}.heartbeat"
        return subject, self._mutator.message(samples.BEATS), None

    def _advisory(self) -> tuple[str, bytes, dict[str, str] | None]:
        return ADVISED, self._mutator.message(samples.ADVISORIES), None

    def request(self) -> tuple[str, bytes]:
        return self._chance.choice(list(RPCS)), self._mutator.message(REQUESTS)


async def many(do: Callable[[], Awaitable[Any]], count: int) -> None:
    for done in range(0, count, AT_ONCE):
        await asyncio.gather(*(do() for _ in range(min(AT_ONCE, count - done))))


async def asked(lab: AdminLab, vandal: Vandal) -> None:
    method, data = vandal.request()
    reply = await lab.stranger.send(method, data)
    told = orjson.loads(reply.data)
    assert isinstance(told, dict)
    assert told.get("type") != "UnexpectedError", (SEED, method, data, told)


@pytest.mark.timeout(900)
async def test_whatever_a_stranger_writes_everything_goes_on(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with (
        worker(server.url, "work") as bench,
        admin_lab(server.url, tmp_path) as lab,
        probe(server.url) as raw,
    ):
        before = await bench.jobs.work.create(Task(do="wait", text="before"))
        await bench.until_running(before)
        delayed = await bench.jobs.work.create(Task(text="delayed"), job_id="delayed", delay=2)
        vandal = Vandal(raw)
        await many(vandal.publish, LIVE)
        await raw.connection.flush()
        rubbish = f"trellis.jobs.lab.work.{before.id}.completed"
        await raw.connection.request(rubbish, b"rubbish", timeout=5)
        await many(lambda: asked(lab, vandal), ASKED)

        after = await bench.jobs.work.create(Task(text="after"))
        assert (await after.wait(timeout=90)).text == "after"
        assert (await delayed.wait(timeout=90)).text == "delayed"
        later = await bench.jobs.work.create(Task(text="later"), delay=1.5)
        assert (await later.wait(timeout=90)).text == "later"
        bench.go.set()
        assert (await before.wait(timeout=90)).text == "before"
        info = await api.request(raw.connection, "STREAM.INFO.JOBS")
        last = int(info["state"]["last_seq"])
        ignored = await lab.client.list_ignored(limit=1, min_seq=last)
        assert ignored.count > LIVE // 10
        assert (await lab.client.get(after.id)).state == "completed"
        health = await lab.client.health()
        assert health.status == "ok", health
        await raw.until_empty()
