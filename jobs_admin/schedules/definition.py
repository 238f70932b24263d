"""The definition of a schedule that an operator makes, checked against the queue's contract."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from jobs_admin.api.error_envelope import Invalid
from jobs_admin.api.errors import Issue
from jobs_admin.hidden_values import HiddenValues
from trellis_jobs.contract.payload_types import TypeMismatch
from trellis_jobs.contract.schedules import Cron, Every, resolve_new
from trellis_jobs.errors import DeclarationError, KeyUnresolvable

if TYPE_CHECKING:
    from jobs_admin.api.schedule_inputs import PutScheduleInput
    from trellis_jobs.contract.declaration import JobType
    from trellis_jobs.model.schedules.definition import ScheduleDefinition

_MILLISECOND: Final = timedelta(milliseconds=1)


def read_definition(request: PutScheduleInput, queue: JobType[Any, Any]) -> ScheduleDefinition:
    """Raises Invalid, which names the field."""
    if hidden := HiddenValues.of(request.payload, queue.payload.secrets):
        raise Invalid(hidden.problem, hidden.issues)
    try:
        payload = queue.payload.from_json(request.payload)
    except TypeMismatch as mismatch:
        problem = f"the payload is not valid for queue {queue.name}: {mismatch}"
        raise _invalid("/payload", problem) from None
    try:
        definition = resolve_new(_declared(request, payload), queue.payload, queue.version)
        if queue.key_policy is not None:
            queue.key_policy.template.resolve(definition.payload)
    except DeclarationError as error:
        raise _invalid("/", str(error)) from None
    except KeyUnresolvable as error:
        raise _invalid("/payload", str(error)) from None
    return definition


def _declared(request: PutScheduleInput, payload: object) -> Cron | Every:
    options: dict[str, Any] = {
        "payload": payload,
        "jitter": request.jitter_ms * _MILLISECOND,
        "start": request.start,
        "end": request.end,
        "catch_up": request.catch_up,
        "max_catch_up": request.max_catch_up,
        "overlap": request.overlap,
    }
    if request.cron is not None:
        return Cron(request.cron, tz=request.time_zone or "UTC", **options)
    return Every((request.every_ms or 0) * _MILLISECOND, **options)


def _invalid(path: str, problem: str) -> Invalid:
    return Invalid(problem, [Issue(path, problem)])
