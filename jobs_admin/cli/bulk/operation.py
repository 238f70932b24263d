"""Change every job that matches a filter: the admin runtime does it, and the command follows it.

start → follow with a progress bar → (Ctrl-C: stop it or leave it running) → print the summary
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

from jobs_admin.api.client import AdminClient
from jobs_admin.api.errors import Invalid, Unexpected
from jobs_admin.api.job_filter import JobFilter
from jobs_admin.api.views.operations import OperationState, OperationView
from jobs_admin.cli.bulk.verbs import Verb
from jobs_admin.cli.connection import AdminConnectionOptions
from jobs_admin.cli.exit_codes import Exit, exit_code_for
from jobs_admin.cli.render.counts import how_many
from jobs_admin.cli.render.output import print_stderr, progress_bar
from jobs_admin.cli.render.text import Text
from jobs_admin.cli.run import run_and_return
from jobs_admin.operations.page_work import NOT_FOUND
from jobs_admin.operations.verbs import CHANGES
from trellis_jobs.errors import JobsError, NoAnswer, ServiceMissing
from trellis_jobs.worker.signals import handle_signals

POLL_INTERVAL: Final = 0.2
# If an admin runtime dies, another one takes over the operation within this time.
OUTAGE_TIMEOUT: Final = 5.0


@dataclass(frozen=True, slots=True)
class FollowedOperation:
    """The last known state of the operation; `outage` is set if no admin runtime answers."""

    operation: OperationView
    is_interrupted: bool = False
    outage: JobsError | None = None

    @property
    def exit(self) -> Exit:
        if self.outage is not None:
            return exit_code_for(self.outage)
        is_done = self.operation.state is OperationState.DONE
        return Exit.OK if is_done and not self.operation.refused else Exit.REFUSED

    @property
    def left(self) -> int:
        return max(0, self.operation.total - self.operation.settled)

    @property
    def stopped(self) -> str | None:
        """Why not all jobs were processed. Returns None when they were."""
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
class OperationRequest:
    verb: Verb
    query: JobFilter
    reason: str | None
    rate: float | None
    by: str | None


def run_operation(options: AdminConnectionOptions, request: OperationRequest) -> FollowedOperation:
    """Returns when the operation has ended, or continues without this command."""
    followed = run_and_return(_start(options, request))
    if not followed.is_interrupted or followed.operation.is_over:
        return followed
    if not _confirm_stop(followed.operation):
        return followed
    return run_and_return(_stop(options, request, followed.operation))


def to_json(followed: FollowedOperation, verb: Verb) -> dict[str, Any]:
    operation = followed.operation
    not_found = operation.refused.get(NOT_FOUND, 0)
    body: dict[str, Any] = {
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
    return body if followed.stopped is None else {**body, "stopped": followed.stopped}


def operation_summary(operation: OperationView) -> Iterator[RenderableType]:
    """What was done, then what was refused, by reason and with examples."""
    total = how_many(operation.total)
    is_all = operation.done == operation.total
    done = CHANGES[operation.verb].participle
    yield Text(f"{done} {total if is_all else f'{operation.done:,} of {total}'}")
    for reason, jobs in sorted(operation.refused.items(), key=lambda each: -each[1]):
        yield Text(f"{jobs:,} refused: {reason}", "red")
        examples = [each.id for each in operation.refusals if each.reason == reason]
        for job_id in examples:
            yield Text(f"  {job_id}")
        if len(examples) < jobs:
            yield Text(f"  … and {jobs - len(examples):,} more", "dim")


def next_step(followed: FollowedOperation) -> str | None:
    """What the user can do if not all jobs were processed. Returns None when they were."""
    if followed.stopped is None:
        return None
    name = followed.operation.id
    if followed.operation.is_over:
        return f"stopped: {followed.stopped}; {how_many(followed.left)} not processed"
    what = "continues as soon as an admin runtime runs" if followed.outage else "continues"
    return (
        f"operation {name} {what}: show it with `trellis-jobs operations get {name}`, stop it "
        f"with `trellis-jobs operations stop {name}`"
    )


async def _start(options: AdminConnectionOptions, request: OperationRequest) -> FollowedOperation:
    async with options.admin(by=request.by) as admin:
        operation = await admin.operate(
            request.verb.operation,
            request.query,
            reason=request.reason,
            rate=request.rate,
            run_at=request.verb.run_at,
        )
        print_stderr(f"operation {operation.id} started")
        return await _follow(admin, operation, request.verb)


async def _stop(
    options: AdminConnectionOptions, request: OperationRequest, operation: OperationView
) -> FollowedOperation:
    async with options.admin(by=request.by) as admin:
        with suppress(Invalid):  # it has ended in the meantime
            await admin.stop_operation(operation.id)
        followed = await _follow(admin, operation, request.verb)
        return FollowedOperation(followed.operation, is_interrupted=True, outage=followed.outage)


async def _follow(admin: AdminClient, operation: OperationView, verb: Verb) -> FollowedOperation:
    interrupted = asyncio.Event()
    loop = asyncio.get_running_loop()
    answered_at, outage = loop.time(), None
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
                answered_at, outage = loop.time(), None
            except (ServiceMissing, NoAnswer, Unexpected) as error:
                outage = error
                if loop.time() - answered_at > OUTAGE_TIMEOUT:
                    break
    return FollowedOperation(operation, is_interrupted=interrupted.is_set(), outage=outage)


def _confirm_stop(operation: OperationView) -> bool:
    """Ask on a terminal; without one, stop the operation."""
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
