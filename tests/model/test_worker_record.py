"""The rules of a worker's record, and what follows from them in any order of writes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis_jobs.model.subjects import WorkerSubject
from trellis_jobs.model.values import replace
from trellis_jobs.model.worker_record import (
    MAX_REPORTED_JOBS,
    Continue,
    DeclaredDead,
    Directive,
    QueueSlots,
    Refusal,
    RegisterAgain,
    Verdict,
    WorkerProfile,
    WorkerRecord,
    WorkerStatus,
    after_refusal,
    beat_interval,
    declare_dead,
    direct,
    is_silent,
    next_beat,
    recovered,
)
from trellis_jobs.model.worker_states import DIRECTIVES, REACHABLE, WorkerState, follow
from trellis_jobs.wire import worker_records as wire

NOW = datetime(2026, 5, 1, tzinfo=UTC)
PROFILE = WorkerProfile(
    service="lab",
    instance="i1",
    hostname="host-3",
    pid=812,
    started_at=NOW,
    queues=(QueueSlots("work", 10), QueueSlots("single", 1)),
    concurrency=11,
    other_queues=("night",),
    version="1.0",
    app_version="1.4.2",
    labels=("eu",),
)
RECORD = WorkerRecord(profile=PROFILE)
DEAD = declare_dead(RECORD, by="an admin", at=NOW, lost={"work": ("a",)})


def directed(record: WorkerRecord, state: WorkerState) -> WorkerRecord:
    changed = direct(record, state, at=NOW, by="ada", reason="deploy")
    assert isinstance(changed, WorkerRecord)
    return changed


@pytest.mark.parametrize("directive", DIRECTIVES)
def test_a_worker_that_terminates_never_comes_back(directive: WorkerState) -> None:
    assert follow(WorkerState.TERMINATE, directive) is WorkerState.TERMINATE


@pytest.mark.parametrize("current", [WorkerState.RUNNING, WorkerState.QUIET])
@pytest.mark.parametrize("directive", DIRECTIVES)
def test_a_running_worker_follows_a_directive(current: WorkerState, directive: WorkerState) -> None:
    assert follow(current, directive) is directive


def test_nothing_follows_after_a_worker_has_terminated() -> None:
    assert REACHABLE[WorkerState.TERMINATED] == frozenset()
    assert {state for state in WorkerState if WorkerState.TERMINATED in REACHABLE[state]} == {
        WorkerState.TERMINATE
    }


@pytest.mark.parametrize("seconds", [1, 3, 25, 30, 3600])
def test_a_worker_is_dead_after_at_least_three_intervals(seconds: int) -> None:
    dead_after = timedelta(seconds=seconds)
    assert beat_interval(dead_after) <= timedelta(seconds=5)
    assert dead_after >= 3 * beat_interval(dead_after)


def test_the_server_keeps_a_record_for_longer_than_a_worker_may_be_silent() -> None:
    for seconds in (1, 25, 3600):
        profile = replace(PROFILE, dead_after=timedelta(seconds=seconds))
        assert replace(RECORD, profile=profile).lifetime > 2 * profile.dead_after


def test_each_directive_has_a_higher_epoch_than_the_last() -> None:
    quiet = directed(RECORD, WorkerState.QUIET)
    resumed = directed(quiet, WorkerState.RUNNING)
    assert (quiet.epoch, resumed.epoch) == (1, 2)
    assert resumed.directive == Directive(
        state=WorkerState.RUNNING, epoch=2, at=NOW, by="ada", reason="deploy"
    )


def test_a_directive_that_was_followed_is_not_written_again() -> None:
    quiet = next_beat(directed(RECORD, WorkerState.QUIET), WorkerStatus(WorkerState.QUIET))
    assert direct(quiet, WorkerState.QUIET, at=NOW, by=None, reason=None) is None
    assert direct(RECORD, WorkerState.RUNNING, at=NOW, by=None, reason=None) is None


def test_a_worker_that_was_resumed_on_its_machine_can_be_quieted_again() -> None:
    quiet = next_beat(directed(RECORD, WorkerState.QUIET), WorkerStatus(WorkerState.RUNNING))
    assert directed(quiet, WorkerState.QUIET).epoch == 2


@pytest.mark.parametrize("state", [WorkerState.RUNNING, WorkerState.QUIET])
def test_a_worker_that_should_terminate_takes_no_other_directive(state: WorkerState) -> None:
    wanted = directed(RECORD, WorkerState.TERMINATE)
    terminating = replace(RECORD, state=WorkerState.TERMINATE)
    for record in (wanted, terminating):
        assert direct(record, state, at=NOW, by=None, reason=None) == Refusal("it is stopping")


@pytest.mark.parametrize("state", DIRECTIVES)
def test_a_worker_that_ended_takes_no_directive(state: WorkerState) -> None:
    stopped = replace(RECORD, state=WorkerState.TERMINATED)
    assert direct(stopped, state, at=NOW, by=None, reason=None) == Refusal("it has stopped")
    assert direct(DEAD, state, at=NOW, by=None, reason=None) == Refusal("it was declared dead")


def test_only_a_worker_that_has_not_ended_can_be_silent() -> None:
    limit = PROFILE.dead_after
    assert is_silent(RECORD, limit)
    assert not is_silent(RECORD, limit - timedelta(microseconds=1))
    assert not is_silent(DEAD, 2 * limit)
    assert not is_silent(replace(RECORD, state=WorkerState.TERMINATED), 2 * limit)


def test_a_refused_beat_finds_a_directive_once() -> None:
    quiet = directed(RECORD, WorkerState.QUIET)
    assert after_refusal(RECORD, (quiet, 7), timedelta()) == Continue(7, quiet.directive)
    assert after_refusal(quiet, (quiet, 8), timedelta()) == Continue(8, None)


def test_a_refused_beat_finds_a_verdict() -> None:
    assert after_refusal(RECORD, (DEAD, 7), timedelta()) == DeclaredDead(DEAD.verdict)


def test_a_record_that_is_gone_is_a_death_only_after_a_long_silence() -> None:
    limit = PROFILE.dead_after
    assert after_refusal(RECORD, None, limit - timedelta(seconds=1)) == RegisterAgain()
    assert after_refusal(RECORD, None, limit) == DeclaredDead(None)


def test_the_record_of_a_recovered_worker_is_removed_soon() -> None:
    assert recovered(DEAD).lifetime < DEAD.lifetime
    assert recovered(RECORD) is RECORD


def test_a_worker_reports_a_bounded_number_of_jobs() -> None:
    many = tuple(map(str, range(MAX_REPORTED_JOBS)))
    beaten = next_beat(
        RECORD, WorkerStatus(WorkerState.RUNNING, {"a": many[1:], "b": many, "c": many})
    )
    assert beaten.active_jobs == MAX_REPORTED_JOBS
    assert set(beaten.active) == {"a", "b"}


TOKENS = st.from_regex(r"[A-Za-z0-9_-]{1,12}", fullmatch=True).filter(
    lambda name: name != "workers"
)
TIMES = st.datetimes(min_value=datetime(2000, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
IDS = st.dictionaries(TOKENS, st.lists(TOKENS, min_size=1, max_size=3).map(tuple), max_size=3)
RECORDS = st.builds(
    WorkerRecord,
    profile=st.builds(
        WorkerProfile,
        service=TOKENS,
        instance=TOKENS,
        hostname=st.text(max_size=20),
        pid=st.integers(0, 2**31),
        started_at=TIMES,
        queues=st.lists(st.builds(QueueSlots, TOKENS, st.integers(0, 100)), max_size=3).map(tuple),
        concurrency=st.integers(0, 1000),
        version=st.none() | st.text(max_size=9),
        app_version=st.none() | st.text(max_size=9),
        labels=st.lists(st.text(max_size=9), max_size=3).map(tuple),
        dead_after=st.integers(1, 10**6).map(lambda ms: timedelta(milliseconds=ms)),
    ),
    state=st.sampled_from(WorkerState),
    beat=st.integers(0, 2**40),
    active=IDS,
    held=IDS,
    directive=st.none()
    | st.builds(
        Directive,
        state=st.sampled_from(DIRECTIVES),
        epoch=st.integers(1, 99),
        at=TIMES,
        by=st.none() | st.text(max_size=9),
        reason=st.none() | st.text(max_size=9),
    ),
    verdict=st.none()
    | st.builds(Verdict, by=st.text(max_size=9), at=TIMES, lost=IDS, is_recovered=st.booleans()),
)


@given(RECORDS)
def test_a_record_is_read_as_it_was_written(record: WorkerRecord) -> None:
    expected = WorkerSubject(record.profile.service, record.profile.instance)
    read = wire.decode(wire.encode(record), expected=expected)
    assert read == record


def test_a_record_under_the_subject_of_another_worker_is_refused() -> None:
    read = wire.decode(wire.encode(RECORD), expected=WorkerSubject("lab", "i2"))
    assert read == "the body names lab/i1, the subject lab/i2"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (b'"state":"asleep"', "state 'asleep' is not known"),
        (b'"state":7', "state must be str, found 7"),
    ],
)
def test_a_record_with_an_unknown_state_is_refused(change: bytes, reason: str) -> None:
    data = wire.encode(RECORD).replace(b'"state":"running"', change)
    assert wire.decode(data, expected=WorkerSubject("lab", "i1")) == reason


def test_a_worker_cannot_be_directed_to_be_terminated() -> None:
    data = wire.encode(directed(RECORD, WorkerState.QUIET))
    data = data.replace(b'"state":"quiet"', b'"state":"terminated"')
    read = wire.decode(data, expected=WorkerSubject("lab", "i1"))
    assert read == "a worker cannot be directed to be terminated"


@given(
    st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "ignore"))
)
def test_any_bytes_are_a_record_or_a_reason(data: bytes) -> None:
    assert isinstance(wire.decode(data, expected=WorkerSubject("lab", "i1")), str)
