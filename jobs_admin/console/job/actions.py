"""What an operator can do with a job in its state, and how it is carried out."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING, Final

from jobs_admin.api.errors import Invalid
from jobs_admin.api.time_text import moment_after
from jobs_admin.console import form_values
from trellis_jobs.model.states import LIVE, JobState

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from datetime import datetime

    from jobs_admin.api.client import AdminClient
    from jobs_admin.api.views.jobs import ChangedJob
    from trellis_jobs.model.identity import JobAddress


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAction:
    """`title` is on the button, and `effect` in the dialog that asks before it is done."""

    name: str
    title: str
    effect: str
    states: frozenset[JobState]
    is_dangerous: bool = False
    takes_time: bool = False


ACTIONS: Final = (
    JobAction(
        name="run-now",
        title="Run now",
        effect="The job runs as soon as a worker is free, instead of at its time.",
        states=frozenset({JobState.SCHEDULED, JobState.RETRY}),
    ),
    JobAction(
        name="reschedule",
        title="Reschedule",
        effect="The job waits until another time. It keeps its tries and its history.",
        states=frozenset({JobState.SCHEDULED, JobState.PENDING, JobState.RETRY}),
        takes_time=True,
    ),
    JobAction(
        name="retry",
        title="Retry",
        effect="A new run with all its tries begins. The history of this run is kept.",
        states=frozenset({JobState.FAILED}),
    ),
    JobAction(
        name="replay",
        title="Replay",
        effect="A new run with all its tries begins. The history of this run is kept.",
        states=frozenset({JobState.DEAD}),
    ),
    JobAction(
        name="dismiss",
        title="Dismiss",
        effect="The job leaves the dead letters and will not run again.",
        states=frozenset({JobState.DEAD}),
        is_dangerous=True,
    ),
    JobAction(
        name="cancel",
        title="Cancel",
        effect="The job ends. If its handler is running, the worker stops it.",
        states=LIVE,
        is_dangerous=True,
    ),
)


def actions_in(state: JobState | None) -> tuple[JobAction, ...]:
    return tuple(action for action in ACTIONS if state in action.states)


async def carry_out(
    client: AdminClient, job: JobAddress, form: Mapping[str, str], now: datetime
) -> ChangedJob:
    """Raises what the client raises.

    Raises FormInvalid for a form without a reason, and Invalid for one without an action or a time.
    """
    reason = form_values.reason(form)
    if form.get("action") == "reschedule":
        return await client.reschedule(job, _run_at(form, now), reason=reason)
    change = _changes(client).get(form.get("action", ""))
    if change is None:
        raise Invalid(f"{form.get('action', '')!r} is not an action of a job")
    return await change(job, reason=reason)


def _changes(client: AdminClient) -> Mapping[str, Callable[..., Awaitable[ChangedJob]]]:
    return {
        "cancel": client.cancel,
        "retry": client.retry,
        "replay": client.replay,
        "dismiss": client.dismiss,
        "run-now": client.run_now,
    }


def _run_at(form: Mapping[str, str], now: datetime) -> datetime:
    text = form.get("delay", "").strip().removeprefix("in ") or form.get("time", "").strip()
    try:
        return moment_after(text, now, UTC)
    except ValueError as error:
        raise Invalid(f"when the job is to run is missing or not a time: {error}") from None
