"""The options of `jobs create`, and the job that they describe."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Annotated, Final

import typer

from jobs_admin.api.creation_client import CreateArguments
from jobs_admin.cli.actor import By, Reason, actor_name
from jobs_admin.cli.exit_codes import UsageError
from jobs_admin.cli.job_names import parse_job
from jobs_admin.cli.job_reader.reader import JobReader
from jobs_admin.cli.jobs.watch import WaitTimeout
from jobs_admin.cli.payload import read_payload
from jobs_admin.cli.queue_names import QueueName, parse_queue
from jobs_admin.cli.secret_values import SecretValues, with_secrets
from jobs_admin.cli.time_options import moment_ahead, seconds
from jobs_admin.creation.job_request import JobRequest
from jobs_admin.creation.merge_patch import merged
from trellis_jobs.environment import new_id
from trellis_jobs.model.creator import Creator
from trellis_jobs.model.identity import JobAddress

_MILLISECOND: Final = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateOptions:
    like: Annotated[
        str | None,
        typer.Option(
            help="Take the queue and the payload of this job. Then JSON, if it is given, is merged "
            "into the payload: null removes a field.",
            metavar="ID",
        ),
    ] = None
    secret: SecretValues = None
    job_id: Annotated[
        str | None, typer.Option("--id", help="The id of the job; refused if it exists already.")
    ] = None
    if_new: Annotated[
        bool,
        typer.Option("--if-new", help="With --id: if the job exists, do nothing and exit with 0."),
    ] = False
    deadline: Annotated[
        str | None,
        typer.Option(
            help="Do not start the job after this time: in 10m, 2h, or RFC 3339.", metavar="TIME"
        ),
    ] = None
    max_tries: Annotated[
        int | None, typer.Option(help="Tries before the job is dead; otherwise the queue's.")
    ] = None
    try_timeout: Annotated[
        str | None,
        typer.Option(
            help="The time limit of one try, such as 90s; otherwise the queue's.",
            metavar="DURATION",
        ),
    ] = None
    visibility: Annotated[
        str | None,
        typer.Option(
            help="How long a handler may go without a heartbeat, on a queue with renew=manual.",
            metavar="DURATION",
        ),
    ] = None
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Check the job and say what would happen; create nothing."),
    ] = False
    wait: Annotated[
        bool,
        typer.Option(
            "--wait",
            help="Follow the job until it ends. Exits with 0 if it completes, otherwise 1.",
        ),
    ] = False
    timeout: WaitTimeout = None
    reason: Reason = None
    by: By = None

    def check(self) -> None:
        if self.wait_seconds is not None and not self.wait:
            raise typer.BadParameter("it has an effect only with --wait", param_hint="--timeout")
        if self.if_new and self.job_id is None:
            raise typer.BadParameter("it needs --id", param_hint="--if-new")
        if self.secret and self.like is None:
            raise typer.BadParameter("it needs --like", param_hint="--secret")
        if self.dry_run and self.wait:
            raise typer.BadParameter("it cannot be combined with --wait", param_hint="--dry-run")

    @property
    def wait_seconds(self) -> float | None:
        return seconds("--timeout", self.timeout)

    @property
    def creator(self) -> Creator:
        return Creator(actor_name(self.by), self.reason, new_id())


@dataclass(frozen=True, slots=True)
class CreateCommand:
    """The job that the command line describes. With `like`, the rest comes from that job."""

    queue: QueueName | None
    request: JobRequest
    like: str | JobAddress | None
    secret: list[str] | None
    has_payload: bool

    async def completed(self, reader: JobReader) -> JobRequest:
        if self.like is None:
            return self.request
        job = await reader.job(self.like)
        found = QueueName(job.service, job.type)
        if self.queue is not None and self.queue != found:
            raise UsageError(f"job {job.id} is a job of {found}, not of {self.queue}")
        payload = job.payload
        if self.has_payload:
            payload = merged(payload, self.request.payload)
        return replace(
            self.request,
            service=job.service,
            job_type=job.type,
            payload=with_secrets(payload, job.secrets, self.secret),
            payload_version=job.payload_version,
        )


def read_command(
    queue: str | None,
    payload: str | None,
    options: CreateOptions,
    run_at: datetime | None,
    now: datetime,
) -> CreateCommand:
    options.check()
    if options.like is None and (queue is None or payload is None):
        missing = "QUEUE" if queue is None else "JSON"
        raise typer.BadParameter("it is needed, unless --like names a job", param_hint=missing)
    name = None if queue is None else parse_queue(queue)
    deadline = options.deadline
    request = JobRequest(
        service=name.service if name else "",
        job_type=name.job_type if name else "",
        payload=None if payload is None else read_payload(payload),
        job_id=options.job_id,
        deadline=None if deadline is None else moment_ahead("--deadline", deadline, now),
        run_at=run_at,
        try_options={
            "max_tries": options.max_tries,
            "timeout": seconds("--try-timeout", options.try_timeout),
            "visibility": seconds("--visibility", options.visibility),
        },
        creator=options.creator,
    )
    like = None if options.like is None else parse_job(options.like)
    return CreateCommand(name, request, like, options.secret, payload is not None)


def arguments_of(request: JobRequest) -> CreateArguments:
    """The same for the client of the admin runtime."""
    options = request.try_options
    return {
        "id": request.job_id,
        "payload_version": request.payload_version,
        "deadline": request.deadline,
        "run_at": request.run_at,
        "max_tries": options.get("max_tries"),
        "timeout_ms": _milliseconds(options.get("timeout")),
        "visibility_ms": _milliseconds(options.get("visibility")),
        "reason": request.creator.reason,
    }


def _milliseconds(duration: float | timedelta | None) -> int | None:
    if duration is None:
        return None
    length = duration if isinstance(duration, timedelta) else timedelta(seconds=duration)
    return max(1, length // _MILLISECOND)
