"""Handlers share one database, and every attempt is timed."""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from pydantic import BaseModel

from trellis_jobs import ActiveJob, CallNext, Jobs, Service, current_job, job

log = logging.getLogger(__name__)


class Payment(BaseModel):
    customer: str
    cents: int


class LedgerJobs(Jobs, service="ledger"):
    book = job(Payment, int, max_deliver=3, backoff=[1, 10])


class Ledger:
    """The resource of the handlers. It could also be a connection pool or an HTTP client."""

    def __init__(self, path: str) -> None:
        self._database = sqlite3.connect(path, check_same_thread=False)
        self._lock = threading.Lock()
        self._database.execute("CREATE TABLE IF NOT EXISTS entries (job PRIMARY KEY, cents)")

    def add(self, cents: int) -> int:
        """Adds one entry per job, even if the job is tried several times. Returns the balance."""
        with self._lock, self._database:
            entry = (current_job().id, cents)
            self._database.execute("INSERT OR IGNORE INTO entries VALUES (?, ?)", entry)
            (balance,) = self._database.execute("SELECT sum(cents) FROM entries").fetchone()
        return int(balance)

    def close(self) -> None:
        self._database.close()


service = Service(LedgerJobs)


@service.lifespan
@asynccontextmanager
async def ledger() -> AsyncIterator[Ledger]:
    opened = Ledger(os.environ.get("LEDGER", "ledger.db"))
    try:
        yield opened
    finally:
        opened.close()


@service.around
async def timed(job: ActiveJob[Any], call_next: CallNext) -> Any:
    began = time.perf_counter()
    try:
        return await call_next(job)
    finally:
        log.info("job %s ran for %.3f s", job.id, time.perf_counter() - began)


@service.jobs.book.handle
def book(job: ActiveJob[Payment]) -> int:
    return ledger.get().add(job.payload.cents)
