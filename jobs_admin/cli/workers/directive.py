"""The steps of every command that directs workers: select, confirm, direct, wait, report."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer

from jobs_admin.api.client import REQUEST_TIMEOUT, AdminClient
from jobs_admin.api.views.workers import DirectedWorker, DirectiveOutcome, WorkerProcessView
from jobs_admin.api.worker_filter import WorkerFilter
from jobs_admin.cli.actor import By, actor_name
from jobs_admin.cli.confirm import PANEL, Yes, confirm, require_terminal_or_yes
from jobs_admin.cli.connection import DEFAULT_TIMEOUT, ConnectionOptions
from jobs_admin.cli.exit_codes import Exit, Missing, as_sentence
from jobs_admin.cli.render.counts import count
from jobs_admin.cli.render.output import (
    JsonOutput,
    present_fields,
    print_json,
    print_stderr,
    print_text,
    progress_bar,
)
from jobs_admin.cli.run import run, run_and_return
from jobs_admin.cli.time_options import seconds
from jobs_admin.cli.workers.control import WorkerControl
from jobs_admin.cli.workers.selection import WorkerSelection
from jobs_admin.workers.directives import WantedState
from jobs_admin.workers.wait import (
    FollowedWorkers,
    Progress,
    WorkerId,
    follow_progress,
    worker_id,
)
from trellis_jobs.jetstream.client.connection import Connection
from trellis_jobs.model.worker_states import WorkerState

_FOLLOWED: Final = {
    WorkerState.RUNNING: "runs",
    WorkerState.QUIET: "is quiet and has no jobs",
    WorkerState.TERMINATE: "has stopped",
}
_WAITABLE: Final = (DirectiveOutcome.DIRECTED, DirectiveOutcome.UNCHANGED)

WaitTimeout = Annotated[
    str | None,
    typer.Option(
        help="Longest time to wait: 30s, 10m. Default: no limit.",
        metavar="DURATION",
        rich_help_panel=PANEL,
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeOptions:
    """Options of every command that directs workers."""

    reason: Annotated[
        str | None,
        typer.Option(
            help="Why; `workers list` and the worker's log show it.",
            metavar="TEXT",
            rich_help_panel=PANEL,
        ),
    ] = None
    by: By = None
    yes: Yes = False
    timeout: WaitTimeout = None

    @property
    def seconds(self) -> float | None:
        return seconds("--timeout", self.timeout)


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectiveOptions(ChangeOptions):
    wait: Annotated[
        bool,
        typer.Option("--wait", help="Wait until the workers have followed.", rich_help_panel=PANEL),
    ] = False

    def check(self) -> None:
        if self.timeout is not None and not self.wait:
            raise typer.BadParameter("it has an effect only with --wait", param_hint="--timeout")


@dataclass(frozen=True, slots=True)
class Phase:
    """A directive to the chosen workers, and whether the command waits until they followed it."""

    verb: str
    state: WorkerState
    waits: bool


@dataclass(slots=True)
class PhaseResult:
    """`followed` is None if the command did not wait. `timed_out`: some did not follow in time."""

    phase: Phase
    directed: Sequence[DirectedWorker]
    followed: FollowedWorkers | None = None
    timed_out: bool = False

    def has_ended(self, worker: WorkerProcessView) -> bool:
        """Whether the worker was seen to have ended while the command waited for it."""
        if self.followed is None:
            return False
        newest = self.followed.records.get(worker_id(worker))
        return newest is None or newest.has_ended

    @property
    def exit(self) -> Exit:
        outcomes = {each.outcome for each in self.directed}
        lost = DirectiveOutcome.GONE in outcomes and self.phase.state is WorkerState.RUNNING
        missed = self.followed is not None and any(
            self.followed.having(each) for each in (Progress.OVERRIDDEN, Progress.ENDED)
        )
        if DirectiveOutcome.REFUSED in outcomes or lost or missed:
            return Exit.REFUSED
        return Exit.UNREACHABLE if self.timed_out else Exit.OK


def direct_workers(
    phases: Sequence[Phase],
    selection: WorkerSelection,
    change: ChangeOptions,
    output: JsonOutput,
    options: ConnectionOptions,
) -> None:
    """Each phase begins only if all workers have followed the one before."""
    selection.check()
    limit = change.seconds
    verb = phases[-1].verb
    chosen = run_and_return(_choose(options, selection))
    several = len(chosen) > 1
    question = f"{verb} {_workers(len(chosen))}"
    require_terminal_or_yes(change.yes or not several, question)
    if several and not change.yes:
        for worker in chosen:
            print_stderr(f"  {label(worker)}: {worker.state}, {_jobs(worker)}")
        confirm(f"{question.capitalize()}?")
    run(_direct(options, phases, chosen, change, limit, output))


async def _choose(
    options: ConnectionOptions, selection: WorkerSelection
) -> list[WorkerProcessView]:
    async with options.connection() as connection:
        found = await _control(connection).list_workers(selection.query)
    chosen = selection.choose(found)
    if not chosen:
        raise Missing("no worker matches; `trellis-jobs workers list` shows all of them")
    return chosen


def _control(connection: Connection, by: str | None = None) -> WorkerControl:
    admin = AdminClient(
        connection, by=by, timeout=REQUEST_TIMEOUT, read_timeout=DEFAULT_TIMEOUT / 2
    )
    return WorkerControl(connection, admin)


async def _direct(
    options: ConnectionOptions,
    phases: Sequence[Phase],
    chosen: Sequence[WorkerProcessView],
    change: ChangeOptions,
    limit: float | None,
    output: JsonOutput,
) -> Exit:
    by = actor_name(change.by)
    results: list[PhaseResult] = []
    async with options.connection(reconnect=True) as connection:
        control = _control(connection, by)
        for phase in phases:
            wanted = WantedState(state=phase.state, by=by, reason=change.reason)
            result = await _run_phase(control, phase, chosen, wanted, limit)
            results.append(result)
            if not output.json:
                _show(result, chosen, limit)
            chosen = [worker for worker in chosen if not result.has_ended(worker)]
            if result.exit is not Exit.OK or not chosen:
                break
    _show_way(control)
    if output.json:
        print_json({"phases": [_to_json(result, control) for result in results]})
    return results[-1].exit


async def _run_phase(
    control: WorkerControl,
    phase: Phase,
    chosen: Sequence[WorkerProcessView],
    wanted: WantedState,
    limit: float | None,
) -> PhaseResult:
    directed = await control.direct([worker_id(worker) for worker in chosen], wanted)
    result = PhaseResult(phase, directed)
    epochs = {
        (each.service, each.instance_id): each.epoch or 0
        for each in directed
        if each.outcome in _WAITABLE
    }
    if phase.waits and epochs:
        await _wait(control, result, epochs, limit)
    return result


async def _wait(
    control: WorkerControl, result: PhaseResult, epochs: Mapping[WorkerId, int], limit: float | None
) -> None:
    services = {service for service, _ in epochs}
    only = next(iter(services)) if len(services) == 1 else None

    async def read() -> list[WorkerProcessView]:
        return await control.list_workers(WorkerFilter(service=only))

    reading = follow_progress(read, epochs, result.phase.state)
    try:
        async with asyncio.timeout(limit), aclosing(reading) as progress:
            with progress_bar("waiting for workers") as bar:
                async for followed in progress:
                    result.followed = followed
                    waiting = len(followed.having(Progress.WAITING))
                    bar(len(epochs) - waiting, len(epochs))
    except TimeoutError:
        result.timed_out = True


def _show(result: PhaseResult, chosen: Sequence[WorkerProcessView], limit: float | None) -> None:
    labels = {worker_id(worker): label(worker) for worker in chosen}
    for each in result.directed:
        name = (each.service, each.instance_id)
        print_text(f"{labels[name]}: {_words(each, result, name)}")
    if result.timed_out:
        waiting = [] if result.followed is None else result.followed.having(Progress.WAITING)
        print_stderr(
            f"Timed out after {limit:g} s: {_workers(len(waiting) or len(result.directed))} did "
            "not follow in time. The directive stays: they follow it when they can."
        )


def _words(each: DirectedWorker, result: PhaseResult, name: WorkerId) -> str:
    state = result.phase.state
    match each.outcome:
        case DirectiveOutcome.REFUSED:
            return f"refused: {each.refused_because}"
        case DirectiveOutcome.GONE:
            return "gone: its record was removed"
    if result.followed is None:
        is_new = each.outcome is DirectiveOutcome.DIRECTED
        return f"directed to be {state}" if is_new else f"already {state}"
    match result.followed.progress[name]:
        case Progress.FOLLOWED:
            return _FOLLOWED[state]
        case Progress.OVERRIDDEN:
            return "another operator has directed it otherwise"
        case Progress.ENDED:
            return "gone: it stopped, or was declared dead"
        case Progress.WAITING:
            newest = result.followed.records.get(name)
            return "waiting" if newest is None else f"waiting: {newest.state}, {_jobs(newest)}"


def _show_way(control: WorkerControl) -> None:
    if control.admin_error is None:
        print_stderr("The admin runtime wrote the directives.")
    else:
        print_stderr(
            f"The directives were written directly. {as_sentence(control.admin_error).capitalize()}"
        )


def _to_json(result: PhaseResult, control: WorkerControl) -> dict[str, Any]:
    workers = []
    for each in result.directed:
        entry = present_fields(each)
        if result.followed is not None:
            found = result.followed.progress.get((each.service, each.instance_id))
            if found is not None:
                entry["progress"] = found.name.lower()
        workers.append(entry)
    return {
        "state": result.phase.state.value,
        "through": "admin" if control.admin_error is None else "records",
        "timedOut": result.timed_out,
        "workers": workers,
    }


def label(worker: WorkerProcessView) -> str:
    return f"{worker.instance_id} of {worker.service} on {worker.name}"


def _jobs(worker: WorkerProcessView) -> str:
    return "1 job" if worker.active_jobs == 1 else f"{count(worker.active_jobs)} jobs"


def _workers(number: int) -> str:
    return "1 worker" if number == 1 else f"{count(number)} workers"
