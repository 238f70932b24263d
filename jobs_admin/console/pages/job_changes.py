"""A change of many jobs: first what it would do, then its reason and rate, then it is started."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypedDict

from jobs_admin.api.errors import Invalid
from jobs_admin.api.time_text import moment_after
from jobs_admin.api.views.operations import OperationVerb
from jobs_admin.console import form_values
from jobs_admin.console.job_query import fixed_text, read_filter_text
from jobs_admin.console.users import Role
from jobs_admin.console.verbs import VERBS, Verb

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from starlette.responses import Response

    from jobs_admin.api.client import AdminClient
    from jobs_admin.api.job_filter import JobFilter
    from jobs_admin.api.views.operations import PreviewView
    from jobs_admin.console.console_request import ConsoleRequest

_DEFAULT_DELAY: Final = timedelta(hours=1)
_CONFLICT: Final = 409
_MAX_DIGITS: Final = 18
_NUMBER: Final = re.compile(r"\d{1,7}(\.\d{1,3})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Change:
    verb: Verb
    filter: JobFilter

    @property
    def is_moved(self) -> bool:
        return self.verb.name is OperationVerb.RESCHEDULE


class _Given(TypedDict):
    """What the user enters below the preview."""

    reason: str
    rate: float | None
    run_at: datetime | None


async def show(request: ConsoleRequest) -> Response:
    """The preview of a change. Raises RoleMissing for viewers: they can change nothing."""
    admin = request.client(Role.OPERATOR)
    fields = request.query
    jobs = [] if fields.get("all") else fields.getlist("job")
    now = request.console.now()
    change = read_change(fields.get("verb", ""), fields.get("q", ""), jobs, now)
    return _show_preview(request, change, await _preview(admin, change, now))


async def start(request: ConsoleRequest) -> Response:
    """If more jobs match than the user saw, show the preview again and change nothing.

    The admin runtime counts once more when the operation starts. Only jobs that match within the
    milliseconds between these two counts are changed without having been in a preview.
    """
    now = request.console.now()
    admin = request.client(Role.OPERATOR)
    form = await request.form()
    change = read_change(form.get("verb", ""), form.get("q", ""), (), now)
    given = _Given(
        reason=form_values.reason(form),
        rate=read_rate(form.get("rate", "")),
        run_at=read_time(form.get("at", ""), now) if change.is_moved else None,
    )
    seen = read_count(form.get("count", ""))
    preview = await _preview(admin, change, now)
    if preview.count > seen:
        return _show_preview(request, change, preview, form, more=preview.count - seen)
    operation = await admin.operate(change.verb.name, change.filter, **given)
    return request.redirect(f"/operations/{operation.id}")


async def _preview(admin: AdminClient, change: Change, now: datetime) -> PreviewView:
    run_at = now + _DEFAULT_DELAY if change.is_moved else None
    return await admin.preview(change.verb.name, change.filter, run_at=run_at)


def _show_preview(
    request: ConsoleRequest,
    change: Change,
    preview: PreviewView,
    form: Mapping[str, str] = MappingProxyType({}),
    *,
    more: int = 0,
) -> Response:
    """`more`: how many more jobs match than when the user looked, with what they entered."""
    return request.render(
        "job_change.html",
        status=_CONFLICT if more else 200,
        topics="",
        change=change,
        preview=preview,
        text=fixed_text(change.filter),
        form=form,
        more=more,
    )


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


def read_count(text: str) -> int:
    """The number of jobs in the preview that the user saw. Raises FormInvalid."""
    if not (text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS):
        raise form_values.FormInvalid("count: how many jobs the preview showed is missing")
    return int(text)


def read_time(text: str, now: datetime) -> datetime:
    """A time without a zone is in UTC, as the form says. Raises Invalid."""
    try:
        return moment_after(text.strip(), now, UTC)
    except ValueError as error:
        raise Invalid(f"the time is not clear: {error}") from None
