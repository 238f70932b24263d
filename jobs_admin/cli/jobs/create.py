"""`trellis-jobs jobs create`: create a job in any queue, by the same rules as its service does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Final, TypeVar

import typer

from jobs_admin.api.client import REQUEST_TIMEOUT, AdminClient
from jobs_admin.api.errors import CONTRACT_ISSUE, NO_METHOD, Denied, Invalid, NotFound
from jobs_admin.api.views.creation import (
    CreatedJobView,
    CreationOutcome,
    CreationPreview,
    WouldBe,
)
from jobs_admin.cli.connection import DEFAULT_TIMEOUT, ConnectionOptions
from jobs_admin.cli.exit_codes import Exit
from jobs_admin.cli.job_reader.log_entries import follow_until_ended, job_timeout
from jobs_admin.cli.job_reader.reader import JobReader
from jobs_admin.cli.jobs.create_request import (
    CreateCommand,
    CreateOptions,
    arguments_of,
    read_command,
)
from jobs_admin.cli.jobs.watch import watch_until_ended
from jobs_admin.cli.queue_contract import ContractSource
from jobs_admin.cli.queue_names import QueueName
from jobs_admin.cli.render.output import (
    Output,
    present_fields,
    print_json,
    print_stderr,
    print_text,
)
from jobs_admin.cli.render.times import stamp
from jobs_admin.cli.run import run
from jobs_admin.cli.run_time import RunTimeOptions
from jobs_admin.creation.job_creator import JobCreator
from jobs_admin.creation.job_request import JobRequest
from trellis_jobs.contract.declaration import JobType
from trellis_jobs.environment import Environment
from trellis_jobs.errors import (
    FullKey,
    JobExists,
    JobsError,
    KeyBusy,
    NotPermitted,
    QueueFull,
    ServiceMissing,
)
from trellis_jobs.jetstream.alarms.alarms import Alarms
from trellis_jobs.jetstream.client.connection import Connection
from trellis_jobs.jetstream.log.event_log import EventLog
from trellis_jobs.jetstream.setup.features import detect_features
from trellis_jobs.jetstream.work.queues import find_queue
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.job import Job
from trellis_jobs.model.json_values import Json
from trellis_jobs.model.keys.backlog import Refusal
from trellis_jobs.model.redaction import redacted
from trellis_jobs.model.states import JobState

T = TypeVar("T")

_NOT_CREATED: Final = frozenset({WouldBe.REJECT, WouldBe.EXISTS})


def create_job(
    source: ContractSource,
    output: Output,
    options: ConnectionOptions,
    given: CreateOptions,
    run_time: RunTimeOptions,
    queue: Annotated[
        str | None, typer.Argument(metavar="QUEUE", help="A queue, as service/type.")
    ] = None,
    payload: Annotated[
        str | None,
        typer.Argument(metavar="JSON", help="The payload; @FILE reads a file, - reads stdin."),
    ] = None,
) -> None:
    """Create a job in any queue.

    The admin runtime creates it, from the contract that the queue's workers publish. If no admin
    runtime answers, or the contract is read from the service's code (--app) or from a manifest
    (--contract), the command creates the job itself, and needs the permissions of the service.
    """
    now = datetime.now(UTC)
    command = read_command(queue, payload, given, run_time.moment(now), now)
    source.check()
    run(_create(options, source, command, given, output))


async def _create(
    options: ConnectionOptions,
    source: ContractSource,
    command: CreateCommand,
    given: CreateOptions,
    output: Output,
) -> Exit | None:
    async with options.connection(reconnect=given.wait) as connection:
        admin = AdminClient(
            connection,
            by=command.request.creator.by,
            timeout=REQUEST_TIMEOUT,
            read_timeout=DEFAULT_TIMEOUT,
        )
        request = await command.completed(JobReader(connection, admin))
        creation = _Creation(connection, admin, source, request)
        if given.dry_run:
            return _show_preview(await creation.preview(), output)
        created = await creation.create()
        if created.outcome is CreationOutcome.REJECTED and output.json:
            print_json(present_fields(created))
            return Exit.REFUSED
        job = _job_of(created, may_exist=given.if_new)
        if given.wait and output.json:
            return await _print_end(connection, created, job, given.wait_seconds)
    _show(created, job, output)
    if not given.wait:
        return None
    return await watch_until_ended(options, job, output, given.wait_seconds)


@dataclass(frozen=True, slots=True)
class _Creation:
    """Asks the admin runtime, or creates the job itself if that did nothing."""

    connection: Connection
    admin: AdminClient
    source: ContractSource
    request: JobRequest

    async def create(self) -> CreatedJobView:
        async def ask() -> CreatedJobView:
            return await self.admin.creation.create(*self._job, **arguments_of(self.request))

        return await self._ask(ask, self._create_directly)

    async def preview(self) -> CreationPreview:
        async def ask() -> CreationPreview:
            return await self.admin.creation.preview(*self._job, **arguments_of(self.request))

        return await self._ask(ask, self._preview_directly)

    @property
    def _job(self) -> tuple[str, str, Json]:
        return self.request.service, self.request.job_type, self.request.payload

    async def _ask(
        self, ask: Callable[[], Awaitable[T]], directly: Callable[[], Awaitable[T]]
    ) -> T:
        """If these credentials do not permit the direct way, the first error says what to do."""
        if self.source.is_local:
            return await directly()
        try:
            return await ask()
        except JobsError as error:
            if not _did_nothing(error):
                raise
            try:
                return await directly()
            except NotPermitted as denied:
                raise error from denied

    async def _create_directly(self) -> CreatedJobView:
        queue = await self._contract()
        return await (await self._creator()).create(queue, self.request)

    async def _preview_directly(self) -> CreationPreview:
        queue, creator = await self._contract(), await self._creator()
        found = await find_queue(self.connection, self.request.service, self.request.job_type)
        return await creator.preview(queue, self.request, found.consumer if found else None)

    async def _contract(self) -> JobType[Any, Any]:
        name = QueueName(self.request.service, self.request.job_type)
        return await self.source.queue(self.connection, name)

    async def _creator(self) -> JobCreator:
        environment = Environment()
        events = EventLog(self.connection, await detect_features(self.connection))
        alarms = Alarms(self.connection, events.features, environment.now)
        return JobCreator.at(self.connection, events, alarms, environment)


def _did_nothing(error: JobsError) -> bool:
    """The admin runtime is not there, is too old, may not be asked, or knows no contract."""
    if isinstance(error, Invalid):
        is_contract = any(issue.path == CONTRACT_ISSUE for issue in error.issues)
        return is_contract or error.message.startswith(NO_METHOD)
    return isinstance(error, (ServiceMissing, NotPermitted, Denied, NotFound))


def _job_of(created: CreatedJobView, *, may_exist: bool) -> JobAddress:
    """The job that exists now. Raises the error that the service would get, if there is none."""
    if created.outcome is CreationOutcome.REJECTED or created.id is None:
        raise _not_admitted(created)
    if created.outcome is CreationOutcome.EXISTS and not may_exist:
        raise JobExists(created.id)
    return JobAddress(created.service, created.type, created.id)


def _not_admitted(created: CreatedJobView) -> JobsError:
    full = FullKey(
        key=created.key or "",
        reason=created.reason or "",
        active=created.active or 0,
        queued=created.queued or 0,
        limit=created.limit or 0,
        existing_job_id=created.existing_job_id or "",
    )
    return QueueFull(full) if full.reason == Refusal.QUEUE_DEPTH else KeyBusy(full)


def _show(created: CreatedJobView, job: JobAddress, output: Output) -> None:
    queue = f"{job.service}/{job.job_type}"
    if created.payload_checked is False:
        print_stderr(f"The payload was not validated: the contract of {queue} has no schema.")
    if output.json:
        print_json(present_fields(created))
        return
    words = {
        CreationOutcome.ACCEPTED: "created",
        CreationOutcome.REPLACED: f"created, replacing {created.replaced_job_id}:",
        CreationOutcome.COALESCED: "not created, coalesced into",
        CreationOutcome.EXISTS: "not created, already exists:",
    }
    print_text(f"{words[created.outcome]} {queue} {job.job_id}")


def _show_preview(preview: CreationPreview, output: Output) -> Exit:
    """Exits with 0 if the job would be created, or another one would do its work."""
    if output.json:
        print_json(present_fields(preview))
    elif preview.valid:
        print_text(preview.sentence or "")
        for name, value in _details(preview):
            print_text(f"  {name}  {value}")
    else:
        for issue in preview.issues:
            print_text(f"{issue.path}: {issue.message}")
    is_created = preview.valid and preview.would not in _NOT_CREATED
    return Exit.OK if is_created else Exit.REFUSED


def _details(preview: CreationPreview) -> Iterator[tuple[str, str]]:
    if preview.key is not None:
        yield "key", f"{preview.key.key} (hash {preview.key.key_hash})"
    if preview.deadline is not None:
        yield "deadline", stamp(preview.deadline)
    yield "tries", str(preview.max_tries)
    if preview.payload_checked is False:
        yield "payload", "not validated: the contract of the queue has no schema"


async def _print_end(
    connection: Connection, created: CreatedJobView, job: JobAddress, timeout: float | None
) -> Exit:
    """Print the outcome even if the wait times out, because the job exists by then."""
    ended: dict[str, Any] = {}
    try:
        async with job_timeout(timeout, job):
            ended = _end(await follow_until_ended(connection, job, lambda _: None))
    finally:
        print_json({**present_fields(created), **ended})
    return Exit.OK if ended["state"] == JobState.COMPLETED.value else Exit.REFUSED


def _end(job: Job) -> dict[str, Any]:
    ended = {"state": job.state.value, "tries": job.tries}
    if job.state is JobState.COMPLETED:
        return {**ended, "result": redacted(job.result, job.run.result_secrets)}
    return {**ended, "error": job.why}
