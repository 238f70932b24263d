"""`trellis-jobs jobs create`: a job of any queue, let in as its own service would let it in."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
from pydantic.alias_generators import to_camel

from jobs_admin.cli.connection import ConnectionOptions
from jobs_admin.cli.durations import moment_ahead, seconds
from jobs_admin.cli.exit_codes import Exit
from jobs_admin.cli.jobs.watch import watch_to_the_end
from jobs_admin.cli.queue_contract import ContractSource
from jobs_admin.cli.queue_names import QueueArgument, QueueName, queue_name
from jobs_admin.cli.reading.log_reading import no_longer_than, until_over
from jobs_admin.cli.render.output import Output, print_json, print_text, say
from jobs_admin.cli.run import run
from trellis_jobs.contract.declaration import JobType
from trellis_jobs.contract.payload_types import TypeMismatch
from trellis_jobs.contract.schema_types import SchemaType
from trellis_jobs.environment import Environment
from trellis_jobs.errors import JobExists, PayloadInvalid
from trellis_jobs.jetstream.client.connection import Connection
from trellis_jobs.jetstream.keys.bucket import KeyBucket
from trellis_jobs.jetstream.keys.coordinator import KeyCoordinator
from trellis_jobs.jetstream.log.event_log import EventLog
from trellis_jobs.jetstream.setup.features import detect_features
from trellis_jobs.key_errors import NotAdmitted
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.job import Job
from trellis_jobs.model.json_values import Json
from trellis_jobs.model.redaction import redacted
from trellis_jobs.model.states import JobState
from trellis_jobs.producer.submission import Producer, Request
from trellis_jobs.telemetry import Telemetry


@dataclass(frozen=True, slots=True)
class _Wanted:
    queue: QueueName
    payload: Json
    job_id: str | None
    if_new: bool
    deadline: datetime | None
    wait: bool
    timeout: float | None


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What became of the request: accepted, replaced, coalesced, rejected, or exists."""

    name: str
    job: JobAddress
    more: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        told = {"service": self.job.service, "type": self.job.job_type, "id": self.job.job_id}
        return {"outcome": self.name, **told, **self.more}


def create_job(
    queue: QueueArgument,
    payload: Annotated[
        str,
        typer.Argument(metavar="JSON", help="The payload; @FILE reads a file, - standard input."),
    ],
    source: ContractSource,
    output: Output,
    reach: ConnectionOptions,
    job_id: Annotated[
        str | None, typer.Option("--id", help="The job's id; refused if there is one with it.")
    ] = None,
    if_new: Annotated[
        bool,
        typer.Option("--if-new", help="With --id: do nothing, and end with 0, if it exists."),
    ] = False,
    deadline: Annotated[
        str | None,
        typer.Option(help="Not to be begun after it: 10m, 2h, or RFC 3339.", metavar="TIME"),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Follow it to its end: 0 if it completes, else 1.")
    ] = False,
    timeout: Annotated[
        str | None, typer.Option(help="Wait no longer than that: 30s, 10m.", metavar="DURATION")
    ] = None,
) -> None:
    """Create a job of any queue.

    What the queue takes is read from the server, where its workers have told it, from a service
    whose code is here (--app), or from a manifest (--contract).
    """
    wanted = _Wanted(
        queue_name(queue),
        read_payload(payload),
        job_id,
        if_new,
        None if deadline is None else moment_ahead("--deadline", deadline, datetime.now(UTC)),
        wait,
        seconds("--timeout", timeout),
    )
    if wanted.timeout is not None and not wait:
        raise typer.BadParameter(
            "it is about --wait: add that, or leave it out", param_hint="--timeout"
        )
    if if_new and job_id is None:
        raise typer.BadParameter("it needs an id to look for: add --id", param_hint="--if-new")
    source.check()
    run(_create(reach, source, wanted, output))


def read_payload(text: str) -> Json:
    try:
        if text == "-":
            text = sys.stdin.read()
        elif text.startswith("@"):
            text = Path(text[1:]).read_text(encoding="utf-8")
        read: Json = orjson.loads(text)
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"it cannot be read: {error}", param_hint="JSON") from None
    except orjson.JSONDecodeError as error:
        raise typer.BadParameter(
            f"{error} (text needs quotes of its own: '\"…\"')", param_hint="JSON"
        ) from None
    return read


async def _create(
    reach: ConnectionOptions, source: ContractSource, wanted: _Wanted, output: Output
) -> Exit | None:
    async with reach.connection(patient=wanted.wait) as connection:
        queue = await source.queue(connection, wanted.queue)
        if isinstance(queue.payload, SchemaType) and queue.payload.is_open:
            say(f"what {wanted.queue} takes is not known here, so the payload is not checked")
        events = EventLog(connection, await detect_features(connection))
        try:
            outcome = await _submit(connection, events, queue, wanted)
        except NotAdmitted as refusal:
            if not output.json:
                raise
            print_json({"outcome": "rejected", **_camel(asdict(refusal.full))})
            return Exit.REFUSED
        if wanted.wait and output.json:
            return await _tell_end(connection, outcome, wanted.timeout)
    _show(outcome, output)
    if not wanted.wait:
        return None
    return await watch_to_the_end(reach, outcome.job, output, wanted.timeout)


async def _submit(
    connection: Connection, events: EventLog, queue: JobType[Any, Any], wanted: _Wanted
) -> _Outcome:
    producer = _producer(connection, events, queue, wanted.queue.service)
    request = _request(producer, queue, wanted)
    try:
        created = await producer.create(request)
    except JobExists as existing:
        if not wanted.if_new:
            raise
        return _Outcome("exists", JobAddress(wanted.queue.service, queue.name, existing.job_id), {})
    except NotAdmitted as refusal:
        if not refusal.coalesced:
            raise
        address = JobAddress(wanted.queue.service, queue.name, refusal.existing_job_id)
        return _Outcome("coalesced", address, {"key": refusal.key})
    more: dict[str, Any] = {"seq": created.sequence}
    if request.key is not None:
        more["key"] = request.key.display
    if created.replaced is not None:
        more["replacedJobId"] = created.replaced
    return _Outcome("replaced" if created.replaced else "accepted", created.address, more)


def _producer(
    connection: Connection, events: EventLog, queue: JobType[Any, Any], service: str
) -> Producer:
    around, keys = Environment(), {}
    if queue.key_policy is not None:
        bucket = KeyBucket(connection, around.now)
        keys = {
            queue.name: KeyCoordinator(service, queue, queue.key_policy, bucket, events, around.now)
        }
    return Producer(service, events, keys, Telemetry(), around)


def _request(producer: Producer, queue: JobType[Any, Any], wanted: _Wanted) -> Request:
    try:
        payload = queue.payload.from_json(wanted.payload)
    except TypeMismatch as misfit:
        raise PayloadInvalid(queue.name, str(misfit)) from misfit
    return producer.request(queue, payload, job_id=wanted.job_id, deadline=wanted.deadline)


def _show(outcome: _Outcome, output: Output) -> None:
    if output.json:
        print_json(outcome.to_json())
        return
    job = outcome.job
    words = {
        "accepted": "created",
        "replaced": f"created, in the place of {outcome.more.get('replacedJobId')}:",
        "coalesced": "not created: the queue leaves the work to",
        "exists": "exists already:",
    }
    print_text(f"{words[outcome.name]} {job.service}/{job.job_type} {job.job_id}")


async def _tell_end(connection: Connection, outcome: _Outcome, timeout: float | None) -> Exit:
    """The job is there, however the waiting for it ends: that is told in any case."""
    ended: dict[str, Any] = {}
    try:
        async with no_longer_than(timeout, outcome.job):
            ended = _end(await until_over(connection, outcome.job, lambda _: None))
    finally:
        print_json({**outcome.to_json(), **ended})
    return Exit.OK if ended["state"] == JobState.COMPLETED.value else Exit.REFUSED


def _end(job: Job) -> dict[str, Any]:
    is_done = job.state is JobState.COMPLETED
    why = (
        {"result": redacted(job.result, job.run.result_secrets)} if is_done else {"error": job.why}
    )
    return {"state": job.state.value, "tries": job.tries, **why}


def _camel(values: dict[str, Any]) -> dict[str, Any]:
    return {to_camel(name): value for name, value in values.items()}
