"""Changes of many jobs: how far each one is, who started it and why, what was refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jobs_admin.console import form_values
from jobs_admin.console.live import EVERY_SECOND, EVERYTHING
from jobs_admin.console.operation_progress import progress_of
from jobs_admin.console.users import Role

if TYPE_CHECKING:
    from starlette.responses import Response

    from jobs_admin.console.console_request import ConsoleRequest

PATH: Final = "/operations"
PAGE_SIZE: Final = 50


async def show(request: ConsoleRequest) -> Response:
    offset = request.offset
    page = await request.reads.list_operations(offset=offset, limit=PAGE_SIZE)
    now = request.console.now()
    shown = [(each, progress_of(each, now)) for each in page.entries]
    is_running = any(not each.is_over for each in page.entries)
    return request.render(
        "operations.html",
        topics=EVERY_SECOND if is_running else EVERYTHING,
        page=page,
        shown=shown,
        newer=None if offset == 0 else f"{PATH}?offset={max(0, offset - PAGE_SIZE)}",
        older=None if page.next_offset is None else f"{PATH}?offset={page.next_offset}",
    )


async def show_one(request: ConsoleRequest) -> Response:
    operation = await request.reads.get_operation(request.path["id"])
    return request.render(
        "operation.html",
        topics="" if operation.is_over else EVERY_SECOND,
        operation=operation,
        progress=progress_of(operation, request.console.now()),
    )


async def stop(request: ConsoleRequest) -> Response:
    why = form_values.text(await request.form(), "reason")
    admin = request.client(Role.OPERATOR)
    operation = await admin.stop_operation(request.path["id"], reason=why)
    return request.redirect(f"{PATH}/{operation.id}")
