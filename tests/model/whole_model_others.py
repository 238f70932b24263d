"""The other processes of the model: producers, a canceller, the janitor, operators, both sweeps.

Each decides with the product's own function. A change of two systems takes two steps, and the
process may end between them.
"""

from __future__ import annotations

from jobs_admin.actions import job_actions
from jobs_admin.actions.job_actions import ActionRequest, legal_from
from jobs_admin.maintenance.key_repair import plan_repair
from jobs_admin.maintenance.reconciliation import MarkAttemptLost, PutBack, decide, plan_loss
from tests.given import CONTEXT, NOON, created, waiting
from tests.model.whole_model_server import Habits, append, put_back
from tests.model.whole_model_world import (
    DEADLINE,
    JOBS,
    LATER,
    MAX_TRIES,
    Steps,
    Sweep,
    World,
    key_of,
    now,
)
from trellis_jobs.jetstream.log.event_log import Latest
from trellis_jobs.jetstream.log.expiry import plan_expiry
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.job import Job, Run
from trellis_jobs.model.job_status import Head
from trellis_jobs.model.keys import slots as key_slots
from trellis_jobs.model.keys.backlog import Admitted, WhenFull, admit
from trellis_jobs.model.states import JobState

_ORDER = ActionRequest(by="ann")


def producer_steps(world: World, habits: Habits) -> Steps:
    """producer/admission.py: a place in the key, then `created`."""
    for job, place in enumerate(world.producers):
        if place == "":
            asked = _admitted(world, job)
            yield f"a place is kept for {job}", False, _produced(asked, job, "in")
        elif place == "in":
            event = created(job=JOBS[job], max_tries=MAX_TRIES, deadline=DEADLINE)
            done = append(world, habits, job, None, event)
            assert done is not None
            yield f"{job} is created", False, _produced(done, job, "done")
            if world.may("producer crash"):
                gone = _produced(world, job, "gone").spend("producer crash")
                yield f"the producer of {job} crashes", True, gone


def _admitted(world: World, job: int) -> World:
    asked = admit(world.key, waiting(JOBS[job].job_id), WhenFull.REJECT)
    assert isinstance(asked, Admitted), "there is room for all jobs of the model"
    return world.with_key(asked.state)


def _produced(world: World, job: int, place: str) -> World:
    places = (*world.producers[:job], place, *world.producers[job + 1 :])
    return world._replace(producers=places)


def operator_steps(world: World, habits: Habits) -> Steps:
    """actions/job_actions.py: cancel, dismiss, and retry, which takes a place in the key first."""
    for job, head in enumerate(world.heads):
        if head is None:
            continue
        if world.may("cancel") and head.status.state in legal_from(EventKind.CANCELLED):
            event = job_actions.cancel(_job(job, head), _ORDER, now(world))
            done = append(world, habits, job, head, event)
            assert done is not None
            yield f"{job} is cancelled", True, done.spend("cancel")
        if world.may("dismiss") and head.status.state is JobState.DEAD:
            event = job_actions.dismiss(_job(job, head), _ORDER, now(world))
            done = append(world, habits, job, head, event)
            assert done is not None
            yield f"{job} is dismissed", True, done.spend("dismiss")
        if world.may("retry") and head.status.state in legal_from(EventKind.RETRIED):
            let_in = _admitted(world, job)._replace(operator=job).spend("retry")
            yield f"an operator lets {job} in again", True, let_in
    if world.operator is not None:
        yield from _retried(world, habits, world.operator)


def _retried(world: World, habits: Habits, job: int) -> Steps:
    head, rests = world.heads[job], world._replace(operator=None)
    assert head is not None
    if head.status.state not in legal_from(EventKind.RETRIED):
        left = key_slots.withdraw(world.key, JOBS[job].job_id).state
        yield f"the operator is too late for {job}", False, rests.with_key(left)
        return
    event = job_actions.retry(_job(job, head), _ORDER, now(world))
    done = append(rests, habits, job, head, event)
    assert done is not None
    yield f"{job} is retried", False, done
    if world.may("operator crash"):
        yield f"the operator of {job} crashes", True, rests.spend("operator crash")


def _job(job: int, head: Head) -> Job:
    return Job(
        address=JOBS[job],
        context=CONTEXT,
        status=head.status,
        created_at=NOON,
        updated_at=NOON,
        run=Run(payload={}, began_at=NOON),
    )


def janitor_steps(world: World, habits: Habits) -> Steps:
    if world.may("late"):
        late = world.spend("late")._replace(late=True, due=True)
        yield "the deadline passes", True, late
    for job, head in enumerate(world.heads):
        if head is not None:
            event = plan_expiry(JOBS[job], Latest(head, CONTEXT), now(world))
            if event is not None:
                done = append(world, habits, job, head, event)
                assert done is not None
                yield f"the janitor expires {job}", False, done


def sweep_steps(world: World, habits: Habits) -> Steps:
    """maintenance/reconciliation.py: jobs without a message, seen twice."""
    if not habits.reconciles:
        return
    if world.sweep is not None:
        yield from _swept(world._replace(sweep=None), habits, world.sweep)
        return
    for job, head in enumerate(world.heads):
        has_work = any(message and message.job == job for message in world.work)
        is_coming = any(each == job for each, _ in world.copying)
        is_delayed = head is not None and head.status.state is JobState.SCHEDULED
        if head is None or head.status.is_over or is_delayed or has_work or is_coming:
            continue
        seen = world._replace(sweep=Sweep(job, head.status))
        yield f"the sweep finds no message of {job}", False, seen


def _swept(world: World, habits: Habits, sweep: Sweep) -> Steps:
    job, head = sweep.job, world.heads[sweep.job]
    assert head is not None
    begun = _begun(head)
    if sweep.puts_back:
        yield f"the sweep puts {job} back", False, put_back(world, job, begun)
        return
    match decide(sweep.seen, head.status):
        case PutBack():
            yield f"the sweep puts {job} back", False, put_back(world, job, begun)
        case MarkAttemptLost(lost) if not world.is_held(lost.id):
            event = plan_loss(JOBS[job], Latest(head, CONTEXT), lost, now(world))
            assert event is not None
            done = append(world, habits, job, head, event)
            assert done is not None
            after = done.heads[job]
            assert after is not None
            if not after.status.is_over:
                done = done._replace(sweep=Sweep(job, after.status, puts_back=True))
            yield f"the sweep gives up on {lost.id}", False, done
        case _:
            yield f"the sweep leaves {job} alone", False, world


def _begun(head: Head) -> Head:
    """The event that began the run, as a message of it carries it."""
    status = head.status
    fresh = type(status)(JobState.PENDING, 0, status.max_tries, status.run, status.deadline)
    return Head(status.run, fresh)


def repair_steps(world: World, habits: Habits) -> Steps:
    """maintenance/key_repair.py: the key as it was seen, judged by the log as it is."""
    if not habits.tidies_keys:
        return
    if world.repair is None:
        if _is_left_over(world):
            seen = world._replace(repair=(world.slots, world.queued))
            yield "the repair looks at the key", False, seen
        return
    slots, queued = world.repair
    state, done = key_of(slots, queued), world._replace(repair=None)
    statuses = {job.job_id: world.stands(n) for n, job in enumerate(JOBS[: len(world.heads)])}
    for n, place in enumerate(world.producers):
        if place == "in":  # it has a minute to create its job
            statuses.pop(JOBS[n].job_id)
    expired = frozenset(held.token for held in slots if not world.is_held(held.token))
    left = plan_repair(state, statuses, expired, LATER)
    if left is not None:
        seen_slots = tuple(held for held in slots if held.token in {s.token for s in left.slots})
        judged = key_of(seen_slots, queued)
        done = done.with_key(key_slots.forget(world.key, *left.jobs, seen=judged).state)
    yield "the repair tidies the key", False, done


def _is_left_over(world: World) -> bool:
    """Only then it is worth a look: a look that finds nothing changes nothing."""
    entries = {*(held.job for held in world.slots), *world.queued}
    statuses = [(world.stands(job), world.producers[job]) for job in entries]
    return any(status.is_over if status else place == "gone" for status, place in statuses)
