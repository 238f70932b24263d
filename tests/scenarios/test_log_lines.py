"""What a worker logs about its jobs: readable without the extra fields, at the level on-call needs.

Reproduction: a job's death was an `info` line, "attempt settled", without its error.
"""

from __future__ import annotations

import logging
import re
from contextlib import suppress
from datetime import timedelta
from typing import Annotated

import pytest
from pydantic import BaseModel

from trellis_jobs import ActiveJob, Fail, JobEnded, Jobs, Retry, Secret, Service, job
from trellis_jobs.testing import inline

OUTCOMES = "trellis_jobs.worker.outcome_log"


class Task(BaseModel):
    do: str


class SecretTask(BaseModel):
    do: Annotated[str, Secret()]


class BankDown(Exception):
    pass


class BankJobs(Jobs, service="bank"):
    pay = job(Task, max_deliver=2, backoff=[30])
    drop = job(Task, max_deliver=1, dlq=False)
    hide = job(SecretTask, max_deliver=1)


def bank() -> Service[BankJobs]:
    service = Service(BankJobs)

    @service.jobs.pay.handle
    @service.jobs.drop.handle
    async def pay(job: ActiveJob[Task]) -> None:
        match job.payload.do:
            case "fail":
                raise Fail("no such account")
            case "die":
                raise BankDown("503 Service Unavailable")
            case "retry":
                raise Retry("busy", after=timedelta(seconds=90))

    @service.jobs.hide.handle
    async def hide(job: ActiveJob[SecretTask]) -> None:
        raise BankDown(f"cannot use {job.payload.do}")

    return service


@pytest.fixture
def caught(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, logger="trellis_jobs")
    return caplog


async def lines(caught: pytest.LogCaptureFixture, queue: str, does: str) -> list[tuple[str, str]]:
    """Level and message of each line about a job, with its id replaced."""
    async with inline(bank()) as service:
        jobs = service.jobs
        if queue == "hide":
            ref = await jobs.hide.create(SecretTask(do=does))
        else:
            ref = await (jobs.pay if queue == "pay" else jobs.drop).create(Task(do=does))
        with suppress(JobEnded):
            await ref.wait(timeout=5)
    records = [each for each in caught.records if each.name == OUTCOMES]
    assert all(vars(each)["job"] == ref.id for each in records)
    return [(each.levelname, each.getMessage().replace(ref.id, "ID")) for each in records]


async def test_a_job_that_completes_is_one_line(caught: pytest.LogCaptureFixture) -> None:
    assert await lines(caught, "pay", "well") == [("INFO", "job ID of bank/pay completed on try 1")]


async def test_a_death_is_an_error_with_its_cause_and_traceback(
    caught: pytest.LogCaptureFixture,
) -> None:
    retried, died = await lines(caught, "pay", "die")
    assert retried[0] == "WARNING"
    assert re.fullmatch(
        r"job ID of bank/pay failed on try 1 of 2, next try (in .* s|at once): "
        r"BankDown: 503 Service Unavailable",
        retried[1],
    )
    assert died == (
        "ERROR",
        "job ID of bank/pay died after 2 of 2 tries: BankDown: 503 Service Unavailable",
    )
    assert caught.text.count("Traceback (most recent call last)") == 1
    assert 'raise BankDown("503 Service Unavailable")' in caught.text
    [record] = [each for each in caught.records if each.levelno == logging.ERROR]
    assert record.exc_info is not None
    assert record.exc_info[0] is BankDown
    assert vars(record)["error"] == "BankDown: 503 Service Unavailable"


async def test_a_failure_for_good_is_an_error(caught: pytest.LogCaptureFixture) -> None:
    assert await lines(caught, "pay", "fail") == [
        ("ERROR", "job ID of bank/pay failed on try 1, with no further try: Fail: no such account")
    ]
    assert "Traceback" in caught.text


async def test_where_nothing_dies_the_last_try_fails(caught: pytest.LogCaptureFixture) -> None:
    [(level, text)] = await lines(caught, "drop", "die")
    assert (level, text[:55]) == (
        "ERROR",
        "job ID of bank/drop failed on try 1, with no further try"[:55],
    )


async def test_a_retry_that_the_handler_requests_is_a_warning_without_a_traceback(
    caught: pytest.LogCaptureFixture,
) -> None:
    first, _ = await lines(caught, "pay", "retry")
    assert first[0] == "WARNING"
    assert first[1].endswith("Retry: busy")
    assert "Traceback" not in caught.text


async def test_with_debug_a_retry_has_its_traceback(caught: pytest.LogCaptureFixture) -> None:
    caught.set_level(logging.DEBUG, logger="trellis_jobs")
    await lines(caught, "pay", "die")
    assert caught.text.count("Traceback (most recent call last)") == 2


async def test_a_job_with_secrets_has_its_traceback_as_text(
    caught: pytest.LogCaptureFixture,
) -> None:
    """An exception object would quote the secret, and its frames hold the payload."""
    [(level, text)] = await lines(caught, "hide", "hush-hush")
    assert level == "ERROR"
    assert "died after 1 of 1 tries: BankDown: cannot use [secret]\nTraceback" in text
    assert "hush" not in caught.text
    assert not [each for each in caught.records if each.exc_info]
