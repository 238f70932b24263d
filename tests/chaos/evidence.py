"""What is left of a campaign: read from the servers, the notebooks and the projections."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import aclosing
from datetime import datetime
from pathlib import Path
from typing import Final

from jobs_admin.projection.verify import verify
from tests.chaos.actors import Kind, database
from tests.chaos.observed import Effects, Observed
from tests.chaos.outbursts import outbursts_of
from tests.chaos.schedule_witness import ScheduleEnding, ScheduleWitness
from tests.chaos.stage import Stage
from tests.chaos.witness import Witness, entry_in
from tests.chaos.workload import LIMITS, MAX_SNOOZES
from tests.support.facts import until
from trellis_jobs.contract.topology import WORK
from trellis_jobs.environment import utc_now
from trellis_jobs.errors import NotConfirmed
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.client.connection import Connection
from trellis_jobs.jetstream.client.stored_message import moment_of
from trellis_jobs.jetstream.keys.scan import KeyChanges
from trellis_jobs.jetstream.log.feed import LogFeed, LogMessage, LogPosition
from trellis_jobs.model import subjects
from trellis_jobs.model.job import Entry
from trellis_jobs.model.keys.state import KeyAddress, KeyState

_EXAMPLES: Final = 5


async def collect(
    connection: Connection,
    stage: Stage,
    witness: Witness,
    schedules: ScheduleWitness,
    ending: ScheduleEnding,
) -> Observed:
    messages = await whole_log(connection)
    producers = [line for actor in stage.of(Kind.PRODUCER) for line in actor.notes]
    homes = [actor.home for actor in stage.of(Kind.DAEMON)]
    return Observed(
        entries=entries_in(messages),
        stored_at=stored_times(messages),
        unreadable=unreadable_in(messages),
        glimpsed=witness.glimpsed,
        acknowledged=_said("created", producers),
        refused=_said("refused", producers),
        mistaken=_said("exists", producers),
        effects=effects_in(line for actor in stage.of(Kind.WORKER) for line in actor.notes),
        limits=LIMITS,
        max_snoozes=MAX_SNOOZES,
        schedules=[*schedules.versions.values()],
        late=ending.late,
        keys=await busy_keys(connection),
        work_left=await work_left(connection),
        differing={
            home.name: await differing(connection, database(home), utc_now()) for home in homes
        },
        fell=[fall for actor in stage.actors for fall in actor.fell],
        outbursts=outbursts_of(stage.actors),
    )


async def whole_log(connection: Connection) -> list[LogMessage]:
    feed = LogFeed(connection)
    end = (await feed.extent()).last_sequence
    async with aclosing(feed.up_to(LogPosition(), end)) as batches:
        return [message async for batch in batches for message in batch]


def entries_in(messages: Iterable[LogMessage]) -> list[Entry]:
    return [entry for entry in map(entry_in, messages) if entry is not None]


def stored_times(messages: Iterable[LogMessage]) -> dict[int, datetime]:
    return {message.sequence: moment_of(message.stored_ns) for message in messages}


def unreadable_in(messages: Iterable[LogMessage]) -> list[str]:
    return [
        f"{message.sequence} {message.subject}"
        for message in messages
        if entry_in(message) is None and not _is_presence(message)
    ]


async def busy_keys(connection: Connection) -> list[KeyState]:
    scan, states = KeyChanges(connection), dict[KeyAddress, KeyState | None]()

    async def is_scanned() -> bool:
        try:
            states.update((await scan.since_last())[1])
        except NotConfirmed:  # a leader may still change: the next scan finds the same
            return False
        return True

    await until(is_scanned, "all keys are read")
    return [state for state in states.values() if state and (state.active or state.queued)]


async def work_left(connection: Connection) -> list[str]:
    """The jobs that work messages stand for."""
    asked = {"subjects_filter": ">"}
    info = await api.request(connection, f"STREAM.INFO.{WORK}", asked)
    found = [subjects.parse(subject) for subject in info["state"].get("subjects") or ()]
    return [each.job.job_id for each in found if isinstance(each, subjects.WorkSubject)]


def _is_presence(message: LogMessage) -> bool:
    return isinstance(subjects.parse(message.subject), subjects.PresenceSubject)


def _said(word: str, notes: Iterable[Sequence[str]]) -> frozenset[str]:
    return frozenset(line[1] for line in notes if line[0] == word)


def effects_in(notes: Iterable[Sequence[str]]) -> Effects:
    effects = Effects()
    counters: dict[str, Counter[str]] = {
        "begun": effects.begun,
        "done": effects.done,
        "snoozed": effects.snoozed,
    }
    for word, _, attempt in notes:
        counters[word][attempt] += 1
    return effects


async def differing(connection: Connection, path: Path, now: datetime) -> list[str]:
    found = await verify(path, LogFeed(connection), now)
    examples = (example for table in found.tables for example in table.examples[:_EXAMPLES])
    return [f"{each.table} {each.key}: {each.changed()}" for each in examples]
