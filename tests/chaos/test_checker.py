"""The checker can fail: each rule has a history, made up, that breaks it and no other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from tests import given
from tests.chaos.checker import check
from tests.chaos.observed import Effects, Observed, glimpse
from tests.given import FIRST, REPORT, SECOND
from trellis_jobs.model import events as e
from trellis_jobs.model import values
from trellis_jobs.model.concurrency import Concurrency
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.job import Entry, Job, reduce

KEY = Concurrency(key="acme", key_hash="0" * 64)
OTHER = JobAddress(REPORT.service, REPORT.job_type, "01JQEXAMP1E0000000000000CC")
LOSS = given.error(type="visibility_timeout")


def log(*events: e.Event) -> list[Entry]:
    """With the standing that each event leaves, as ours carry it."""
    jobs: dict[str, Job | None] = {}
    entries = []
    for sequence, event in enumerate(events, 1):
        reduced = reduce(jobs.get(event.job.job_id), Entry(sequence, event))
        jobs[event.job.job_id] = reduced.job
        entries.append(Entry(sequence, event, reduced.job.status if reduced.job else None))
    return entries


def did(begun: Iterable[str] = (FIRST.id,), done: Iterable[str] = (FIRST.id,)) -> Effects:
    return Effects(Counter(begun), Counter(done))


def observed(*events: e.Event, **changes: Any) -> Observed:
    seen = Observed(
        entries=log(*events), acknowledged=frozenset({REPORT.job_id}), limits={REPORT.job_type: 1}
    )
    return replace(seen, **changes)


def rules_broken(seen: Observed) -> set[str]:
    return {violation.rule for violation in check(seen)}


GOOD = (given.created(), given.started(), given.completed())
TAKEN_OVER = (
    given.created(),
    given.started(),
    given.retry_scheduled(error=LOSS),
    given.started(attempt=SECOND, tries=2),
    given.completed(attempt=SECOND, tries=2),
)


def test_a_job_that_is_done_breaks_nothing() -> None:
    assert check(observed(*GOOD, effects=did())) == []


def test_a_lost_attempt_explains_what_was_done_twice() -> None:
    both = (FIRST.id, SECOND.id)
    assert check(observed(*TAKEN_OVER, effects=did(both, both))) == []


def test_a_run_after_the_death_of_another_breaks_nothing() -> None:
    dies = (given.created(max_tries=1), given.started(), given.dead(tries=1))
    again = (
        given.retried(max_tries=1),
        given.started(attempt=SECOND),
        given.dead(tries=1, attempt=SECOND),
        given.dismissed(),
    )
    assert check(observed(*dies, *again, effects=did((FIRST.id, SECOND.id), ()))) == []


def test_a_note_after_the_end_breaks_nothing() -> None:
    assert check(observed(*GOOD, given.stale_completion_ignored(), effects=did())) == []


def test_an_acknowledged_create_that_is_missing() -> None:
    [violation] = check(observed())
    assert violation.rule == "an acknowledged create is in the log"
    assert violation.what == REPORT.job_id


def test_a_refused_create_that_is_there() -> None:
    seen = observed(*GOOD, effects=did(), refused=frozenset({REPORT.job_id}))
    assert rules_broken(seen) == {"a refused create is not in the log"}


def test_a_create_of_a_new_job_that_is_told_it_exists() -> None:
    seen = observed(*GOOD, effects=did(), mistaken=frozenset({REPORT.job_id}))
    assert rules_broken(seen) == {"a new job does not exist"}


def test_a_message_that_is_no_event() -> None:
    seen = observed(*GOOD, effects=did(), unreadable=["12 trellis.jobs.x"])
    assert rules_broken(seen) == {"every message of the log can be read"}


@pytest.mark.parametrize("sequence", [2, 9])
def test_what_was_read_once_and_is_gone_or_different(sequence: int) -> None:
    once = {1: glimpse(log(*GOOD)[0]), sequence: "another event"}
    seen = observed(*GOOD, effects=did(), glimpsed=once)
    assert rules_broken(seen) == {"what was read in the log stays there"}


def test_an_event_that_is_not_legal() -> None:
    seen = observed(given.created(), given.cancelled(tries=0), given.started(), effects=did((), ()))
    [violation] = check(seen)
    assert violation.rule == "every event is legal"
    assert "started is not legal from cancelled" in violation.what
    assert [line.split()[2] for line in violation.history] == ["created", "cancelled", "started"]


def test_an_event_that_says_it_leaves_its_job_elsewhere() -> None:
    created, started, completed = log(*GOOD)
    lying = values.replace(started, status=given.status(*GOOD[:2], tries=2))
    seen = observed(effects=did(), entries=[created, lying, completed])
    assert rules_broken(seen) == {"an event tells where it leaves its job"}


def test_a_job_without_an_end() -> None:
    [violation] = check(observed(given.created(), given.started(), effects=did(done=())))
    assert violation.rule == "every run ends exactly once"
    assert "ended 0 times" in violation.what
    assert len(violation.history) == 2


def test_a_job_with_two_ends() -> None:
    twice = observed(*GOOD, given.completed(), effects=did())
    assert rules_broken(twice) == {"every event is legal", "every run ends exactly once"}


DELAYED = (given.scheduled(run_at=given.after(60)), given.created(run_at=given.after(60)))
RAN = (given.started(), given.completed())


def test_a_delayed_job_that_runs_after_its_time_breaks_nothing() -> None:
    seen = observed(*DELAYED, *RAN, effects=did(), stored_at={1: given.NOON, 2: given.after(60)})
    assert check(seen) == []


def test_a_job_that_is_moved_while_it_waits_breaks_nothing() -> None:
    moved = given.scheduled(at=given.after(3), tries=1, run_at=given.after(60))
    failed = (given.created(), given.started(), given.retry_scheduled(error=LOSS))
    again = (given.started(attempt=SECOND, tries=2), given.completed(attempt=SECOND, tries=2))
    history = (*DELAYED[:1], *failed, moved, given.created(tries=1), *again)
    both = (FIRST.id, SECOND.id)
    assert check(observed(*history, effects=did(both, both))) == []


def test_a_delayed_job_that_is_cancelled_breaks_nothing() -> None:
    seen = observed(*DELAYED[:1], given.cancelled(tries=0), effects=did((), ()))
    assert check(seen) == []


def test_a_delayed_job_that_is_never_released() -> None:
    [violation] = check(observed(*DELAYED[:1], effects=did((), ())))
    assert violation.rule == "every run ends exactly once"
    assert "ended 0 times" in violation.what


def test_a_delayed_job_that_is_released_before_its_time() -> None:
    early = {1: given.NOON, 2: given.after(59.999)}
    [violation] = check(observed(*DELAYED, *RAN, effects=did(), stored_at=early))
    assert violation.rule == "no job is released early"
    assert "0:00:00.001000 before its time" in violation.what


def test_a_delayed_job_that_is_released_twice() -> None:
    """The second release would be a second run of the same job."""
    twice = (*DELAYED, given.started(), DELAYED[1], given.completed())
    assert rules_broken(observed(*twice, effects=did())) == {
        "every event is legal",
        "every run ends exactly once",
    }


def test_a_delayed_job_counts_for_its_key() -> None:
    events = [values.replace(event, concurrency=KEY) for event in DELAYED]
    other = [values.replace(event, job=OTHER) for event in events]
    runs = (given.started(), given.started(job=OTHER, attempt=SECOND))
    ends = (given.completed(), given.completed(job=OTHER, attempt=SECOND))
    both = (FIRST.id, SECOND.id)
    seen = observed(*events, *other, *runs, *ends, effects=did(both, both))
    assert rules_broken(seen) == {"no key is exceeded"}


def test_a_try_that_was_not_counted() -> None:
    events = (given.created(), given.started(tries=2), given.completed(tries=2))
    assert rules_broken(observed(*events, effects=did())) == {"a try is a start"}


def test_a_death_before_the_last_try() -> None:
    events = (given.created(max_tries=3), given.started(), given.dead(tries=1))
    seen = observed(*events, effects=did(done=()))
    assert rules_broken(seen) == {"a job is dead after its last try"}


def side_by_side(limit: int) -> Observed:
    """Two jobs of one key run at once."""
    events = (
        given.created(concurrency=KEY),
        given.created(concurrency=KEY, job=OTHER),
        given.started(),
        given.started(job=OTHER, attempt=SECOND),
        given.completed(),
        given.completed(job=OTHER, attempt=SECOND),
    )
    both = (FIRST.id, SECOND.id)
    return observed(*events, effects=did(both, both), limits={REPORT.job_type: limit})


def test_more_jobs_of_a_key_than_may_run() -> None:
    [violation] = check(side_by_side(1))
    assert violation.rule == "no key is exceeded"
    assert REPORT.job_id in violation.what
    assert OTHER.job_id in violation.what
    assert len(violation.history) == 6


def test_as_many_jobs_of_a_key_as_may_run() -> None:
    assert check(side_by_side(2)) == []


def test_a_handler_that_ran_without_a_start() -> None:
    seen = observed(*GOOD, effects=did((FIRST.id, "unknown")))
    assert rules_broken(seen) == {"a handler runs after its attempt is in the log"}


def test_a_handler_that_ran_twice_in_one_attempt() -> None:
    seen = observed(*GOOD, effects=did((FIRST.id, FIRST.id)))
    assert rules_broken(seen) == {"an attempt runs its handler once"}


def test_a_completed_job_that_no_attempt_did() -> None:
    seen = observed(*TAKEN_OVER, effects=did((FIRST.id, SECOND.id), (FIRST.id,)))
    assert rules_broken(seen) == {"what is completed was done"}


def test_what_was_done_by_an_attempt_that_failed() -> None:
    failed = given.retry_scheduled(error=given.error(type="RuntimeError"))
    events = (*TAKEN_OVER[:2], failed, *TAKEN_OVER[3:])
    both = (FIRST.id, SECOND.id)
    assert rules_broken(observed(*events, effects=did(both, both))) == {
        "an attempt that did not complete its job had lost it"
    }


def test_a_key_that_is_not_empty() -> None:
    for state in (
        given.key_state(active=(given.slot(),)),
        given.key_state(queued=(given.waiting(),)),
    ):
        seen = observed(*GOOD, effects=did(), keys=[state])
        assert rules_broken(seen) == {"keys are empty in the end"}
    assert check(observed(*GOOD, effects=did(), keys=[given.key_state()])) == []


def test_work_that_is_left() -> None:
    seen = observed(*GOOD, effects=did(), work_left=[REPORT.job_id])
    [violation] = check(seen)
    assert violation.rule == "the work queue is empty in the end"
    assert len(violation.history) == 3


def test_a_projection_that_differs() -> None:
    seen = observed(*GOOD, effects=did(), differing={"daemon-0": [], "daemon-1": ["a row"]})
    [violation] = check(seen)
    assert violation.rule == "projections are the fold of the log"
    assert violation.what == "daemon-1: a row"


def test_a_process_that_ended_by_itself() -> None:
    seen = observed(*GOOD, effects=did(), fell=["worker-1 ended with 1"])
    assert rules_broken(seen) == {"no process ends by itself"}


def test_an_error_that_a_process_only_wrote_down() -> None:
    said = "worker-1: a task of the worker failed … KeyError: 'x'"
    seen = observed(*GOOD, effects=did(), outbursts=[said])
    assert rules_broken(seen) == {"no error is only written down"}


SNOOZED = (
    given.created(),
    given.started(),
    given.snoozed(),
    given.started(attempt=SECOND),
    given.completed(attempt=SECOND),
)
SLEEPY = Effects(Counter((FIRST.id, SECOND.id)), Counter((SECOND.id,)), Counter((FIRST.id,)))


def test_a_snooze_breaks_nothing() -> None:
    assert check(observed(*SNOOZED, effects=SLEEPY, max_snoozes={REPORT.job_type: 1})) == []


def test_a_snooze_that_no_handler_wanted() -> None:
    seen = observed(*SNOOZED, effects=replace(SLEEPY, snoozed=Counter()))
    assert rules_broken(seen) == {"a handler said what was snoozed"}


def test_more_snoozes_than_there_may_be() -> None:
    seen = observed(*SNOOZED, effects=SLEEPY, max_snoozes={REPORT.job_type: 0})
    assert rules_broken(seen) == {"snoozes are limited"}


def test_a_snooze_that_takes_more_than_its_try_back() -> None:
    twice = given.snoozed(tries=0, error=given.error(type="snooze", tries=2))
    events = (*TAKEN_OVER[:3], given.started(tries=2), twice, *SNOOZED[3:])
    assert rules_broken(observed(*events, effects=SLEEPY)) == {"a snooze uses no try"}


def test_a_snooze_that_is_not_counted() -> None:
    entries = log(*SNOOZED)
    forgetful = [
        values.replace(each, status=each.status and values.replace(each.status, snoozes=0))
        for each in entries
    ]
    seen = observed(effects=SLEEPY, entries=forgetful)
    assert rules_broken(seen) == {"an event tells where it leaves its job"}
