"""`trellis-jobs jobs create`: create a job in any queue, by the same rules as its service does."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from pydantic.alias_generators import to_camel

from jobs_admin.cli.connection import ConnectionOptions
from jobs_admin.cli.exit_codes import Exit
from jobs_admin.cli.job_reader.log_entries import follow_until_ended, job_timeout
from jobs_admin.cli.jobs.watch import WaitTimeout, watch_until_ended
from jobs_admin.cli.payload import read_payload
from jobs_admin.cli.queue_contract import ContractSource
from jobs_admin.cli.queue_names import QueueArgument, QueueName, parse_queue
from jobs_admin.cli.render.output import Output, print_json, print_stderr, print_text
from jobs_admin.cli.run import run
from jobs_admin.cli.run_time import RunTimeOptions
from jobs_admin.cli.time_options import moment_ahead, seconds
from trellis_jobs.contract.declaration import JobType
from trellis_jobs.contract.payload_types import TypeMismatch
from trellis_jobs.contract.schema_types import SchemaType
from trellis_jobs.environment import Environment
from trellis_jobs.errors import JobExists, NotAdmitted, PayloadInvalid
from trellis_jobs.jetstream.alarms.alarms import Alarms
from trellis_jobs.jetstream.client.connection import Connection
from trellis_jobs.jetstream.keys.bucket import KeyBucket
from trellis_jobs.jetstream.keys.coordinator import KeyCoordinator
from trellis_jobs.jetstream.log.event_log import EventLog
from trellis_jobs.jetstream.setup.features import detect_features
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.job import Job
from trellis_jobs.model.json_values import Json
from trellis_jobs.model.redaction import redacted
from trellis_jobs.model.states import JobState
from trellis_jobs.producer.submission import Producer, Request
from trellis_jobs.producer.try_options import TryOptions
from trellis_jobs.telemetry import Telemetry


@dataclass(frozen=True, slots=True)
class _CreateRequest:
    queue: QueueName
    payload: Json
    job_id: str | None
    if_new: bool
    deadline: datetime | None
    run_at: datetime | None
    wait: bool
    timeout: float | None
    try_options: TryOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateOptions:
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
    wait: Annotated[
        bool,
        typer.Option(
            "--wait",
            help="Follow the job until it ends. Exits with 0 if it completes, otherwise 1.",
        ),
    ] = False
    timeout: WaitTimeout = None

    def request(
        self, queue: QueueName, payload: Json, run_at: datetime | None, now: datetime
    ) -> _CreateRequest:
        deadline = None if self.deadline is None else moment_ahead("--deadline", self.deadline, now)
        timeout = seconds("--timeout", self.timeout)
        if timeout is not None and not self.wait:
            raise typer.BadParameter("it has an effect only with --wait", param_hint="--timeout")
        if self.if_new and self.job_id is None:
            raise typer.BadParameter("it needs --id", param_hint="--if-new")
        return _CreateRequest(
            queue,
            payload,
            self.job_id,
            self.if_new,
            deadline,
            run_at,
            self.wait,
            timeout,
            self._try_options(),
        )

    def _try_options(self) -> TryOptions:
        return {
            "max_tries": self.max_tries,
            "timeout": seconds("--try-timeout", self.try_timeout),
            "visibility": seconds("--visibility", self.visibility),
        }


@dataclass(frozen=True, slots=True)
class _Outcome:
    """`name` is accepted, replaced, coalesced or exists."""

    name: str
    job: JobAddress
    more: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        job = {"service": self.job.service, "type": self.job.job_type, "id": self.job.job_id}
        return {"outcome": self.name, **job, **self.more}


def create_job(
    queue: QueueArgument,
    payload: Annotated[
        str,
        typer.Argument(metavar="JSON", help="The payload; @FILE reads a file, - reads stdin."),
    ],
    source: ContractSource,
    output: Output,
    options: ConnectionOptions,
    given: CreateOptions,
    run_time: RunTimeOptions,
) -> None:
    """Create a job in any queue.

    The command reads the queue's contract from the server, where its workers publish it, from the
    service's code (--app), or from a manifest (--contract).
    """
    now = datetime.now(UTC)
    request = given.request(parse_queue(queue), read_payload(payload), run_time.moment(now), now)
    source.check()
    run(_create(options, source, request, output))


async def _create(
    options: ConnectionOptions, source: ContractSource, request: _CreateRequest, output: Output
) -> Exit | None:
    async with options.connection(reconnect=request.wait) as connection:
        queue = await source.queue(connection, request.queue)
        if isinstance(queue.payload, SchemaType) and queue.payload.is_open:
            print_stderr(
                f"The payload is not validated: the contract of {request.queue} has no schema."
            )
        events = EventLog(connection, await detect_features(connection))
        try:
            outcome = await _submit(connection, events, queue, request)
        except NotAdmitted as refusal:
            if not output.json:
                raise
            print_json({"outcome": "rejected", **_camel(asdict(refusal.full))})
            return Exit.REFUSED
        if request.wait and output.json:
            return await _print_end(connection, outcome, request.timeout)
    _show(outcome, output)
    if not request.wait:
        return None
    return await watch_until_ended(options, outcome.job, output, request.timeout)


async def _submit(
    connection: Connection, events: EventLog, queue: JobType[Any, Any], request: _CreateRequest
) -> _Outcome:
    service = request.queue.service
    producer = _producer(connection, events, queue, service)
    prepared = _prepare(producer, queue, request)
    try:
        created = await producer.create(prepared)
    except JobExists as existing:
        if not request.if_new:
            raise
        return _Outcome("exists", JobAddress(service, queue.name, existing.job_id), {})
    except NotAdmitted as refusal:
        if not refusal.coalesced:
            raise
        address = JobAddress(service, queue.name, refusal.existing_job_id)
        return _Outcome("coalesced", address, {"key": refusal.key})
    more: dict[str, Any] = {"seq": created.sequence}
    if prepared.key is not None:
        more["key"] = prepared.key.display
    if created.replaced is not None:
        more["replacedJobId"] = created.replaced
    return _Outcome("replaced" if created.replaced else "accepted", created.address, more)


def _producer(
    connection: Connection, events: EventLog, queue: JobType[Any, Any], service: str
) -> Producer:
    environment, keys = Environment(), {}
    if queue.key_policy is not None:
        bucket, now = KeyBucket(connection, environment.now), environment.now
        keys = {queue.name: KeyCoordinator(service, queue, queue.key_policy, bucket, events, now)}
    alarms = Alarms(connection, events.features, environment.now)
    return Producer(service, events, keys, Telemetry(), environment, alarms)


def _prepare(producer: Producer, queue: JobType[Any, Any], request: _CreateRequest) -> Request:
    try:
        payload = queue.payload.from_json(request.payload)
    except TypeMismatch as mismatch:
        raise PayloadInvalid(queue.name, str(mismatch)) from mismatch
    return producer.request(
        queue,
        payload,
        job_id=request.job_id,
        deadline=request.deadline,
        run_at=request.run_at,
        **request.try_options,
    )


def _show(outcome: _Outcome, output: Output) -> None:
    if output.json:
        print_json(outcome.to_json())
        return
    job = outcome.job
    words = {
        "accepted": "created",
        "replaced": f"created, replacing {outcome.more.get('replacedJobId')}:",
        "coalesced": "not created, coalesced into",
        "exists": "not created, already exists:",
    }
    print_text(f"{words[outcome.name]} {job.service}/{job.job_type} {job.job_id}")


async def _print_end(connection: Connection, outcome: _Outcome, timeout: float | None) -> Exit:
    """Print the outcome even if the wait times out, because the job exists by then."""
    ended: dict[str, Any] = {}
    try:
        async with job_timeout(timeout, outcome.job):
            ended = _end(await follow_until_ended(connection, outcome.job, lambda _: None))
    finally:
        print_json({**outcome.to_json(), **ended})
    return Exit.OK if ended["state"] == JobState.COMPLETED.value else Exit.REFUSED


def _end(job: Job) -> dict[str, Any]:
    ended = {"state": job.state.value, "tries": job.tries}
    if job.state is JobState.COMPLETED:
        return {**ended, "result": redacted(job.result, job.run.result_secrets)}
    return {**ended, "error": job.why}


def _camel(values: dict[str, Any]) -> dict[str, Any]:
    return {to_camel(name): value for name, value in values.items()}
