"""What must hold of schedules and their jobs, whatever was done to the processes. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import chain, pairwise
from typing import Final

from tests.chaos.histories import Histories, Step, told
from tests.chaos.observed import Observed
from tests.chaos.violation import Violation
from trellis_jobs.model import events as e
from trellis_jobs.model.schedules.address import EPOCH, ScheduleAddress, tick_job_id
from trellis_jobs.model.schedules.definition import CatchUp, Overlap, ScheduleDefinition
from trellis_jobs.model.schedules.firing import fire_time
from trellis_jobs.model.schedules.record import MAX_RUNS, Run, ScheduleRecord
from trellis_jobs.model.schedules.ticks import newest_ticks, ticks_between

_MANY: Final = 10_000
_MICROSECOND: Final = timedelta(microseconds=1)
_ALONE: Final = (Overlap.SKIP, Overlap.CANCEL_RUNNING)


def a_tick_has_one_job(_: Observed, histories: Histories) -> Iterator[Violation]:
    """A job that was triggered has the time of the request, which is never a full second."""
    found: dict[tuple[ScheduleAddress, datetime], list[str]] = defaultdict(list)
    for job_id, (address, tick) in _ticks_of_jobs(histories).items():
        found[address, tick].append(job_id)
    for (address, tick), jobs in found.items():
        if jobs != [tick_job_id(address, tick)] and not tick.microsecond:
            what = f"{address} has the jobs {jobs} for {tick}"
            yield Violation("a tick has exactly one job", what, _told(histories, jobs))


def no_tick_is_early(seen: Observed, histories: Histories) -> Iterator[Violation]:
    """By the time of the server, which stored the first event of the job."""
    definitions = _definitions(seen)
    for job_id, (address, tick) in _ticks_of_jobs(histories).items():
        stored_at = seen.stored_at.get(histories[job_id][0].entry.sequence)
        definition = definitions.get(address)
        is_tick = not tick.microsecond and definition is not None
        due = fire_time(definition, address, tick) if definition and is_tick else tick
        if stored_at and is_tick and stored_at < due:
            what = f"{address}: {job_id} was created {due - stored_at} before {due}"
            yield Violation("no tick has its job early", what, _told(histories, [job_id]))


def no_tick_is_lost(seen: Observed, histories: Histories) -> Iterator[Violation]:
    """Between two versions of a record each tick got a job, or the record says why it has none."""
    for before, after in _successions(seen):
        if after.decided_until < before.decided_until:
            what = f"{after.address}: {after.decided_until} after {before.decided_until}"
            yield Violation("what is decided stays decided", what)
        for tick in _unexplained(before, after, histories):
            what = f"{after.address}: {tick}, decided until {after.decided_until}: {after.runs}"
            yield Violation("no tick is lost", what)


def _unexplained(
    before: ScheduleRecord, after: ScheduleRecord, histories: Histories
) -> Iterator[datetime]:
    if before.definition != after.definition:  # each definition is put once, so none came back
        return
    definition, address, begin = after.definition, after.address, before.decided_until
    planned = {job.job_id for job in after.unfinished}
    is_complete = definition.catch_up is CatchUp.ALL and definition.overlap is Overlap.ALLOW
    explained = set[datetime]()
    if not is_complete:
        begin = max(begin, _known_since(after))
        explained = set(chain(*(_explained_by(run, definition) for run in after.runs)))
    for tick in ticks_between(definition, begin, after.decided_until, _MANY):
        job_id = tick_job_id(address, tick)
        if job_id not in histories and job_id not in planned and tick not in explained:
            yield tick


def _known_since(record: ScheduleRecord) -> datetime:
    """A record has its last runs only. What was before them is not known from it."""
    ticks = [run.tick for run in record.runs if not run.triggered]
    if len(record.runs) < MAX_RUNS:
        return EPOCH
    return min(ticks) - _MICROSECOND if ticks else record.decided_until


def _explained_by(run: Run, definition: ScheduleDefinition) -> Sequence[datetime]:
    if run.skipped is not None:
        return newest_ticks(definition, EPOCH, run.tick, run.count)
    return [run.tick] if run.refused else []


def decided_jobs_exist(seen: Observed, histories: Histories) -> Iterator[Violation]:
    for record in (version.record for version in seen.schedules):
        planned = {job.job_id for job in record.unfinished}
        for run in record.runs:
            is_created = run.job_id is not None and run.job_id not in planned and not run.refused
            if is_created and run.job_id not in histories:
                what = f"{record.address}: {run}"
                yield Violation("a job that a schedule says it created is in the log", what)


def no_jobs_of_a_schedule_overlap(seen: Observed, histories: Histories) -> Iterator[Violation]:
    definitions = _definitions(seen)
    jobs = {
        job_id: address
        for job_id, (address, _) in _ticks_of_jobs(histories).items()
        if address in definitions and definitions[address].overlap in _ALONE
    }
    live: dict[ScheduleAddress, set[str]] = defaultdict(set)
    steps = chain(*(histories[job_id] for job_id in jobs))
    for step in sorted(steps, key=lambda step: step.entry.sequence):
        job_id = step.event.job.job_id
        theirs = live[jobs[job_id]]
        if step.after is None or step.after.is_over:
            theirs.discard(job_id)
            continue
        theirs.add(job_id)
        if len(theirs) > 1:
            what = f"{jobs[job_id]} at {step.entry.sequence}: {sorted(theirs)}"
            yield Violation("no two jobs of a schedule overlap", what, _told(histories, theirs))


def schedules_go_on(seen: Observed, _: Histories) -> Iterator[Violation]:
    for address in seen.late:
        yield Violation("every schedule fires in the end", str(address))


def _successions(seen: Observed) -> Iterator[tuple[ScheduleRecord, ScheduleRecord]]:
    """Versions of one schedule; one that is deleted and made again is another schedule."""
    by_address: dict[ScheduleAddress, list[ScheduleRecord]] = defaultdict(list)
    for version in sorted(seen.schedules, key=lambda version: version.revision):
        by_address[version.record.address].append(version.record)
    for versions in by_address.values():
        for before, after in pairwise(versions):
            if before.created_at == after.created_at:
                yield before, after


def _definitions(seen: Observed) -> Mapping[ScheduleAddress, ScheduleDefinition]:
    """The newest of each. Only those that never change have a jitter or may not overlap."""
    return {version.record.address: version.record.definition for version in seen.schedules}


def _ticks_of_jobs(histories: Histories) -> dict[str, tuple[ScheduleAddress, datetime]]:
    """Of the jobs that schedules created, also those that someone triggered."""
    return {
        job_id: (ScheduleAddress(begun.job.service, begun.job.job_type, begun.schedule), tick)
        for job_id, history in histories.items()
        if isinstance(begun := history[0].event, e.Described)
        and begun.schedule
        and (tick := begun.run_at) is not None
    }


def _told(histories: Histories, jobs: Sequence[str] | set[str]) -> tuple[str, ...]:
    steps: Iterator[Step] = chain(*(histories[job_id] for job_id in jobs))
    return told(sorted(steps, key=lambda step: step.entry.sequence))
