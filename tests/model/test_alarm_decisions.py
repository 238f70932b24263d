"""What becomes of an alarm: the log decides, and the alarm only says when to look."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from tests.given import (
    NOON,
    after,
    cancelled,
    created,
    retry_scheduled,
    scheduled,
    started,
    status,
)
from trellis_jobs.model.alarms import (
    EVENT_MAY_FOLLOW,
    LEAD,
    MAX_AHEAD,
    MAX_HOLD,
    CheckLater,
    Drop,
    Hold,
    Release,
    SetAgain,
    alarm_time,
    decide_alarm,
)
from trellis_jobs.model.clock_offset import ServerTime

NEW = timedelta(seconds=1)
OLD = EVENT_MAY_FOLLOW
FAILED_ONCE = (started(), retry_scheduled())
DELAYED = status(scheduled(run_at=after(100)))


def test_an_alarm_without_a_job_waits_for_it_for_a_minute() -> None:
    assert decide_alarm(None, now=NOON, age=NEW, at=NOON) == CheckLater()
    assert decide_alarm(None, now=NOON, age=OLD, at=NOON) == Drop()


def test_a_job_that_is_due_is_released_whatever_the_alarm_says() -> None:
    for at in (after(0), after(100), after(9000)):
        for age in (NEW, OLD):
            assert decide_alarm(DELAYED, now=after(100), age=age, at=at) == Release()


def test_a_job_is_never_released_before_its_time() -> None:
    just_before = after(100) - timedelta(microseconds=1)
    assert decide_alarm(DELAYED, now=just_before, age=OLD, at=after(100)) == Hold(
        timedelta(microseconds=1)
    )


def test_an_alarm_for_an_earlier_time_waits_for_the_move_that_it_may_belong_to() -> None:
    """It comes again before the job is due, so that the job is not late if no move follows."""
    decided = decide_alarm(DELAYED, now=after(10), age=NEW, at=after(10))
    assert decided == CheckLater(timedelta(seconds=90) - LEAD)
    assert decide_alarm(DELAYED, now=after(10), age=OLD, at=after(10)) == SetAgain(after(100))


def test_an_alarm_for_the_time_in_the_log_waits_for_no_other_event() -> None:
    """As on servers that publish every alarm at once."""
    assert decide_alarm(DELAYED, now=after(10), age=NEW, at=after(100)) == SetAgain(after(100))


def test_an_alarm_of_a_job_that_runs_or_has_ended_is_dropped() -> None:
    for history in ([created(), started()], [scheduled(), cancelled(tries=0)]):
        assert decide_alarm(status(*history), now=after(9), age=NEW, at=NOON) == Drop()


def test_an_alarm_of_a_job_that_waits_otherwise_waits_for_the_move_that_it_may_belong_to() -> None:
    """A job that was delayed before, and is released, can be moved again."""
    for history in ([created()], [scheduled(), created()], [scheduled(), created(), *FAILED_ONCE]):
        waiting = status(*history)
        assert decide_alarm(waiting, now=after(9), age=NEW, at=NOON) == CheckLater()
        assert decide_alarm(waiting, now=after(9), age=OLD, at=NOON) == Drop()


@given(st.integers(-10, 20 * 365 * 86400))
def test_the_server_publishes_an_alarm_before_its_time_and_within_ten_years(ahead: int) -> None:
    run_at = after(ahead)
    moment = alarm_time(run_at, NOON)
    if moment is None:
        assert run_at - NOON <= MAX_HOLD
    else:
        assert NOON < moment < run_at
        assert moment <= NOON + MAX_AHEAD


def test_the_time_of_the_server_is_not_known_before_a_message_of_it() -> None:
    assert ServerTime().now(5.0) is None


@given(st.lists(st.tuples(st.floats(0, 600), st.floats(0, 5)), min_size=1, max_size=30))
def test_it_is_never_ahead_of_the_server(messages: list[tuple[float, float]]) -> None:
    """Each message travels for a while. The best of the last minutes counts."""
    known = ServerTime()
    for arrived, at in sorted((at + delay, at) for at, delay in messages):
        known.observe_reply(after(at), arrived)
        now = known.now(arrived)
        assert now is not None
        assert now <= after(arrived)


def test_a_slow_message_does_not_set_it_back() -> None:
    known = ServerTime()
    known.observe_reply(after(10), 10.001)
    known.observe_reply(after(10), 14)
    assert known.now(14) == after(13.999)


def test_what_is_older_than_two_minutes_does_not_count() -> None:
    """The clock of the server was an hour ahead, and is right again."""
    known = ServerTime()
    known.observe_reply(after(3600), 0)
    for minute in range(4):
        known.observe_reply(after(60 * minute), 60 * minute)
    assert known.now(180) == after(180)


def test_an_alarm_that_was_stored_while_the_clock_was_ahead_does_not_count() -> None:
    """The clock of the server was an hour ahead, and was set back before the alarm is received."""
    known = ServerTime()
    known.observe_reply(after(0), 0)
    known.observe_stored(after(3600), 1)
    assert known.now(1) == after(1)
    known.observe_stored(after(2.5), 2)
    assert known.now(2) == after(2.5)
