"""Dead letters by what killed them: replay one to see whether it works now, then all of them."""

from __future__ import annotations

import asyncio
import shlex
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from jobs_admin.api.job_filter import JobFilter
from jobs_admin.console.charts.hour_bars import hour_bars, hours_label
from jobs_admin.console.job_query import read_filter_text, with_state
from jobs_admin.console.live import EVERY_SECOND, EVERYTHING
from jobs_admin.console.operation_progress import progress_of
from jobs_admin.console.users import Role
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.states import JobState

if TYPE_CHECKING:
    from markupsafe import Markup
    from starlette.responses import Response

    from jobs_admin.api.views.dead_groups import DeadGroupView, ErrorGroupView
    from jobs_admin.console.console_request import ConsoleRequest

PATH: Final = "/dead"
PAGE_SIZE: Final = 50
_OPERATIONS_SHOWN: Final = 20
_REASON: Final = "tried before the other jobs with this error"


async def show(request: ConsoleRequest) -> Response:
    now = request.console.now()
    written = read_filter_text(request.query.get("q", ""), now)
    offset = request.offset
    groups, operations = await asyncio.gather(
        request.reads.group_errors(
            _of_dead(written.filter), offset=offset, limit=PAGE_SIZE, min_seq=request.min_seq
        ),
        request.reads.list_operations(limit=_OPERATIONS_SHOWN),
    )
    running = [(each, progress_of(each, now)) for each in operations.entries if not each.is_over]
    return request.render(
        "dead.html",
        topics=f"{EVERYTHING} {EVERY_SECOND}" if running else EVERYTHING,
        written=written,
        groups=groups,
        command=group_command(written.text),
        texts={group.example_id: group_text(group) for group in groups.entries},
        running=running,
        is_removed=any(each.removed_at for each in groups.entries),
        charts={each.example_id: _chart(each) for each in groups.entries},
        newer=_href(written.text, max(0, offset - PAGE_SIZE)) if offset else None,
        older=None if groups.next_offset is None else _href(written.text, groups.next_offset),
    )


async def replay_one(request: ConsoleRequest) -> Response:
    """Replay the example of a group, and show it."""
    admin = request.client(Role.OPERATOR)
    form = await request.form()
    job = JobAddress(form.get("service", ""), form.get("type", ""), form.get("id", ""))
    await admin.replay(job, reason=form.get("reason", "").strip() or _REASON)
    return request.redirect(f"/jobs/{job.service}/{job.job_type}/{job.job_id}")


def group_command(text: str) -> str:
    """The command that lists the same groups. It has no word for the state: all are dead."""
    words = with_state(text, None)
    return " ".join(["trellis-jobs dlq list --group", *([shlex.quote(words)] if words else [])])


def group_text(group: DeadGroupView) -> str:
    """The filter of the jobs of a group, as text."""
    return f"type:{group.service}/{group.type} group:{group.group} state:{JobState.DEAD.value}"


def _of_dead(query: JobFilter | None) -> JobFilter:
    """All groups are of dead jobs; of a text that is no filter there are none."""
    is_other = query is None or (query.state and JobState.DEAD not in query.state)
    wanted = JobFilter(jobs=[]) if query is None or is_other else query
    return wanted.model_copy(update={"state": [JobState.DEAD]})


def _chart(group: ErrorGroupView) -> Markup:
    return hour_bars(group.hourly, hours_label(group.hourly))


def _href(text: str, offset: int) -> str:
    fields = {**({"q": text} if text else {}), **({"offset": offset} if offset else {})}
    return f"{PATH}?{urlencode(fields)}" if fields else PATH
