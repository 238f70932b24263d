"""What others than workers do to a key: create jobs, create them again, cancel them, tidy up.

Reserve a place in the key, then append `created`; a refusal is checked against the log (design 5).
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from tests.given import cancelled, skipped, waiting
from tests.model.key_world import Steps, World
from trellis_jobs.model.keys.backlog import Admission, Admitted, Replaced, WhenFull, admit
from trellis_jobs.model.keys.slots import forget, withdraw
from trellis_jobs.model.keys.state import KeyState, Waiting
from trellis_jobs.model.states import JobState

ABANDONED_AFTER: Final = timedelta(seconds=60)


def submit(world: World, job: str, when_full: WhenFull) -> Steps:
    place = waiting(job, created_at=world.time(), request_id=world.new_name("request"))
    yield "reserve"
    asked = _ask(world, place, WhenFull.REJECT)
    if not isinstance(asked, Admitted):
        yield from tidy(world, asked.state)
        yield "reserve again"
        asked = _ask(world, place, when_full)
    if isinstance(asked, Replaced):
        yield "skip and create"
        yield from _skip_and_create(world, asked.replaced, place)
    elif isinstance(asked, Admitted):
        yield "create"
        if not world.create(place):
            yield from _withdraw(world, place)


def revive(world: World, job: str) -> Steps:
    yield "look"
    head = world.log.head(job)
    if head is None or head.status.state not in {JobState.FAILED, JobState.DEAD}:
        return
    place = waiting(job, created_at=world.time(), request_id=world.new_name("request"))
    yield "reserve"
    if isinstance(_ask(world, place, WhenFull.REJECT), Admitted):
        yield "create again"
        if not world.create_again(place, head):
            yield from _withdraw(world, place)


def cancel(world: World, job: str) -> None:
    head = world.log.head(job)
    if head is not None and not head.status.is_over:
        world.log.append(job, cancelled(), after=head.sequence)


def tidy(world: World, seen: KeyState) -> Steps:
    """Forget entries of jobs that are over, or that never came to be."""
    yield "look at the log"
    entries = [
        *((slot.job_id, slot.started_at) for slot in seen.active),
        *((queued.job_id, queued.created_at) for queued in seen.queued),
    ]
    gone = [job for job, at in entries if _is_gone(world, job, world.time() - at)]
    yield "forget"
    world.apply(lambda state: forget(state, *gone, seen=seen))


def _ask(world: World, place: Waiting, when_full: WhenFull) -> Admission:
    return world.apply(lambda state: admit(state, place, when_full))


def _skip_and_create(world: World, old: Waiting, place: Waiting) -> Steps:
    """Both or neither; when the old one is on its way already, both jobs are done."""
    head = world.log.head(old.job_id)
    is_new = world.log.head(place.job_id) is None
    if is_new and head and head.status.state in {JobState.PENDING, JobState.RETRY}:
        assert world.log.append(old.job_id, skipped(), after=head.sequence)
    if not world.create(place):
        yield from _withdraw(world, place)


def _withdraw(world: World, place: Waiting) -> Steps:
    yield "withdraw"
    request = place.request_id
    world.apply(lambda state: withdraw(state, place.job_id, request_id=request))


def _is_gone(world: World, job: str, age: timedelta) -> bool:
    status = world.log.status(job)
    return age > ABANDONED_AFTER if status is None else status.is_over
