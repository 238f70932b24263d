"""The RPC that lists what operators did: events of jobs, and records of everything else."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING

from jobs_admin.api.contract import Rpcs
from jobs_admin.api.views.audit import AuditEntry, AuditPage
from jobs_admin.reads.operator_actions import newest_actions
from jobs_admin.reads.read_your_writes import wait_for_position
from jobs_admin.rpc.router import answered_by

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobs_admin.api import inputs
    from jobs_admin.audit.registry import AuditRegistry
    from jobs_admin.reads.read_your_writes import ProjectionProgress
    from jobs_admin.reads.readers import Readers
    from jobs_admin.rpc.router import Caller, Method
    from trellis_jobs.jetstream.client.server_clock import ServerClock
    from trellis_jobs.jetstream.control.records import ControlRecords


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditMethods:
    readers: Readers
    progress: ProjectionProgress
    registry: AuditRegistry
    records: ControlRecords
    clock: ServerClock

    def table(self) -> Mapping[str, Method]:
        return dict([answered_by(Rpcs.LIST_AUDIT, self.list_audit)])

    async def list_audit(self, request: inputs.AuditInput, _: Caller) -> AuditPage:
        """Both kinds of entries have the server's time, so that they can be merged by it."""
        await wait_for_position(self.progress, request.min_seq)
        problem = await self.registry.until_current(self.records)
        now = await self.clock.now()
        records = [entry for entry in self.registry.newest_first(now) if _matches(entry, request)]
        end = request.offset + request.limit
        actions, count = await newest_actions(self.readers, request, end)
        both = merge(records, actions, key=lambda entry: entry.at, reverse=True)
        return AuditPage(
            entries=tuple(islice(both, request.offset, end)),
            count=count + len(records),
            offset=request.offset,
            limit=request.limit,
            problem=problem,
        )


def _matches(entry: AuditEntry, wanted: inputs.AuditInput) -> bool:
    return (
        wanted.by in (None, entry.by)
        and wanted.verb in (None, entry.verb)
        and wanted.target in (None, entry.target)
        and wanted.service in (None, entry.service)
        and wanted.type in (None, entry.type)
        and (wanted.since is None or entry.at >= wanted.since)
        and (wanted.until is None or entry.at < wanted.until)
    )
