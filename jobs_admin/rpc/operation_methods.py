"""The RPCs that start, show and stop bulk operations."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jobs_admin.api.error_envelope import Invalid, NotFound
from jobs_admin.api.errors import Issue
from jobs_admin.api.views.operations import (
    MatchedJobs,
    Operated,
    OperationFilter,
    OperationView,
    PreviewView,
)
from jobs_admin.operations import operation as moves
from jobs_admin.operations.operation import OperationRequest
from jobs_admin.operations.run import job_filter
from jobs_admin.operations.verbs import CHANGES
from jobs_admin.reads.read_your_writes import wait_for_position
from jobs_admin.reads.targets import count_matches
from jobs_admin.rpc.pages import page_json
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

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationMethods:
    """In a daemon that only answers RPCs `runner` is idle, and another daemon does the work."""

    readers: Readers
    progress: LogProgress
    records: OperationRecords
    runner: Runner
    new_id: Callable[[], str]
    now: Callable[[], datetime]
    max_reply_bytes: Callable[[], int]

    def table(self) -> Mapping[str, Method]:
        return {
            "Jobs.Operate": self.operate,
            "Jobs.GetOperation": self.get_operation,
            "Jobs.ListOperations": self.list_operations,
            "Jobs.StopOperation": self.stop_operation,
        }

    async def operate(self, request: inputs.OperateInput, caller: Caller) -> dict[str, Any]:
        await wait_for_position(self.progress, request.min_seq)
        _check_states(request)
        # Taken before the count, so that every counted job was in its state at this position.
        bound = self.progress.position
        which = OperationFilter(**{name: getattr(request, name) for name in _FILTERS})
        preview = await self._preview(request, which)
        if request.dry_run:
            return _json(Operated(preview=preview))
        planned = OperationRequest(
            verb=request.verb,
            filter=which,
            by=request.by or caller.session or "operator",
            reason=request.reason,
            rate=request.rate,
            total=preview.count,
        )
        started = moves.start(self.new_id(), planned, bound, self.now())
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
        return _json(Operated(preview=preview, operation=_shown(stored.operation)))

    async def get_operation(self, request: inputs.OperationInput, _: Caller) -> dict[str, Any]:
        return _one((await self._find(request.id)).operation)

    async def list_operations(self, request: inputs.PageInput, _: Caller) -> bytes:
        found = await self.records.all()
        entries = [
            _shown(stored.operation).model_dump_json(by_alias=True, exclude_none=True).encode()
            for stored in found[request.offset : request.offset + request.limit]
        ]
        return page_json(
            entries,
            count=len(found),
            offset=request.offset,
            limit=request.limit,
            room=self.max_reply_bytes(),
        )

    async def stop_operation(self, request: inputs.StopInput, caller: Caller) -> dict[str, Any]:
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
        return _one(stopped.operation)

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


_FILTERS = tuple(OperationFilter.model_fields)


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


def _one(operation: Operation) -> dict[str, Any]:
    return {"operation": _json(_shown(operation))}


def _json(view: Operated | OperationView) -> dict[str, Any]:
    return view.model_dump(mode="json", by_alias=True, exclude_none=True)
