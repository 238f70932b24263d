"""A change of many jobs: first what it would do, then its reason and rate, then it is started."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from jobs_admin.api.errors import Invalid
from jobs_admin.api.time_text import moment_after
from jobs_admin.api.views.operations import OperationVerb
from jobs_admin.console.job_query import fixed_text, read_filter_text
from jobs_admin.console.users import Role
from jobs_admin.console.verbs import VERBS, Verb

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.responses import Response

    from jobs_admin.api.job_filter import JobFilter
    from jobs_admin.console.console_request import ConsoleRequest

_DEFAULT_DELAY: Final = timedelta(hours=1)
_NUMBER: Final = re.compile(r"\d{1,7}(\.\d{1,3})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Change:
    verb: Verb
    filter: JobFilter


async def show(request: ConsoleRequest) -> Response:
    """The preview of a change. Raises RoleMissing for viewers: they can change nothing."""
    now = request.console.now()
    admin = request.client(Role.OPERATOR)
    fields = request.query
    jobs = [] if fields.get("all") else fields.getlist("job")
    change = read_change(fields.get("verb", ""), fields.get("q", ""), jobs, now)
    is_moved = change.verb.name is OperationVerb.RESCHEDULE
    preview = await admin.preview(
        change.verb.name, change.filter, run_at=now + _DEFAULT_DELAY if is_moved else None
    )
    return request.render(
        "job_change.html",
        topics="",
        change=change,
        preview=preview,
        text=fixed_text(change.filter),
        refused=sum(each.jobs for each in preview.refused),
        is_moved=is_moved,
    )


async def start(request: ConsoleRequest) -> Response:
    now = request.console.now()
    admin = request.client(Role.OPERATOR)
    form = await request.form()
    change = read_change(form.get("verb", ""), form.get("q", ""), (), now)
    is_moved = change.verb.name is OperationVerb.RESCHEDULE
    operation = await admin.operate(
        change.verb.name,
        change.filter,
        reason=form.get("reason", "").strip() or None,
        rate=read_rate(form.get("rate", "")),
        run_at=read_time(form.get("at", ""), now) if is_moved else None,
    )
    return request.redirect(f"/operations/{operation.id}")


def read_change(verb: str, text: str, jobs: Sequence[str], now: datetime) -> Change:
    """The jobs that are named, or else all that match the text. Raises Invalid."""
    if verb not in set(OperationVerb):
        raise Invalid(f"there is no change {verb!r}: choose {', '.join(OperationVerb)}")
    written = read_filter_text(f"job:{','.join(jobs)}" if jobs else text, now)
    if written.filter is None:
        raise Invalid(f"this is not a filter: {written.error}")
    return Change(VERBS[OperationVerb(verb)], written.filter)


def read_rate(text: str) -> float | None:
    """Return None for no limit. Raises Invalid."""
    written = text.strip()
    if not written:
        return None
    if _NUMBER.fullmatch(written) is None or float(written) <= 0:
        raise Invalid(f"{written!r} is not a number of jobs per second, such as 50")
    return float(written)


def read_time(text: str, now: datetime) -> datetime:
    """A time without a zone is in UTC, as the form says. Raises Invalid."""
    try:
        return moment_after(text.strip(), now, UTC)
    except ValueError as error:
        raise Invalid(f"the time is not clear: {error}") from None
