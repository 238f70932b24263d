"""A new job by a form, which is made from the JSON Schema of the queue's payload."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import orjson

from jobs_admin.api.errors import Invalid, Issue, NotFound
from jobs_admin.api.views.creation import CreationOutcome
from jobs_admin.console.forms.filled_form import FilledForm, read_form
from jobs_admin.console.forms.schema_fields import FieldKind, FormField, SchemaFields, json_text
from jobs_admin.console.users import Role
from trellis_jobs.environment import new_id
from trellis_jobs.model.durations import parse_duration

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.responses import Response

    from jobs_admin.api.creation_client import CreateArguments
    from jobs_admin.api.views.creation import ContractView
    from jobs_admin.console.console_request import ConsoleRequest

_WHOLE_PAYLOAD = FormField(pointer="", label="payload", kind=FieldKind.JSON, required=True)


async def choose(request: ConsoleRequest) -> Response:
    """The queues, each with a link to its form."""
    queues = await request.reads.list_queues(limit=500, with_ended=True)
    return request.render("choose_queue.html", topics="", queues=queues.entries)


async def show(request: ConsoleRequest) -> Response:
    """An empty form, or one that is filled like a job (`like`). `as=json` is a form for JSON."""
    contract = await _contract(request)
    payload = await _template(request)
    values = {"id": new_id(), "as": request.query.get("as", "")}
    return await _page(request, contract, _fields(contract, values, payload), values)


async def submit(request: ConsoleRequest) -> Response:
    """Preview the job, or create it."""
    contract, form = await asyncio.gather(_contract(request), request.form())
    fields = _fields(contract, form, None)
    filled = read_form(fields, form)
    if filled.problems:
        return await _page(request, contract, _kept(fields, form), form, problems=filled.problems)
    try:
        options = _options(form)
        if form.get("action") == "create":
            return await _create(request, contract, filled, options)
        creation = request.client(Role.CREATOR).creation
        preview = await creation.preview(contract.service, contract.type, filled.payload, **options)
    except Invalid as refusal:
        problems = {issue.path.removeprefix("/payload"): issue.message for issue in refusal.issues}
        return await _page(request, contract, _kept(fields, form), form, problems=problems)
    problems = {each.path.removeprefix("/payload"): each.message for each in preview.issues}
    return await _page(
        request, contract, _kept(fields, form), form, problems=problems, preview=preview
    )


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


async def _template(request: ConsoleRequest) -> Any:
    """The payload of the job that the new one should be like; None without one."""
    like = request.query.get("like")
    if not like:
        return None
    try:
        return (await request.reads.get(like)).payload
    except NotFound:
        return None


def _fields(contract: ContractView, form: Mapping[str, str], payload: Any) -> list[FormField]:
    if form.get("as") == "json":
        text = "" if payload is None else json_text(payload)
        return [replace(_WHOLE_PAYLOAD, text=text)]
    schema = contract.payload.json_schema
    fields = SchemaFields(schema if isinstance(schema, dict) else None, contract.payload.secrets)
    return fields.fields(payload)


def _kept(fields: list[FormField], form: Mapping[str, str]) -> list[FormField]:
    """What was filled in, except secrets, which are never sent back."""
    return [
        field if field.kind is FieldKind.SECRET else replace(field, text=form.get(field.name, ""))
        for field in fields
    ]


def _options(form: Mapping[str, str]) -> CreateArguments:
    """Raises Invalid, which names what cannot be read."""
    options: CreateArguments = {"id": form.get("id") or None, "reason": form.get("reason") or None}
    delay, at = form.get("delay", ""), form.get("run_at", "")
    if delay:
        duration = parse_duration(delay)
        if duration is None:
            raise _problem("/delay", f"{delay!r} is not a duration such as 90s, 10m, 2h or 3d")
        options["delay_ms"] = round(duration.total_seconds() * 1_000)
    if at:
        options["run_at"] = _moment(at)
    return options


def _moment(text: str) -> datetime:
    """A browser's field for a time has no time zone: it is UTC, as its label says."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise _problem("/runAt", f"{text!r} is not a time") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _problem(path: str, message: str) -> Invalid:
    problem = Invalid(message)
    problem.issues = (Issue(path, message),)
    return problem


async def _page(
    request: ConsoleRequest,
    contract: ContractView,
    fields: list[FormField],
    values: Mapping[str, str],
    **found: Any,
) -> Response:
    recent = await request.reads.creation.recent_payloads(contract.service, contract.type, limit=8)
    command = _command(contract, found)
    shown: dict[str, Any] = {"problems": {}, "preview": None, **found}
    return request.render(
        "new_job.html",
        topics="",
        contract=contract,
        fields=fields,
        values=values,
        recent=recent,
        command=command,
        **shown,
    )


def _command(contract: ContractView, found: Mapping[str, Any]) -> str:
    """The command line that creates the same job; empty before the preview."""
    preview = found.get("preview")
    if preview is None or not preview.valid:
        return ""
    payload = orjson.dumps(preview.payload).decode().replace("'", "'\\''")
    return f"trellis-jobs jobs create {contract.service}/{contract.type} '{payload}'"
