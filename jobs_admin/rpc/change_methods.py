"""The RPC by which consoles learn that something has changed."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobs_admin.api.contract import Rpcs
from jobs_admin.api.views.changes import ChangesView
from jobs_admin.rpc.router import answered_by

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobs_admin.api import inputs
    from jobs_admin.projection.projector import Projector
    from jobs_admin.reads.read_your_writes import ProjectionProgress
    from jobs_admin.rpc.router import Caller, Method


@dataclass(frozen=True, slots=True)
class ChangeMethods:
    """`projector` is None if another process writes the projection: then no jobs are listed."""

    projector: Projector | None
    progress: ProjectionProgress

    def table(self) -> Mapping[str, Method]:
        return dict([answered_by(Rpcs.CHANGES, self.get_changes)])

    async def get_changes(self, request: inputs.ChangesInput, _: Caller) -> ChangesView:
        with suppress(TimeoutError):
            async with asyncio.timeout(request.wait_ms / 1_000):
                await self._wait_beyond(request.after_seq)
        position = self.progress.position
        jobs = (
            None if self.projector is None else self.projector.recent.jobs_after(request.after_seq)
        )
        return ChangesView(seq=position, jobs=() if position <= request.after_seq else jobs)

    async def _wait_beyond(self, sequence: int) -> None:
        if self.projector is None:
            await self.progress.wait_for(sequence + 1)
        else:
            await self.projector.wait_beyond(sequence)
