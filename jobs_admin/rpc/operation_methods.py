"""Requests about changes of many jobs: start, look at, stop."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jobs_admin.api import inputs
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
from jobs_admin.operations.operation import Request
from jobs_admin.operations.run import wanted
from jobs_admin.operations.verbs import CHANGES
from jobs_admin.reads.read_your_writes import caught_up
from jobs_admin.reads.targets import matched
from jobs_admin.rpc.pages import page_json
from jobs_admin.rpc.router import Method
from trellis_jobs.model.states import JobState

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from jobs_admin.api.job_filter import JobFilter
    from jobs_admin.operations.operation import Operation
    from jobs_admin.operations.records import OperationRecords, Stored
    from jobs_admin.operations.runner import Runner
    from jobs_admin.reads.read_your_writes import LogProgress
    from jobs_admin.reads.readers import Readers
    from jobs_admin.reads.targets import Matched
    from jobs_admin.rpc.router import Asker

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationMethods:
    """`runner` takes no notice in a daemon that only answers: then another daemon does the work."""

    readers: Readers
    progress: LogProgress
    records: OperationRecords
    runner: Runner
    new_id: Callable[[], str]
    now: Callable[[], datetime]
    largest_answer: Callable[[], int]

    def table(self) -> Mapping[str, Method]:
        return {
            "Jobs.Operate": Method(inputs.OperateInput, self.operate),
            "Jobs.GetOperation": Method(inputs.OperationInput, self.get_operation),
            "Jobs.ListOperations": Method(inputs.PageInput, self.list_operations),
            "Jobs.StopOperation": Method(inputs.StopInput, self.stop_operation),
        }

    async def operate(self, asked: inputs.OperateInput, asker: Asker) -> dict[str, Any]:
        await caught_up(self.progress, asked.min_seq)
        _check_states(asked)
        # Before the count: every job that is counted was in its state by then.
        bound = self.progress.position
        which = OperationFilter(**{name: getattr(asked, name) for name in _FILTERS})
        preview = await self._preview(asked, which)
        if asked.dry_run:
            return _json(Operated(preview=preview))
        request = Request(
            verb=asked.verb,
            filter=which,
            by=asked.by or asker.session or "operator",
            reason=asked.reason,
            rate=asked.rate,
            total=preview.count,
        )
        started = moves.start(self.new_id(), request, bound, self.now())
        stored = await self.records.create(started)
        log.info(
            "operation %s started: %s %d jobs, by %s",
            started.id,
            started.verb.value,
            started.total,
            started.by,
            extra={"operation": started.id, "reason": started.reason},
        )
        self.runner.look_now()
        return _json(Operated(preview=preview, operation=_shown(stored.operation)))

    async def get_operation(self, asked: inputs.OperationInput, _: Asker) -> dict[str, Any]:
        return _one((await self._find(asked.id)).operation)

    async def list_operations(self, asked: inputs.PageInput, _: Asker) -> bytes:
        found = await self.records.all()
        entries = [
            _shown(stored.operation).model_dump_json(by_alias=True, exclude_none=True).encode()
            for stored in found[asked.offset : asked.offset + asked.limit]
        ]
        return page_json(
            entries,
            count=len(found),
            offset=asked.offset,
            limit=asked.limit,
            room=self.largest_answer(),
        )

    async def stop_operation(self, asked: inputs.StopInput, asker: Asker) -> dict[str, Any]:
        by = asked.by or asker.session or "operator"
        stored = await self._find(asked.id)
        stopped = await self.records.change(
            stored, lambda operation: moves.stop(operation, by, self.now())
        )
        if stopped is None:
            state = (await self._find(asked.id)).operation.state
            problem = f"operation {asked.id} is {state.value}: there is nothing to stop"
            raise Invalid(problem, [Issue("/id", problem)], actual=state.value)
        log.info("operation %s is asked to stop, by %s", asked.id, by)
        return _one(stopped.operation)

    async def _find(self, operation_id: str) -> Stored:
        stored = await self.records.read(operation_id)
        if stored is None:
            raise NotFound(operation_id, resource="Operation")
        return stored

    async def _preview(self, asked: inputs.OperateInput, which: OperationFilter) -> PreviewView:
        legal = CHANGES[asked.verb].legal_from
        meant = await self._matched(wanted(asked.verb, which))
        others = [] if asked.state else [state for state in JobState if state not in legal]
        return PreviewView(
            count=sum(each.jobs for each in meant),
            jobs=tuple(meant),
            refused=tuple(await self._matched(asked.wanted(others))),
        )

    async def _matched(self, jobs: JobFilter) -> list[MatchedJobs]:
        return [_matched_jobs(each) for each in await matched(self.readers, jobs)]


_FILTERS = tuple(OperationFilter.model_fields)


def _check_states(asked: inputs.OperateInput) -> None:
    """A job in another state would only be refused."""
    legal = CHANGES[asked.verb].states
    for state in asked.state or ():
        if state not in legal:
            allowed = " or ".join(legal)
            problem = f"{asked.verb.value} is possible for jobs that are {allowed}, not {state}"
            raise Invalid(problem, [Issue("/state", problem)])


def _matched_jobs(each: Matched) -> MatchedJobs:
    return MatchedJobs(
        service=each.service, type=each.type, state=JobState(each.state), jobs=each.jobs
    )


def _shown(operation: Operation) -> OperationView:
    """Without what only daemons need."""
    return OperationView.model_validate(operation.model_dump())


def _one(operation: Operation) -> dict[str, Any]:
    return {"operation": _json(_shown(operation))}


def _json(view: Operated | OperationView) -> dict[str, Any]:
    return view.model_dump(mode="json", by_alias=True, exclude_none=True)
