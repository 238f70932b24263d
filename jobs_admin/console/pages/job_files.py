"""Parts of a job as files: payload, result, log lines, errors, one event, or all of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import PlainTextResponse

from jobs_admin.api.errors import NotFound
from jobs_admin.bundle.bundle_file import write_bundle
from jobs_admin.bundle.job_bundle import JobBundle
from jobs_admin.console.job.attempts import JobAttempt, attempts_of
from jobs_admin.console.job.content import json_text
from jobs_admin.console.job.job_log import JobLog, read_all, read_log, replay_log
from jobs_admin.console.pages.job import address_of, if_known, number_in

if TYPE_CHECKING:
    from starlette.responses import Response

    from jobs_admin.console.console_request import ConsoleRequest
    from trellis_jobs.model.identity import JobAddress


async def bundle(request: ConsoleRequest) -> Response:
    """The job as a bundle, without its secrets, as `trellis-jobs jobs export` writes it."""
    address, reads = address_of(request), request.reads
    entries = await read_all(reads, address)
    content = JobBundle(
        address=address,
        exported_at=request.console.now(),
        exported_by=request.user.name,
        revealed=False,
        entries=entries,
        contract=await if_known(reads.creation.contract(address.service, address.job_type)),
        explanation=await if_known(reads.explain(address)),
    )
    return _file(json_text(write_bundle(content)), f"{address.job_id}.bundle")


async def raw(request: ConsoleRequest) -> Response:
    """A part of the job as text: payload, result, log, errors, or one event by its sequence."""
    address, what = address_of(request), request.path["what"]
    sequence = number_in(request.query, "seq")
    if what == "event":
        text = await _event_text(request, address, sequence or 0)
    else:
        log = replay_log(await read_log(request.job_reads, address), request.console.now())
        text = await _raw_text(request, log, what, sequence)
    return _file(text, f"{address.job_id}-{what}.{_ending(what)}")


async def _event_text(request: ConsoleRequest, address: JobAddress, sequence: int) -> str:
    page = await request.job_reads.list_events(address, after_seq=max(0, sequence - 1), limit=1)
    entry = page.entries[0] if page.entries and page.entries[0].seq == sequence else None
    if entry is None:
        raise NotFound(f"job {address.job_id} has no event {sequence}")
    return json_text(entry.model_dump(mode="json", by_alias=True, exclude_none=True))


async def _raw_text(request: ConsoleRequest, log: JobLog, what: str, sequence: int | None) -> str:
    job = log.history[log.index_at(sequence)].job if log.history else None
    if job is None:
        raise NotFound("the log has no event of this job that counts")
    match what:
        case "payload":
            return json_text(job.payload)
        case "result":
            return json_text(job.result)
        case "log":
            view = await request.job_reads.get(job.address)
            return "".join(
                f"{line.timestamp.isoformat()} {line.level} {line.message}\n" for line in view.logs
            )
        case "errors":
            return "\n".join(_error_text(each) for each in attempts_of(log.history) if each.error)
    raise NotFound(f"a job has no part {what!r}")


def _error_text(attempt: JobAttempt) -> str:
    error = attempt.error
    if error is None:
        return ""
    head = f"run {attempt.run}, attempt {attempt.number}, {error.at.isoformat()}"
    return f"{head}\n{error.traceback or f'{error.type}: {error.message}'}\n"


def _ending(what: str) -> str:
    return "json" if what in ("payload", "result", "event") else "txt"


def _file(text: str, name: str) -> Response:
    """Never shown by a browser: its text comes from jobs."""
    disposition = f'attachment; filename="{name}"'
    return PlainTextResponse(text, headers={"content-disposition": disposition})
