"""A new job by a form, which is made from the JSON Schema of the queue's payload."""

from __future__ import annotations

import asyncio
import shlex
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import orjson

from jobs_admin.api.errors import Invalid, NotFound
from jobs_admin.api.views.creation import CreationOutcome
from jobs_admin.console import form_values
from jobs_admin.console.form_values import FormInvalid
from jobs_admin.console.forms.filled_form import FilledForm, kept, read_form
from jobs_admin.console.forms.schema_fields import FieldKind, FormField, SchemaFields
from jobs_admin.console.users import Role
from trellis_jobs.environment import new_id
from trellis_jobs.errors import InvalidToken
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.redaction import redacted_places

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from starlette.responses import Response

    from jobs_admin.api.creation_client import CreateArguments
    from jobs_admin.api.errors import Issue
    from jobs_admin.api.views.creation import ContractView, CreationPreview, IssueView
    from jobs_admin.api.views.jobs import JobView
    from jobs_admin.console.console_request import ConsoleRequest

_WHOLE_PAYLOAD = FormField(pointer="", label="payload", kind=FieldKind.JSON, required=True)


@dataclass(frozen=True, slots=True)
class _Template:
    """The payload of the job that the new one should be like, or why it cannot be used."""

    payload: Any = None
    secrets: tuple[str, ...] = ()
    problem: str = ""


async def choose(request: ConsoleRequest) -> Response:
    """The queues, each with a link to its form."""
    queues = await request.reads.list_queues(limit=500, with_ended=True)
    return request.render("choose_queue.html", topics="", queues=queues.entries)


async def show(request: ConsoleRequest) -> Response:
    """An empty form, or one that is filled like a job (`like`). `as=json` is a form for JSON."""
    contract = await _contract(request)
    template = await _template(request, contract)
    values = {"id": new_id(), "as": request.query.get("as", "")}
    fields = _fields(contract, values, template)
    return await _page(request, contract, fields, values, problem=template.problem)


async def submit(request: ConsoleRequest) -> Response:
    """Preview the job, or create it."""
    contract, form = await asyncio.gather(_contract(request), request.form())
    fields = _fields(contract, form, _Template())
    filled = read_form(fields, form)
    shown = [kept(field, form) for field in fields]
    if filled.problems:
        return await _page(request, contract, shown, form, problems=filled.problems)
    try:
        options = _options(form)
        if form.get("action") == "create":
            return await _create(request, contract, filled, options)
        creation = request.client(Role.CREATOR).creation
        preview = await creation.preview(contract.service, contract.type, filled.payload, **options)
    except FormInvalid as error:
        return await _page(request, contract, shown, form, problem=str(error))
    except Invalid as refusal:
        problem = "" if refusal.issues else str(refusal)
        problems = _by_place(refusal.issues)
        return await _page(request, contract, shown, form, problem=problem, problems=problems)
    return await _page(
        request,
        contract,
        shown,
        form,
        problems=_by_place(preview.issues),
        preview=preview,
        command=_command(contract, preview, form, options),
    )


def _by_place(issues: Sequence[Issue | IssueView]) -> dict[str, str]:
    """The problems of the payload by their place in it, and others by their field."""
    return {issue.path.removeprefix("/payload"): issue.message for issue in issues}


async def _create(
    request: ConsoleRequest, contract: ContractView, filled: FilledForm, options: CreateArguments
) -> Response:
    """The form has an id, so that a form that is sent twice creates one job."""
    creation = request.client(Role.CREATOR).creation
    created = await creation.create(contract.service, contract.type, filled.payload, **options)
    if created.outcome is CreationOutcome.REJECTED:
        raise Invalid(f"the job was not created: {created.reason}")
    return request.redirect(f"/jobs/{created.service}/{created.type}/{created.id}")


async def _contract(request: ConsoleRequest) -> ContractView:
    return await request.reads.creation.contract(request.path["service"], request.path["type"])


async def _template(request: ConsoleRequest, contract: ContractView) -> _Template:
    """Other queues may have a job with the same id, so the job is looked up in this one."""
    like = request.query.get("like")
    if not like:
        return _Template()
    try:
        job = await request.reads.get(JobAddress(contract.service, contract.type, like))
    except (NotFound, InvalidToken):
        return _Template(problem=f"This queue has no job {like}: the form is empty.")
    problem = _why_no_template(job, contract)
    return _Template(problem=problem) if problem else _Template(job.payload, job.secrets)


def _why_no_template(job: JobView, contract: ContractView) -> str:
    if job.payload_version != contract.payload_version:
        return (
            f"The payload of job {job.id} has version {job.payload_version}, and the queue takes "
            f"version {contract.payload_version}: the form is empty."
        )
    if "payload" in job.omitted:
        return f"The payload of job {job.id} is too large to be sent: the form is empty."
    return ""


def _fields(
    contract: ContractView, form: Mapping[str, str], template: _Template
) -> list[FormField]:
    secrets = tuple(dict.fromkeys((*contract.payload.secrets, *template.secrets)))
    if form.get("as") == "json":
        return [replace(_WHOLE_PAYLOAD, secrets=secrets).filled(template.payload)]
    schema = contract.payload.json_schema
    fields = SchemaFields(schema if isinstance(schema, dict) else None, secrets)
    return fields.fields(template.payload)


def _options(form: Mapping[str, str]) -> CreateArguments:
    """Raises FormInvalid, which names what cannot be read."""
    options: CreateArguments = {"id": form.get("id") or None, "reason": form.get("reason") or None}
    delay, at = form_values.duration(form, "delay"), form_values.text(form, "run_at")
    if delay is not None:
        options["delay_ms"] = round(delay.total_seconds() * 1_000)
    if at is not None:
        options["run_at"] = form_values.moment(at, "run_at")
    return options


async def _page(
    request: ConsoleRequest,
    contract: ContractView,
    fields: list[FormField],
    values: Mapping[str, str],
    **found: Any,
) -> Response:
    recent = await request.reads.creation.recent_payloads(contract.service, contract.type, limit=8)
    nothing: dict[str, Any] = {"problem": "", "problems": {}, "preview": None, "command": ""}
    return request.render(
        "new_job.html",
        topics="",
        contract=contract,
        fields=fields,
        values=values,
        recent=recent,
        **{**nothing, **found},
    )


def _command(
    contract: ContractView,
    preview: CreationPreview,
    form: Mapping[str, str],
    options: CreateArguments,
) -> str:
    """The command line that creates the same job; empty if it would lack a secret."""
    if not preview.valid or redacted_places(preview.payload, contract.payload.secrets):
        return ""
    run_at = options.get("run_at")
    given = {
        "--id": options["id"],
        "--in": form_values.text(form, "delay"),
        "--at": None if run_at is None else run_at.isoformat(),
        "--reason": options["reason"],
    }
    queue, payload = f"{contract.service}/{contract.type}", orjson.dumps(preview.payload).decode()
    words = [f"{name}={value}" for name, value in given.items() if value]
    return shlex.join(["trellis-jobs", "jobs", "create", queue, payload, *words])
