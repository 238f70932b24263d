"""Delayed jobs in the model: alarms, the processes that release jobs, moves, and lost alarms.

An alarm is a message. The server keeps it until the time for which it was set, delivers
it to one process at a time, and again if that one dies. It may deliver it twice, or lose it.
"""

from __future__ import annotations

from typing import Final

from tests.given import NOON, scheduled, waiting
from tests.model.whole_model_server import Habits, append
from tests.model.whole_model_world import (
    DEADLINE,
    JOBS,
    MAX_TRIES,
    RUN_AT,
    Alarm,
    Move,
    Releaser,
    Steps,
    World,
    now,
    said,
)
from trellis_jobs.model.alarms import (
    EVENT_MAY_FOLLOW,
    CheckLater,
    Drop,
    Hold,
    Release,
    SetAgain,
    decide_alarm,
)
from trellis_jobs.model.delays import MOVABLE, RELEASABLE, released
from trellis_jobs.model.keys import slots as key_slots
from trellis_jobs.model.keys.backlog import Admitted, WhenFull, admit
from trellis_jobs.model.states import ENQUEUED, JobState

_NEW: Final = EVENT_MAY_FOLLOW / 2


def alarm_steps(world: World, habits: Habits) -> Steps:
    yield from _time_steps(world)
    yield from _delaying_producer_steps(world, habits)
    yield from _move_steps(world, habits)
    for index, alarm in enumerate(world.alarms):
        yield from _alarm_faults(world, index, alarm)
        yield from _delivery_steps(world, index, alarm)
    for index, releaser in enumerate(world.releasers):
        if releaser is not None:
            yield from ReleaserStep(world, habits, index, releaser).all()
    yield from _repair_steps(world, habits)


def _time_steps(world: World) -> Steps:
    is_awaited = bool(world.alarms) or any(
        head and head.status.state is JobState.SCHEDULED for head in world.heads
    )
    if is_awaited and not world.due:
        yield "the time comes", False, world._replace(due=True)


def _delaying_producer_steps(world: World, habits: Habits) -> Steps:
    """producer/submission.py: the alarm, then `scheduled`."""
    for job, place in enumerate(world.producers):
        alarm = Alarm(job, at_once=False)
        if place == "" and world.may("delay"):
            begun = _produced(world.spend("delay"), job, "delays")
            armed = begun.with_alarm(alarm) if habits.sets_the_alarm_first else begun
            yield f"the alarm of {job} is set", True, armed
        elif place == "delays":
            then = "done" if habits.sets_the_alarm_first else "has no alarm"
            yield f"{job} is scheduled", False, _produced(_scheduled(world, habits, job), job, then)
            yield from _producer_crash(world, job, "gone")
        elif place == "has no alarm":
            late = _produced(world, job, "done").with_alarm(alarm)
            yield f"the alarm of {job} is set, late", False, late
            yield from _producer_crash(world, job, "done")


def _scheduled(world: World, habits: Habits, job: int) -> World:
    event = scheduled(job=JOBS[job], max_tries=MAX_TRIES, deadline=DEADLINE, run_at=RUN_AT)
    done = append(world, habits, job, None, event)
    assert done is not None
    return done


def _producer_crash(world: World, job: int, place: str) -> Steps:
    if world.may("producer crash"):
        gone = _produced(world, job, place).spend("producer crash")
        yield f"the producer of {job} crashes", True, gone


def _produced(world: World, job: int, place: str) -> World:
    return world._replace(producers=(*world.producers[:job], place, *world.producers[job + 1 :]))


def _move_steps(world: World, habits: Habits) -> Steps:
    """producer/job_move.py: the alarm, then `scheduled`, guarded by what was read."""
    if world.move is not None:
        yield from _moving_steps(world, habits, world.move)
        return
    for job, head in enumerate(world.heads):
        state = head.status.state if head else None
        if head is not None and world.may("run now") and state in RELEASABLE:
            begun = world.spend("run now").with_alarm(Alarm(job, at_once=True))
            yield (
                f"an operator lets {job} run now",
                True,
                begun._replace(move=Move(job, True, head)),
            )
        if head is not None and world.may("postpone") and state in MOVABLE and not world.due:
            begun = world.spend("postpone").with_alarm(Alarm(job, at_once=False))
            yield f"an operator postpones {job}", True, begun._replace(move=Move(job, False, head))


def _moving_steps(world: World, habits: Habits, move: Move) -> Steps:
    job, rests = move.job, world._replace(move=None)
    if world.may("operator crash"):
        yield f"who moves {job} crashes", True, rests.spend("operator crash")
    if move.leaves_key:
        left = key_slots.withdraw(world.key, JOBS[job].job_id).state
        yield f"{job} leaves its key", False, rests.with_key(left)
        return
    run_at = NOON if move.at_once else RUN_AT
    tries = move.head.status.tries
    event = scheduled(
        job=JOBS[job], max_tries=MAX_TRIES, deadline=DEADLINE, run_at=run_at, tries=tries
    )
    done = append(rests, habits, job, move.head, event)
    if done is not None:
        is_in_key = move.head.status.state is not JobState.SCHEDULED and not move.at_once
        if is_in_key:
            done = done._replace(move=move._replace(leaves_key=True))
        yield f"{job} is moved", False, done
        return
    newest = world.heads[job]
    assert newest is not None
    if newest.status.state in (RELEASABLE if move.at_once else MOVABLE):
        armed = world.with_alarm(Alarm(job, at_once=move.at_once))
        yield (
            f"{job} has changed: its alarm is set again",
            False,
            armed._replace(move=move._replace(head=newest)),
        )
    else:
        yield f"it is too late to move {job}", False, rests


def _alarm_faults(world: World, index: int, alarm: Alarm) -> Steps:
    if world.may("double alarm"):
        yield (
            f"the alarm of {alarm.job} comes twice",
            True,
            world.spend("double alarm").with_alarm(alarm._replace(out=False)),
        )
    if world.may("lost alarm"):
        lost = world.spend("lost alarm").without_alarm(index)
        yield f"the alarm of {alarm.job} is lost", True, lost


def _delivery_steps(world: World, index: int, alarm: Alarm) -> Steps:
    if alarm.out or not (alarm.at_once or world.due) or None not in world.releasers:
        return
    taken = world.without_alarm(index).with_alarm(alarm._replace(out=True))
    releaser = Releaser(alarm._replace(out=True), "read")
    yield f"a process gets the alarm of {alarm.job}", False, taken.with_releaser(None, releaser)


def _repair_steps(world: World, habits: Habits) -> Steps:
    """maintenance/overdue_alarms.py: the alarm of a job that is overdue is published again."""
    if not habits.repairs_alarms:
        return
    for job, head in enumerate(world.heads):
        is_overdue = head and head.status.state is JobState.SCHEDULED and world.due
        if is_overdue and not any(alarm.job == job for alarm in world.alarms):
            ring = world.with_alarm(Alarm(job, at_once=True))
            yield f"the admin runtime rings the alarm of {job}", False, ring


class ReleaserStep:
    """What a process may do next with the alarm that it has: scheduler/job_release.py."""

    def __init__(self, world: World, habits: Habits, index: int, releaser: Releaser) -> None:
        self.world = world
        self.habits = habits
        self.index = index
        self.releaser = releaser
        self.job = releaser.alarm.job

    def all(self) -> Steps:
        if self.world.may("crash"):
            gone = self._alarm_is_back(self.world.spend("crash"))
            yield f"who has the alarm of {self.job} crashes", True, gone
        match self.releaser.phase:
            case "read":
                yield from self._read()
            case "decide":
                yield from self._decide()
            case "admit":
                yield from self._admit()
            case "append":
                yield from self._append()
            case "cancel":
                yield from self._cancel()

    def _then(
        self, what: str, world: World | None = None, **changes: object
    ) -> tuple[str, bool, World]:
        after = self.releaser._replace(**changes)  # type: ignore[arg-type]
        base = self.world if world is None else world
        return (
            f"who has the alarm of {self.job} {what}",
            False,
            base.with_releaser(self.index, after),
        )

    def _alarm_is_back(self, world: World) -> World:
        """It is delivered again, when its lease is over."""
        alarm = self.releaser.alarm
        done = world.with_releaser(self.index, None)
        if alarm not in done.alarms:
            return done  # it was lost meanwhile
        return done.without_alarm(done.alarms.index(alarm)).with_alarm(alarm._replace(out=False))

    def _acknowledged(self, world: World) -> World:
        done = world.with_releaser(self.index, None)
        alarm = self.releaser.alarm
        if alarm not in done.alarms:
            return done
        return done.without_alarm(done.alarms.index(alarm))

    def _read(self) -> Steps:
        """The newest `scheduled` event, which need not be the newest event of the job."""
        yield self._then("reads the log", phase="decide", head=self.world.planned[self.job])
        older = self.world.older[self.job]
        is_older = older is not None and older.status.state is JobState.SCHEDULED
        if self.world.may("stale") and (is_older or older is None):
            name, _, after = self._then("reads from a replica", phase="decide", head=older)
            yield name, True, after.spend("stale")

    def _decide(self) -> Steps:
        head, alarm = self.releaser.head, self.releaser.alarm
        at = NOON if alarm.at_once else RUN_AT
        age = _NEW if self._event_may_follow() else EVENT_MAY_FOLLOW
        status = None if head is None else head.status
        newest = self.world.heads[self.job]
        match decide_alarm(status, now=now(self.world), age=age, at=at):
            case Release():
                yield self._then("is to release it", phase="admit")
            case Hold():
                pass  # until the time comes
            case CheckLater():
                yield self._named("hands it back"), False, self._alarm_is_back(self.world)
            case SetAgain() | Drop() if head != newest and self.habits.asks_the_leader:
                yield self._then("asks the leader", head=newest)
            case SetAgain():
                again = self._acknowledged(self.world).with_alarm(Alarm(self.job, at_once=False))
                yield self._named("sets it again"), False, again
            case Drop():
                yield self._named("drops it"), False, self._acknowledged(self.world)

    def _named(self, what: str) -> str:
        return f"who has the alarm of {self.job} {what}"

    def _event_may_follow(self) -> bool:
        """A process that lives has set an alarm, and has not written its event yet."""
        if not self.habits.waits_for_the_event:
            return False
        move = self.world.move
        is_moving = move is not None and move.job == self.job and not move.leaves_key
        return is_moving or self.world.producers[self.job] == "delays"

    def _admit(self) -> Steps:
        asked = admit(self.world.key, waiting(JOBS[self.job].job_id), WhenFull.REJECT)
        assert isinstance(asked, Admitted), "there is room for all jobs of the model"
        yield self._then("has a place for it", self.world.with_key(asked.state), phase="append")

    def _append(self) -> Steps:
        head = self.releaser.head
        assert head is not None
        run_at = head.status.next_attempt_at
        assert run_at is not None
        assert run_at <= now(self.world), "a job is released before its time"
        event = scheduled(job=JOBS[self.job], max_tries=MAX_TRIES, deadline=DEADLINE, run_at=run_at)
        release = released(said(self.job, head.status.tries), event)
        before = self.world.stands(self.job)
        done = append(self.world, self.habits, self.job, head, release)
        if done is None:
            yield self._then("is refused", phase="cancel", head=self.world.heads[self.job])
            return
        assert before is not None
        assert before.state is JobState.SCHEDULED, "a job is released twice"
        yield self._named("releases it"), False, self._acknowledged(done)

    def _cancel(self) -> Steps:
        """The place is kept if the job was released by another process meanwhile."""
        status = self.world.stands(self.job)
        key = self.world.key
        if status is None or status.state not in ENQUEUED:
            key = key_slots.withdraw(key, JOBS[self.job].job_id).state
        yield self._then("looks again", self.world.with_key(key), phase="decide")
