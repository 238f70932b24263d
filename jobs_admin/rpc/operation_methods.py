"""The RPCs that start, show and stop bulk operations."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobs_admin.api.contract import Rpcs
from jobs_admin.api.error_envelope import Invalid, NotFound
from jobs_admin.api.errors import Issue
from jobs_admin.api.views.base import Page
from jobs_admin.api.views.operations import (
    MatchedJobs,
    OneOperation,
    Operated,
    OperationFilter,
    OperationVerb,
    OperationView,
    PreviewView,
    operation_id,
)
from jobs_admin.operations import operation as moves
from jobs_admin.operations.operation import OperationRequest
from jobs_admin.operations.run import job_filter
from jobs_admin.operations.verbs import CHANGES
from jobs_admin.reads.read_your_writes import wait_for_position
from jobs_admin.reads.targets import count_matches
from jobs_admin.rpc.router import answered_by
from trellis_jobs.model.states import JobState

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from jobs_admin.api import inputs
    from jobs_admin.api.job_filter import JobFilter
    from jobs_admin.operations.operation import Operation
    from jobs_admin.operations.records import OperationRecords, Stored
    from jobs_admin.operations.runner import Runner
    from jobs_admin.reads.read_your_writes import LogProgress
    from jobs_admin.reads.readers import Readers
    from jobs_admin.reads.targets import MatchCount
    from jobs_admin.rpc.router import Caller, Method
    from trellis_jobs.jetstream.client.server_clock import ServerClock

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationMethods:
    """In a daemon that only answers RPCs `runner` is idle, and another daemon does the work."""

    readers: Readers
    progress: LogProgress
    records: OperationRecords
    runner: Runner
    clock: ServerClock
    new_id: Callable[[], str]
    now: Callable[[], datetime]

    def table(self) -> Mapping[str, Method]:
        return dict(
            [
                answered_by(Rpcs.OPERATE, self.operate),
                answered_by(Rpcs.GET_OPERATION, self.get_operation),
                answered_by(Rpcs.LIST_OPERATIONS, self.list_operations),
                answered_by(Rpcs.STOP_OPERATION, self.stop_operation),
            ]
        )

    async def operate(self, request: inputs.OperateInput, caller: Caller) -> Operated:
        await wait_for_position(self.progress, request.min_seq)
        _check_states(request)
        # Taken before the count, so that every counted job was in its state at this position.
        bound = self.progress.position
        which = OperationFilter(**request.to_filter(request.state).model_dump())
        preview = await self._preview(request, which)
        if request.dry_run:
            return Operated(preview=preview)
        planned = OperationRequest(
            verb=request.verb,
            filter=which,
            by=request.by or caller.session or "operator",
            reason=request.reason,
            rate=request.rate,
            total=preview.count,
            run_at=request.run_at or await self._time_to_run(request.verb),
        )
        started = moves.start(operation_id(self.new_id()), planned, bound, self.now())
        stored = await self.records.create(started)
        log.info(
            "operation %s started: %s %d jobs, by %s",
            started.id,
            started.verb.value,
            started.total,
            started.by,
            extra={"operation": started.id, "reason": started.reason},
        )
        self.runner.wake()
        return Operated(preview=preview, operation=_shown(stored.operation))

    async def get_operation(self, request: inputs.OperationInput, _: Caller) -> OneOperation:
        return OneOperation(operation=_shown((await self._find(request.id)).operation))

    async def list_operations(self, request: inputs.PageInput, _: Caller) -> Page[OperationView]:
        found = await self.records.all()
        shown = found[request.offset : request.offset + request.limit]
        return Page[OperationView].of(
            [_shown(stored.operation) for stored in shown],
            count=len(found),
            offset=request.offset,
            limit=request.limit,
        )

    async def stop_operation(self, request: inputs.StopInput, caller: Caller) -> OneOperation:
        by = request.by or caller.session or "operator"
        stored = await self._find(request.id)
        stopped = await self.records.change(
            stored, lambda operation: moves.stop(operation, by, self.now())
        )
        if stopped is None:
            state = (await self._find(request.id)).operation.state
            problem = f"operation {request.id} is already {state.value}"
            raise Invalid(problem, [Issue("/id", problem)], actual=state.value)
        log.info("%s stops operation %s", by, request.id)
        return OneOperation(operation=_shown(stopped.operation))

    async def _time_to_run(self, verb: OperationVerb) -> datetime | None:
        return await self.clock.now() if verb is OperationVerb.RUN_NOW else None

    async def _find(self, operation_id: str) -> Stored:
        stored = await self.records.read(operation_id)
        if stored is None:
            raise NotFound(operation_id, resource="Operation")
        return stored

    async def _preview(self, request: inputs.OperateInput, which: OperationFilter) -> PreviewView:
        legal = CHANGES[request.verb].legal_from
        meant = await self._matched(job_filter(request.verb, which))
        others = [] if request.state else [state for state in JobState if state not in legal]
        return PreviewView(
            count=sum(each.jobs for each in meant),
            jobs=tuple(meant),
            refused=tuple(await self._matched(request.to_filter(others))),
        )

    async def _matched(self, jobs: JobFilter) -> list[MatchedJobs]:
        return [_matched_jobs(each) for each in await count_matches(self.readers, jobs)]


def _check_states(request: inputs.OperateInput) -> None:
    """Reject states in which every job would be refused."""
    legal = CHANGES[request.verb].states
    for state in request.state or ():
        if state not in legal:
            allowed = " or ".join(legal)
            problem = (
                f"only {allowed} jobs can be {CHANGES[request.verb].participle}, not {state} ones"
            )
            raise Invalid(problem, [Issue("/state", problem)])


def _matched_jobs(each: MatchCount) -> MatchedJobs:
    return MatchedJobs(
        service=each.service, type=each.type, state=JobState(each.state), jobs=each.jobs
    )


def _shown(operation: Operation) -> OperationView:
    """Leave out the fields that only daemons use."""
    return OperationView.model_validate(operation.model_dump())
