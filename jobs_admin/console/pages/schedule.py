"""One schedule: its definition, next ticks and last runs; and the changes of schedules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from zoneinfo import available_timezones

from jobs_admin.api.errors import Invalid, NotFound
from jobs_admin.console import form_values
from jobs_admin.console.form_values import FormInvalid
from jobs_admin.console.links import schedule_path
from jobs_admin.console.live import SLOWLY
from jobs_admin.console.schedule_form import address_of, arguments_of, blank_form, form_of
from jobs_admin.console.users import Role
from jobs_admin.console.zone_words import zone_time
from trellis_jobs.model.redaction import REDACTED
from trellis_jobs.model.schedules.definition import CatchUp, Overlap

if TYPE_CHECKING:
    from starlette.responses import Response

    from jobs_admin.console.console_request import ConsoleRequest
    from trellis_jobs.model.schedules.address import ScheduleAddress

_TICKS: Final = 10
_REFUSED: Final = 422


async def show(request: ConsoleRequest) -> Response:
    address = _address(request)
    schedule = await request.reads.schedules.get(address, ticks=_TICKS)
    return request.render(
        "schedule.html",
        topics=f"queue:{address.service}/{address.job_type} {SLOWLY}",
        schedule=schedule,
        zone_time=zone_time,
    )


async def edit(request: ConsoleRequest) -> Response:
    """The form for a new schedule, or for one like the schedule that `like` names."""
    form = blank_form(request.query)
    if like := request.query.get("like"):
        service, job_type, name = (*like.split("/", 2), "", "")[:3]
        address = address_of({"service": service, "type": job_type, "name": name})
        form = form_of(await request.reads.schedules.get(address, ticks=0))
    return await _show_form(request, form)


async def put(request: ConsoleRequest) -> Response:
    """A refusal shows the form again, with what was entered."""
    form = await request.form()
    admin = request.client(Role.OPERATOR)
    try:
        address, payload = address_of(form), form_values.json_value(form, "payload")
        why = form_values.text(form, "reason")
        await admin.schedules.put(address, payload, reason=why, **arguments_of(form))
    except (FormInvalid, Invalid, NotFound) as refusal:
        return await _show_form(request, blank_form(form), problem=str(refusal))
    return request.redirect(_path(address))


async def _show_form(
    request: ConsoleRequest, form: dict[str, str], problem: str | None = None
) -> Response:
    queues = await request.reads.list_queues(with_ended=True, limit=500)
    return request.render(
        "schedule_form.html",
        status=_REFUSED if problem else 200,
        topics="",
        form=form,
        problem=problem,
        queues=queues.entries,
        # Which fields are secret is in the contract of the queue, which may not be known yet.
        hides_secrets=REDACTED in form["payload"],
        zones=sorted(available_timezones()),
        catch_ups=list(CatchUp),
        overlaps=list(Overlap),
    )


async def pause(request: ConsoleRequest) -> Response:
    form = await request.form()
    why, length = form_values.reason(form), form_values.duration(form, "duration")
    await request.client(Role.OPERATOR).schedules.pause(
        _address(request), reason=why, duration=length
    )
    return request.redirect(_path(_address(request)))


async def resume(request: ConsoleRequest) -> Response:
    why = form_values.text(await request.form(), "reason")
    await request.client(Role.OPERATOR).schedules.resume(_address(request), reason=why)
    return request.redirect(_path(_address(request)))


async def trigger(request: ConsoleRequest) -> Response:
    why = form_values.text(await request.form(), "reason")
    await request.client(Role.OPERATOR).schedules.trigger(_address(request), reason=why)
    return request.redirect(_path(_address(request)))


async def delete(request: ConsoleRequest) -> Response:
    why = form_values.text(await request.form(), "reason")
    await request.client(Role.OPERATOR).schedules.delete(_address(request), reason=why)
    return request.redirect("/schedules")


def _address(request: ConsoleRequest) -> ScheduleAddress:
    return address_of(request.path)


def _path(address: ScheduleAddress) -> str:
    return schedule_path(address.service, address.job_type, address.schedule)
