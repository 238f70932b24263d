"""Change every job that matches a filter: the admin runtime does it, the command follows it.

start → follow, with a bar → (Ctrl-C: stop it, or leave it running) → tell what became of the jobs
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import typer
from rich.console import RenderableType
from rich.progress import ProgressColumn, Task

from jobs_admin.api.client import AdminClient, JobQuery
from jobs_admin.api.errors import Invalid, Unexpected
from jobs_admin.api.views.operations import OperationState, OperationView
from jobs_admin.cli.bulk.verbs import Verb
from jobs_admin.cli.connection import AdminConnectionOptions
from jobs_admin.cli.exit_codes import Exit, exit_of
from jobs_admin.cli.render.counts import how_many
from jobs_admin.cli.render.output import progress_bar, say
from jobs_admin.cli.render.text import Text
from jobs_admin.cli.run import outcome_of
from jobs_admin.operations.page_work import NOT_FOUND
from trellis_jobs.errors import JobsError, NoAnswer, ServiceMissing
from trellis_jobs.worker.signals import handle_signals

POLL_INTERVAL: Final = 0.2
# Another admin runtime may take the operation over; so long the command waits for an answer.
OUTAGE_TIMEOUT: Final = 5.0


@dataclass(frozen=True, slots=True)
class Followed:
    """The operation as it was last seen; `outage`: no admin runtime answers any more."""

    operation: OperationView
    is_interrupted: bool = False
    outage: JobsError | None = None

    @property
    def exit(self) -> Exit:
        if self.outage is not None:
            return exit_of(self.outage)
        is_done = self.operation.state is OperationState.DONE
        return Exit.OK if is_done and not self.operation.refused else Exit.REFUSED

    @property
    def left(self) -> int:
        return max(0, self.operation.total - self.operation.settled)

    @property
    def stopped(self) -> str | None:
        """Why not all jobs were gone through."""
        operation = self.operation
        if self.outage is not None:
            return str(self.outage)
        if operation.state is OperationState.STOPPED:
            by_us = self.is_interrupted
            return "interrupted" if by_us else f"by {operation.stopped_by or 'an operator'}"
        if operation.state is OperationState.FAILED:
            return operation.error or "the operation failed"
        return None if operation.is_over else "left running"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    verb: Verb
    query: JobQuery
    reason: str | None
    rate: float | None
    by: str | None


def carry_out(reach: AdminConnectionOptions, wanted: Wanted) -> Followed:
    """Returns when the operation is over, or is to go on without this command."""
    followed = outcome_of(_start(reach, wanted))
    if not followed.is_interrupted or followed.operation.is_over:
        return followed
    if not _is_to_be_stopped(followed.operation):
        return followed
    return outcome_of(_stop(reach, wanted, followed.operation))


def to_json(followed: Followed, verb: Verb) -> dict[str, Any]:
    operation = followed.operation
    not_found = operation.refused.get(NOT_FOUND, 0)
    told: dict[str, Any] = {
        "verb": verb.name,
        "operation": operation.id,
        "state": operation.state.value,
        "asked": operation.total,
        "done": operation.done,
        "refused": sum(operation.refused.values()) - not_found,
        "notFound": not_found,
        "unclear": 0,
        "reasons": operation.refused,
        "refusals": list(operation.refusals),
    }
    return told if followed.stopped is None else {**told, "stopped": followed.stopped}


def summary(operation: OperationView, verb: Verb) -> Iterator[RenderableType]:
    """What was done first; then what was refused, by reason, with examples."""
    is_all = operation.done == operation.total
    of_all = (
        how_many(operation.done) if is_all else f"{operation.done:,} of {operation.total:,} jobs"
    )
    yield Text(f"{verb.past} {of_all}")
    for reason, jobs in sorted(operation.refused.items(), key=lambda each: -each[1]):
        yield Text(f"{jobs:,} refused: {reason}", "red")
        examples = [each.id for each in operation.refusals if each.reason == reason]
        for job_id in examples:
            yield Text(f"  {job_id}")
        if len(examples) < jobs:
            yield Text(f"  … and {jobs - len(examples):,} more", "dim")


def how_to_go_on(followed: Followed) -> str | None:
    """What is left to do, where the jobs were not all gone through."""
    if followed.stopped is None:
        return None
    name = followed.operation.id
    if followed.operation.is_over:
        as_before = "it was" if followed.left == 1 else "they were"
        return f"stopped: {followed.stopped}; {how_many(followed.left)} left as {as_before}"
    what = "goes on as soon as an admin runtime runs" if followed.outage else "goes on"
    return (
        f"operation {name} {what}: `trellis-jobs operations get {name}` shows it, "
        f"`trellis-jobs operations stop {name}` stops it"
    )


async def _start(reach: AdminConnectionOptions, wanted: Wanted) -> Followed:
    async with reach.admin(by=wanted.by) as admin:
        operation = await admin.operate(
            wanted.verb.operation, wanted.query, reason=wanted.reason, rate=wanted.rate
        )
        say(f"operation {operation.id} started")
        return await _follow(admin, operation, wanted.verb)


async def _stop(
    reach: AdminConnectionOptions, wanted: Wanted, operation: OperationView
) -> Followed:
    async with reach.admin(by=wanted.by) as admin:
        with suppress(Invalid):  # it ended meanwhile
            await admin.stop_operation(operation.id)
        followed = await _follow(admin, operation, wanted.verb)
        return Followed(followed.operation, is_interrupted=True, outage=followed.outage)


async def _follow(admin: AdminClient, operation: OperationView, verb: Verb) -> Followed:
    interrupted = asyncio.Event()
    loop = asyncio.get_running_loop()
    with_inbox_prefix, outage = loop.time(), None
    with (
        progress_bar(verb.going, _Rate()) as bar,
        handle_signals({signal.SIGINT: interrupted.set, signal.SIGTERM: interrupted.set}),
    ):
        while not (operation.is_over or interrupted.is_set()):
            bar(operation.settled, operation.total)
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_INTERVAL):
                    await interrupted.wait()
            try:
                operation = await admin.get_operation(operation.id)
                with_inbox_prefix, outage = loop.time(), None
            except (ServiceMissing, NoAnswer, Unexpected) as error:
                outage = error
                if loop.time() - with_inbox_prefix > OUTAGE_TIMEOUT:
                    break
    return Followed(operation, is_interrupted=interrupted.is_set(), outage=outage)


def _is_to_be_stopped(operation: OperationView) -> bool:
    """Where there is a terminal, the person at it decides."""
    if not sys.stdin.isatty():
        return True
    try:
        return typer.confirm(f"Stop operation {operation.id}?", default=True, err=True)
    except typer.Abort:
        return False


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f}/s")
