"""Worker processes by service and version, and directives to them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, cast

from jobs_admin.api.views.workers import DirectiveOutcome
from jobs_admin.api.worker_filter import WorkerFilter
from jobs_admin.api.worker_words import directive_words, silence_words
from jobs_admin.console import form_values
from jobs_admin.console.form_values import FormInvalid
from jobs_admin.console.links import workers_path
from jobs_admin.console.live import EVERY_SECOND
from jobs_admin.console.users import Role
from jobs_admin.console.worker_groups import worker_groups
from trellis_jobs.model.worker_states import WorkerState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.responses import Response

    from jobs_admin.api.views.workers import DirectedWorker
    from jobs_admin.console.console_request import ConsoleRequest

_MAX_WORKERS: Final = 50
_MAX_SERVICES: Final = 500
_FIELDS: Final = ("service", "host", "version", "label", "id")
_DIRECTIVES: Final = (WorkerState.RUNNING, WorkerState.QUIET, WorkerState.TERMINATE)
Directive: TypeAlias = Literal[WorkerState.RUNNING, WorkerState.QUIET, WorkerState.TERMINATE]


async def show(request: ConsoleRequest) -> Response:
    wanted = filter_of(request.query)
    workers, services = await asyncio.gather(
        request.reads.list_workers(wanted, limit=_MAX_WORKERS, offset=request.offset),
        request.reads.list_services(limit=_MAX_SERVICES),
    )
    given = {name: request.query.get(name, "") for name in _FIELDS}
    return request.render(
        "workers.html",
        topics=EVERY_SECOND,
        page=workers,
        groups=worker_groups(workers.entries, services.entries),
        given=given,
        # A directive by filter must name more than the beginning of an id.
        is_filtered=any(value for name, value in given.items() if name != "id"),
        directive_words=directive_words,
        silence_words=silence_words,
    )


def filter_of(values: Mapping[str, str]) -> WorkerFilter:
    label = form_values.text(values, "label")
    return WorkerFilter(
        service=form_values.text(values, "service"),
        host=form_values.text(values, "host"),
        version=form_values.text(values, "version"),
        labels=(label,) if label else (),
        id_prefix=form_values.text(values, "id"),
    )


async def direct(request: ConsoleRequest) -> Response:
    """Of one worker if the form names one, and else of all that match its filter."""
    form = await request.form()
    state = form.get("state", "")
    if state not in set(_DIRECTIVES):
        raise FormInvalid(f"state: {state!r} is not a directive")
    why = form_values.reason(form)
    service, instance = form_values.text(form, "service"), form_values.text(form, "instance_id")
    wanted = filter_of({name: value for name, value in form.items() if name != "id"})
    if instance is None and wanted.is_empty:
        raise FormInvalid("a directive needs a worker, or a filter: it would stop all workers")
    chosen = wanted if instance is None else [(service or "", instance)]
    admin = request.client(Role.OPERATOR)
    directed = await admin.direct_workers(chosen, cast("Directive", WorkerState(state)), reason=why)
    refuse_if_refused(directed)
    if instance is not None:
        return request.redirect(workers_path(service=service or ""))
    kept = {name: form[name] for name in _FIELDS if form.get(name) and name != "id"}
    return request.redirect(workers_path(**kept))


def refuse_if_refused(directed: tuple[DirectedWorker, ...]) -> None:
    """Raises FormInvalid if no worker was directed."""
    refused = [each for each in directed if each.outcome is DirectiveOutcome.REFUSED]
    if not directed:
        raise FormInvalid("no worker matches: nothing was done")
    if len(refused) == len(directed):
        reasons = {each.refused_because or "refused" for each in refused}
        raise FormInvalid(f"no worker was directed: {'; '.join(sorted(reasons))}")
