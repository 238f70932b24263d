"""One key: the jobs that hold it, those that wait, and releasing it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobs_admin.api.errors import NotFound
from jobs_admin.console import form_values
from jobs_admin.console.form_values import FormInvalid
from jobs_admin.console.leases import lease_of, oldest_waiting
from jobs_admin.console.links import key_path, keys_path
from jobs_admin.console.live import EVERY_SECOND
from jobs_admin.console.users import Role

if TYPE_CHECKING:
    from starlette.responses import Response

    from jobs_admin.console.console_request import ConsoleRequest


async def show(request: ConsoleRequest) -> Response:
    """The key is in the query, because it may be any text; also as the rest of the path."""
    service, job_type = request.path["service"], request.path["type"]
    name = request.query.get("key") or request.path.get("key", "")
    if not name:
        return request.redirect(keys_path(service=service, type=job_type))
    key = await request.reads.get_key(service, job_type, name)
    return request.render(
        "key.html",
        topics=f"queue:{service}/{job_type} {EVERY_SECOND}",
        key=key,
        holders=[(holder, lease_of(holder)) for holder in key.active],
        oldest=oldest_waiting(key),
    )


async def release(request: ConsoleRequest) -> Response:
    service, job_type = request.path["service"], request.path["type"]
    form = await request.form()
    key, job_id = form.get("key", ""), form_values.text(form, "job_id")
    if not key or job_id is None:
        raise FormInvalid("the form names no key and no job: open the page of the key again")
    admin, why = request.client(Role.OPERATOR), form_values.reason(form)
    await admin.release_key(service, job_type, key, job_id, reason=why)
    try:
        await request.reads.get_key(service, job_type, key)
    except NotFound:
        # The released job was the last one of the key.
        return request.redirect(keys_path(service=service, type=job_type))
    return request.redirect(key_path(service, job_type, key))
