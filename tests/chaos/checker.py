"""What must hold of a log, and of what was seen beside it, whatever was done to the processes.

Pure: what was observed goes in, violations come out, each with the history it is about.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Final

from tests.chaos import schedule_rules
from tests.chaos.histories import Histories, Step, folded, told
from tests.chaos.observed import Observed, glimpse
from tests.chaos.violation import Violation
from trellis_jobs.model import events as e
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.job_errors import Interruption
from trellis_jobs.model.reducer import RULES
from trellis_jobs.model.states import OVER, JobState

# Ends of an attempt in which its handler has no part: it may have done its work all the same.
_LOST: Final = frozenset(Interruption) - {
    Interruption.PAYLOAD_INVALID,
    Interruption.RESULT_INVALID,
    Interruption.KEY_UNRESOLVABLE,
}
# Of a run. What an operator says of a dead job ends nothing.
_ENDS: Final = {kind for kind, rule in RULES.items() if rule.leads_to in OVER} - {
    EventKind.DISMISSED
}


def check(seen: Observed) -> list[Violation]:
    histories = folded(seen.entries)
    return list(chain.from_iterable(rule(seen, histories) for rule in _RULES))


def _promises_are_kept(seen: Observed, histories: Histories) -> Iterator[Violation]:
    for job_id in sorted(seen.acknowledged - histories.keys()):
        yield Violation("an acknowledged create is in the log", job_id)
    for job_id in sorted(seen.refused & histories.keys()):
        yield Violation("a refused create is not in the log", job_id, told(histories[job_id]))
    for job_id in sorted(seen.mistaken):
        yield Violation("a new job does not exist", job_id, told(histories.get(job_id, ())))


def _all_can_be_read(seen: Observed, _: Histories) -> Iterator[Violation]:
    for message in seen.unreadable:
        yield Violation("every message of the log can be read", message)


def _what_was_read_stays(seen: Observed, _: Histories) -> Iterator[Violation]:
    there = {entry.sequence: glimpse(entry) for entry in seen.entries}
    for sequence, once in seen.glimpsed.items():
        now = there.get(sequence)
        if now != once:
            what = f"{sequence} was {once}, is {now}"
            yield Violation("what was read in the log stays there", what)


def _events_are_legal(_: Observed, histories: Histories) -> Iterator[Violation]:
    for job_id, history in histories.items():
        for step in history:
            where = f"{job_id} at {step.entry.sequence}"
            if step.illegal:
                yield Violation("every event is legal", f"{where}: {step.illegal}", told(history))
            elif step.entry.status != step.after:
                what = f"{where}: says {step.entry.status}, is {step.after}"
                yield Violation("an event tells where it leaves its job", what, told(history))


def _runs_end_once(_: Observed, histories: Histories) -> Iterator[Violation]:
    for job_id, history in histories.items():
        for run, count in _ends_of_runs(history).items():
            if count != 1:
                what = f"{job_id}: the run that began at {run} ended {count} times"
                yield Violation("every run ends exactly once", what, told(history))


def _ends_of_runs(history: Sequence[Step]) -> Counter[int]:
    """How often each run ended, by the sequence that it began at.

    A job that waits for its time ends its wait when it is released, moved or ended. The run of a
    job that is moved to another time is over, too.
    """
    ends = Counter[int]()
    for step in history:
        if isinstance(step.event, e.Described):
            ends[step.entry.sequence] += 0
            if step.before and not step.before.is_over and not step.illegal:
                ends[step.before.run] += 1
        elif step.after and step.event.kind in _ENDS:
            ends[step.after.run] += 1
    return ends


def _no_job_is_early(seen: Observed, histories: Histories) -> Iterator[Violation]:
    """By the time of the server, which stored the event that releases the job."""
    for job_id, history in histories.items():
        for step in history:
            run_at = step.before.next_attempt_at if step.before else None
            stored_at = seen.stored_at.get(step.entry.sequence)
            if step.before is None or step.before.state is not JobState.SCHEDULED:
                continue
            is_release = isinstance(step.event, e.Created)
            if is_release and run_at and stored_at and stored_at < run_at:
                what = f"{job_id} at {step.entry.sequence}: {run_at - stored_at} before its time"
                yield Violation("no job is released early", what, told(history))


def _tries_are_counted(_: Observed, histories: Histories) -> Iterator[Violation]:
    """A try is a `started`, and a job is dead only after the last one."""
    for job_id, history in histories.items():
        for step in history:
            event, used = step.event, step.before.tries if step.before else 0
            where = f"{job_id} at {step.entry.sequence}"
            if isinstance(event, e.Started) and event.tries != used + 1:
                what = f"{where}: try {event.tries} after {used}"
                yield Violation("a try is a start", what, told(history))
            if _is_of_tries(event) and step.after and not step.after.tries_exhausted:
                what = f"{where}: dead after {event.tries} of {step.after.max_tries} tries"
                yield Violation("a job is dead after its last try", what, told(history))


def _snoozes_are_counted(seen: Observed, histories: Histories) -> Iterator[Violation]:
    """A snooze gives its try back, and is counted until the job ends or an operator retries it."""
    for job_id, history in histories.items():
        snoozes, limit = 0, seen.max_snoozes.get(history[0].event.job.job_type)
        for step in history:
            if isinstance(step.event, e.Retried):
                snoozes = 0
            snoozes += step.event.is_snooze
            where = f"{job_id} at {step.entry.sequence}"
            used = step.before.tries - 1 if step.before else 0
            if step.event.is_snooze and step.event.tries != used:
                what = f"{where}: {step.event.tries} tries, not {used}"
                yield Violation("a snooze uses no try", what, told(history))
            if step.after and step.after.snoozes != snoozes:
                what = f"{where}: {step.after.snoozes} snoozes, not {snoozes}"
                yield Violation("snoozes are counted", what, told(history))
            if limit is not None and snoozes > limit:
                what = f"{where}: {snoozes} snoozes, at most {limit}"
                yield Violation("snoozes are limited", what, told(history))


def _is_of_tries(event: e.Event) -> bool:
    """A death, unless the server has a delivery limit."""
    return isinstance(event, e.Dead) and event.error.type != Interruption.DELIVERIES_EXHAUSTED


def _no_key_is_exceeded(seen: Observed, histories: Histories) -> Iterator[Violation]:
    active: dict[tuple[str, str], set[str]] = defaultdict(set)
    for step in sorted(chain(*histories.values()), key=_sequence):
        job_id = step.event.job.job_id
        key = _key(histories[job_id])
        if key is None:
            continue
        if not step.is_active:
            active[key].discard(job_id)
            continue
        active[key].add(job_id)
        if len(active[key]) > seen.limits[key[0]]:
            jobs = sorted(active[key])
            what = f"{len(jobs)} jobs of {key[0]} {key[1]} run at {step.entry.sequence}: {jobs}"
            theirs = sorted(chain(*(histories[job] for job in jobs)), key=_sequence)
            yield Violation("no key is exceeded", what, told(theirs))


def _sequence(step: Step) -> int:
    return step.entry.sequence


def _key(history: Sequence[Step]) -> tuple[str, str] | None:
    begun = history[0].event
    if not isinstance(begun, e.Described) or begun.concurrency is None:
        return None
    return begun.job.job_type, begun.concurrency.key


def _handlers_run_what_was_started(seen: Observed, histories: Histories) -> Iterator[Violation]:
    started = {
        step.event.attempt.id
        for step in chain(*histories.values())
        if isinstance(step.event, e.Started) and step.event.attempt
    }
    for attempt, times in seen.effects.begun.items():
        if attempt not in started:
            yield Violation("a handler runs after its attempt is in the log", attempt)
        if times > 1:
            yield Violation("an attempt runs its handler once", f"{attempt}: {times} times")


def _effects_agree(seen: Observed, histories: Histories) -> Iterator[Violation]:
    """The attempt that did the work completes the job; another that did it had lost the job."""
    for job_id, history in histories.items():
        for attempt, end in _ends_of_attempts(history):
            done = seen.effects.done[attempt]
            is_completed = isinstance(end, e.Completed)
            if is_completed and not done:
                what = f"{job_id} was completed by {attempt}, which has not done it"
                yield Violation("what is completed was done", what, told(history))
            if done and not is_completed and not _is_lost(end):
                what = f"{job_id} was done by {attempt}, which ended with {end.kind}"
                yield Violation(
                    "an attempt that did not complete its job had lost it", what, told(history)
                )
            if end.is_snooze and not seen.effects.snoozed[attempt]:
                what = f"{job_id} was snoozed by {attempt}, whose handler did not say so"
                yield Violation("a handler said what was snoozed", what, told(history))


def _ends_of_attempts(history: Sequence[Step]) -> Iterator[tuple[str, e.Event]]:
    for step in history:
        owner = step.before.owner if step.before else None
        if owner and not step.is_active:
            yield owner.id, step.event


def _is_lost(end: e.Event) -> bool:
    """Another process ended the attempt, or the job."""
    if isinstance(end, e.RetryScheduled | e.Dead | e.Stale):
        return end.error.type in _LOST
    return isinstance(end, e.Decided)


def _keys_are_empty(seen: Observed, _: Histories) -> Iterator[Violation]:
    for state in seen.keys:
        if state.active or state.queued:
            held = [slot.job_id for slot in state.active]
            queued = [waiting.job_id for waiting in state.queued]
            what = f"{state.address.job_type} {state.display}: {held} run, {queued} wait"
            yield Violation("keys are empty in the end", what)


def _no_work_is_left(seen: Observed, histories: Histories) -> Iterator[Violation]:
    for job_id in seen.work_left:
        history = told(histories.get(job_id, ()))
        yield Violation("the work queue is empty in the end", job_id, history)


def _projections_are_the_fold(seen: Observed, _: Histories) -> Iterator[Violation]:
    for daemon, rows in seen.differing.items():
        for row in rows:
            yield Violation("projections are the fold of the log", f"{daemon}: {row}")


def _no_process_crashed(seen: Observed, _: Histories) -> Iterator[Violation]:
    for process in seen.fell:
        yield Violation("no process ends by itself", process)


def _no_process_logged_an_error(seen: Observed, _: Histories) -> Iterator[Violation]:
    for said in seen.outbursts:
        yield Violation("no error is only written down", said)


_RULES: Final[Sequence[Callable[[Observed, Histories], Iterator[Violation]]]] = (
    _promises_are_kept,
    _all_can_be_read,
    _what_was_read_stays,
    _events_are_legal,
    _runs_end_once,
    _no_job_is_early,
    _tries_are_counted,
    _snoozes_are_counted,
    _no_key_is_exceeded,
    _handlers_run_what_was_started,
    _effects_agree,
    schedule_rules.a_tick_has_one_job,
    schedule_rules.no_tick_is_early,
    schedule_rules.no_tick_is_lost,
    schedule_rules.decided_jobs_exist,
    schedule_rules.no_jobs_of_a_schedule_overlap,
    schedule_rules.schedules_go_on,
    _keys_are_empty,
    _no_work_is_left,
    _projections_are_the_fold,
    _no_process_crashed,
    _no_process_logged_an_error,
)
