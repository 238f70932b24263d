"""A log filled with finished jobs, faster than they could be worked off.

The events are the runtime's own, guards included. One writer knows the sequences in advance, so it
need not wait for each answer: one event that the server refused would move all that follow.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

import orjson

from benchmarks.scale.server import prepare
from benchmarks.stage import Look, connected, until, work_state
from benchmarks.workload import OURS, QUEUE, templates
from trellis_jobs.contract.topology import LOG, WORK
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.client.connection import Connection
from trellis_jobs.model import subjects
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.wire import headers as h

AT_ONCE: Final = 1_000
EVENTS: Final = templates()
KINDS: Final = (EventKind.CREATED, EventKind.STARTED, EventKind.COMPLETED)
_MADE_FOR: Final = orjson.loads(EVENTS[EventKind.CREATED].data)["jobId"].encode()


async def fill(url: str, first: int, jobs: int) -> None:
    """Jobs with these numbers are completed, and their work messages gone."""
    await prepare(url)
    async with connected(url) as connection:
        last = (await _log_state(connection))["last_seq"]
        queued = (await work_state(connection))["last_seq"] + jobs
        await _write_all(connection, range(first, first + jobs), last)
        await until(url, _has_queued(queued))
        await api.request(connection, f"STREAM.PURGE.{WORK}")


async def jobs_in_log(url: str) -> int:
    """By its messages: each job is over, and its worker's presence is a handful."""
    async with connected(url) as connection:
        return (await _log_state(connection))["messages"] // len(KINDS)


def address(number: int) -> JobAddress:
    return JobAddress(OURS, QUEUE.name, f"{number:026d}")


async def _write_all(connection: Connection, numbers: range, last: int) -> None:
    """Only the end of a portion is confirmed, and with it that the sequences are as foreseen."""
    remaining = iter(numbers)
    while some := list(islice(remaining, AT_ONCE)):
        *messages, ending = _messages(some, last)
        for subject, data, headers in messages:
            await connection.publish(subject, data, headers=headers)
        last += len(messages) + 1
        assert await _confirmed(connection, *ending) == last


def _messages(numbers: list[int], last: int) -> Iterator[tuple[str, bytes, dict[str, str]]]:
    """Of jobs that go through their states together; each event is guarded by the one before."""
    for step, kind in enumerate(KINDS):
        template = EVENTS[kind]
        for place, number in enumerate(numbers):
            job = address(number)
            newest = last + 1 + place + (step - 1) * len(numbers) if step else 0
            guard = {h.EXPECTED_SEQUENCE: str(newest), h.EXPECTED_SUBJECT: subjects.history(job)}
            data = template.data.replace(_MADE_FOR, job.job_id.encode())
            yield subjects.lifecycle(job, kind), data, {**template.headers, **guard}


async def _confirmed(
    connection: Connection, subject: str, data: bytes, headers: dict[str, str]
) -> int:
    answer = await connection.request(subject, data, headers=headers)
    return int(orjson.loads(answer.data)["seq"])


def _has_queued(last: int) -> Look:
    async def is_so(connection: Connection) -> bool:
        return (await work_state(connection))["last_seq"] >= last

    return is_so


async def _log_state(connection: Connection) -> dict[str, int]:
    state: dict[str, int] = (await api.request(connection, f"STREAM.INFO.{LOG}"))["state"]
    return state
