"""Names, ids, traces and subjects: what a job is called everywhere."""

from __future__ import annotations

import pytest
from hypothesis import given as forall
from hypothesis import strategies as st
from ulid import ULID

from tests.given import CONTEXT, REPORT
from trellis_jobs.errors import InvalidToken
from trellis_jobs.model import subjects
from trellis_jobs.model.attempts import work_identity
from trellis_jobs.model.context import fresh_traceparent, is_traceparent
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.identity import (
    MAX_TOKEN_LENGTH,
    JobAddress,
    check_service,
    check_token,
    ulid,
)
from trellis_jobs.model.subjects import LifecycleSubject, PresenceSubject, WorkSubject

TOKENS = st.from_regex(r"[A-Za-z0-9_-]{1,12}", fullmatch=True)
SERVICES = TOKENS.filter(lambda name: name != "workers")
MOMENTS = st.integers(0, 2**47)
RANDOMNESS = st.integers(0, 2**80 - 1)

NOT_TOKENS = ["", "a.b", "a b", "a*", ">", "a/b", "é", "a\n", "٣", "$KV", "a:b", " "]


@pytest.mark.parametrize("name", NOT_TOKENS)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_name_that_is_not_one_token_of_a_subject_is_refused_and_named(
    name: str, place: int
) -> None:
    names = ["documents", "render-report", "01JQ"]
    names[place] = name
    with pytest.raises(InvalidToken) as refused:
        JobAddress(*names)
    assert refused.value.value == name
    assert refused.value.field == ("service", "job type", "job id")[place]
    assert repr(name) in str(refused.value)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_name_too_long_for_the_server_is_refused_in_few_words(place: int) -> None:
    names = ["documents", "render-report", "01JQ"]
    names[place] = "x" * MAX_TOKEN_LENGTH
    assert getattr(JobAddress(*names), ("service", "job_type", "job_id")[place]) == names[place]
    names[place] = "x" * 5000
    with pytest.raises(InvalidToken, match="it has 5000 characters, the maximum is 128") as refused:
        JobAddress(*names)
    assert len(str(refused.value)) < 250


def test_a_long_text_that_is_no_name_is_not_quoted_in_full() -> None:
    with pytest.raises(InvalidToken) as refused:
        check_token("job id", "a b" * 40)
    assert len(str(refused.value)) < 200


def test_no_service_may_be_called_like_the_presence_family() -> None:
    with pytest.raises(InvalidToken, match=r"'workers'.*reserved for worker heartbeats"):
        JobAddress("workers", "render-report", "01JQ")
    assert check_service("worker") == "worker"


@forall(TOKENS)
def test_letters_digits_dashes_and_underscores_make_a_token(name: str) -> None:
    assert check_token("job id", name) == name


@forall(MOMENTS, MOMENTS, RANDOMNESS, RANDOMNESS)
def test_ids_sort_by_the_moment_they_were_made(one: int, two: int, first: int, second: int) -> None:
    if one != two:
        assert (ulid(one, first) < ulid(two, second)) == (one < two)


@forall(MOMENTS, RANDOMNESS)
def test_an_id_is_a_token_of_26_characters_that_says_when_and_is_reproducible(
    moment: int, randomness: int
) -> None:
    made = ulid(moment, randomness)
    assert len(made) == 26
    assert check_token("job id", made) == made
    assert made == ulid(moment, randomness)
    assert ULID.from_str(made).bytes == moment.to_bytes(6) + randomness.to_bytes(10)


@forall(st.integers(0, 2**192 - 1))
def test_work_without_a_trace_gets_a_valid_sampled_trace(randomness: int) -> None:
    made = fresh_traceparent(randomness)
    assert made.endswith("-01")
    assert is_traceparent(made) == (randomness >> 64 != 0 and randomness % 2**64 != 0)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\n",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
    ],
)
def test_what_is_no_traceparent_is_not_taken_for_one(text: str) -> None:
    assert not is_traceparent(text)


def test_the_trace_id_is_the_middle_of_the_traceparent() -> None:
    assert is_traceparent(CONTEXT.traceparent)
    assert CONTEXT.trace_id == "4bf92f3577b34da6a3ce929d0e0e4736"


def test_a_work_message_is_named_by_sequence_and_stored_time() -> None:
    assert work_identity(41, 7) == "41@7"
    assert work_identity(41, 7) != work_identity(41, 8)


@pytest.mark.parametrize("kind", EventKind)
def test_the_subject_of_an_event_reads_back_as_what_it_was_built_from(kind: EventKind) -> None:
    subject = subjects.lifecycle(REPORT, kind)
    assert subjects.parse(subject) == LifecycleSubject(REPORT, kind)
    assert len(subject.split(".")) == 6


@forall(SERVICES, TOKENS, TOKENS, st.sampled_from(EventKind))
def test_every_subject_we_build_is_one_we_can_read(
    service: str, job_type: str, token: str, kind: EventKind
) -> None:
    address = JobAddress(service, job_type, token)
    assert subjects.parse(subjects.lifecycle(address, kind)) == LifecycleSubject(address, kind)
    assert subjects.parse(subjects.work(address)) == WorkSubject(address)
    assert subjects.parse(subjects.presence(service, job_type, token)) == PresenceSubject(
        service, job_type, token
    )


def test_the_subjects_are_those_of_the_design() -> None:
    job_id = REPORT.job_id
    assert subjects.lifecycle(REPORT, EventKind.STALE_COMPLETION_IGNORED) == (
        f"trellis.jobs.documents.render-report.{job_id}.staleCompletionIgnored"
    )
    assert subjects.history(REPORT) == f"trellis.jobs.documents.render-report.{job_id}.>"
    assert subjects.work(REPORT) == f"trellis.work.documents.render-report.{job_id}"
    assert subjects.work_of_type("documents", "render-report") == (
        "trellis.work.documents.render-report.*"
    )
    assert subjects.of_kind("documents", "render-report", EventKind.CANCELLED) == (
        "trellis.jobs.documents.render-report.*.cancelled"
    )
    assert subjects.of_any_job(EventKind.CREATED) == "trellis.jobs.*.*.*.created"
    assert subjects.of_any_job_in_a_lane(EventKind.CREATED) == "trellis.jobs.*.*.*.*.created"
    assert subjects.presence("documents", "render-report", "pod-7") == (
        "trellis.jobs.workers.documents.render-report.pod-7.heartbeat"
    )


@pytest.mark.parametrize(
    "subject",
    [
        "",
        ".",
        "trellis",
        "trellis.jobs.documents.render-report.01JQ",
        "trellis.jobs.documents.render-report.01JQ.invented",
        "trellis.jobs.documents.render-report.01JQ.CREATED",
        "trellis.jobs.documents.render-report.01JQ.created.more",
        "trellis.jobs.documents.render-report.01JQ.p1.created",
        "trellis.work.documents.render-report.01JQ.p1",
        "trellis.jobs.workers.render-report.01JQ.created",
        "trellis.jobs.documents..01JQ.created",
        "trellis.jobs.*.*.*.created",
        "trellis.jobs.workers.workers.render-report.pod-7.heartbeat",
        "trellis.jobs.workers.documents.render-report.pod-7.created",
        "trellis.control.jobs.workers.workers.pod-7",
        "trellis.control.jobs.workers.documents.pod 7",
        "trellis.control.jobs.workers.documents.pod-7.more",
        "trellis.jobs.workers.documents.render-report.pod 7.heartbeat",
        "trellis.work.documents.render-report",
        "trellis.work.workers.render-report.01JQ",
        "other.jobs.documents.render-report.01JQ.created",
        "$JS.API.INFO",
    ],
)
def test_a_subject_that_is_not_ours_is_not_parsed(subject: str) -> None:
    assert subjects.parse(subject) is None


@forall(st.text(max_size=60))
def test_any_text_can_be_asked_whether_it_is_a_subject_of_ours(text: str) -> None:
    assert subjects.parse(text) is None or text.startswith("trellis.")
