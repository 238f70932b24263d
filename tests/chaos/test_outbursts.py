"""Errors are found in the output of processes, whichever process wrote them."""

from __future__ import annotations

import asyncio
import logging
from io import StringIO

from jobs_admin.cli.logs import TextLines
from tests.chaos.outbursts import outbursts_in
from trellis_jobs.worker.background_tasks import BackgroundTasks

AS_WORKERS_LOG = logging.Formatter("%(asctime)s %(levelname)s %(message)s")


async def _fail() -> None:
    raise KeyError("x")


async def _log_with(formatter: logging.Formatter) -> str:
    """What a failing task of a worker writes, among others."""
    written = StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        root.warning("before")
        background = BackgroundTasks()
        background.spawn(_fail())
        await asyncio.sleep(0)
        await background.close()
        root.warning("after")
    finally:
        root.removeHandler(handler)
    return written.getvalue()


async def test_an_error_that_only_a_log_tells_of_is_found_in_the_output_of_workers() -> None:
    [said] = outbursts_in(await _log_with(AS_WORKERS_LOG))
    assert "of the worker failed" in said
    assert said.endswith("KeyError: 'x'")


async def test_an_error_that_only_a_log_tells_of_is_found_in_the_output_of_daemons() -> None:
    [said] = outbursts_in(await _log_with(TextLines(coloured=False)))
    assert "of the worker failed" in said
    assert said.endswith("KeyError: 'x'")


def test_warnings_are_no_errors() -> None:
    assert (
        outbursts_in("2026-01-01 10:00:00,000 WARNING disconnected\n12:00:00.000 info    x\n") == []
    )


def test_the_death_of_a_job_is_no_error_of_the_worker() -> None:
    died = "ERROR job 01J of lab/work died after 2 of 2 tries: KeyError: 'x'"
    trace = "Traceback (most recent call last):\nKeyError: 'x'"
    first, second = (
        f"2026-03-28 12:00:00,000 {died}",
        f"2026-03-28 12:00:01,000 ERROR other\n{trace}",
    )
    assert outbursts_in(f"{first}\n{trace}") == []
    assert len(outbursts_in(f"{first}\n{trace}\n{second}")) == 1
