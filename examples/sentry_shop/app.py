"""Adds the job id to log lines, and reports errors of jobs to Sentry."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import sentry_sdk
from pydantic import BaseModel
from sentry_sdk.integrations.logging import LoggingIntegration

from trellis_jobs import (
    ActiveJob,
    CallNext,
    Fail,
    Jobs,
    NoCurrentJob,
    Retry,
    Service,
    Snooze,
    current_job,
    job,
)

log = logging.getLogger(__name__)


class Order(BaseModel):
    number: int


class ShopJobs(Jobs, service="shop"):
    ship = job(Order, str, max_deliver=3, backoff=[1, 10])


service = Service(ShopJobs)


class JobOfLine(logging.Filter):
    """Adds the job to every log line that a handler, or a library it calls, writes."""

    def filter(self, record: logging.LogRecord) -> bool:
        if not hasattr(record, "job"):  # the worker's log lines have it already
            try:
                record.job = current_job().id
            except NoCurrentJob:
                record.job = "-"
        return True


@service.lifespan
@asynccontextmanager
async def sentry() -> AsyncIterator[None]:
    # The middleware below reports each error once, so log lines are only breadcrumbs.
    quiet = LoggingIntegration(event_level=None)
    sentry_sdk.init(dsn=os.environ.get("SENTRY_DSN"), integrations=[quiet])
    try:
        yield
    finally:
        await asyncio.to_thread(sentry_sdk.flush, 5)


@service.around
async def report_errors(job: ActiveJob[Any], call_next: CallNext) -> Any:
    """Reports the error that ends a job. Errors of earlier tries are in the job's history."""
    with sentry_sdk.isolation_scope() as scope:
        scope.set_tag("job", job.id)
        scope.set_context("job", {"try": job.tries, "of": job.max_tries, "key": job.key})
        try:
            return await call_next(job)
        except (Retry, Snooze):
            raise
        except Exception as error:
            if isinstance(error, Fail) or job.tries >= job.max_tries:
                sentry_sdk.capture_exception(error)
            raise


@service.jobs.ship.handle
async def ship(job: ActiveJob[Order]) -> str:
    log.info("shipping order %d", job.payload.number)
    if job.payload.number == 13:
        raise Fail("no carrier takes order 13")
    if job.payload.number == 0:
        raise ConnectionError("the carrier does not answer")
    return "shipped"
