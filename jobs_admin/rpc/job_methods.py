"""Requests about jobs: ask a reader or carry out an action, and shape the answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson

from jobs_admin import actions
from jobs_admin.actions import Done, NotLegal, Order
from jobs_admin.reads import jobs as reads
from jobs_admin.rpc import inputs
from jobs_admin.rpc.catching_up import caught_up
from jobs_admin.rpc.faults import Invalid, Issue, NotFound
from jobs_admin.rpc.router import Method
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.states import JobState
from trellis_jobs.wire.fields import dumps

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobs_admin.actions import Actions, Plan
    from jobs_admin.projection.projector import Projector
    from jobs_admin.reads.jobs import Page, StoredJob
    from jobs_admin.reads.readers import Readers
    from jobs_admin.rpc.router import Asker

_DEAD: Final = frozenset({JobState.DEAD})


@dataclass(frozen=True, slots=True)
class JobMethods:
    readers: Readers
    projector: Projector
    actions: Actions

    def table(self) -> Mapping[str, Method]:
        return {
            "Jobs.List": Method(inputs.ListInput, self.list_jobs),
            "Jobs.Get": Method(inputs.JobInput, self.get_job),
            "Jobs.ListDLQ": Method(inputs.DeadInput, self.list_dead),
            "Jobs.Cancel": Method(inputs.ActionInput, self.cancel),
            "Jobs.Retry": Method(inputs.ActionInput, self.retry),
            "Jobs.ReplayDLQ": Method(inputs.ActionInput, self.replay),
            "Jobs.DismissDLQ": Method(inputs.ActionInput, self.dismiss),
        }

    async def list_jobs(self, asked: inputs.ListInput, _: Asker) -> bytes:
        return await self._page(asked, asked.state)

    async def list_dead(self, asked: inputs.DeadInput, _: Asker) -> bytes:
        return await self._page(asked, [JobState.DEAD])

    async def get_job(self, asked: inputs.JobInput, _: Asker) -> dict[str, Any]:
        await caught_up(self.projector, asked.min_seq)
        return {"job": await self._shown(await self._find(asked))}

    async def cancel(self, asked: inputs.ActionInput, asker: Asker) -> dict[str, Any]:
        return await self._act(
            actions.cancel, asked, asker, actions.legal_from(EventKind.CANCELLED)
        )

    async def retry(self, asked: inputs.ActionInput, asker: Asker) -> dict[str, Any]:
        return await self._act(actions.retry, asked, asker, actions.legal_from(EventKind.RETRIED))

    async def replay(self, asked: inputs.ActionInput, asker: Asker) -> dict[str, Any]:
        return await self._act(actions.retry, asked, asker, _DEAD)

    async def dismiss(self, asked: inputs.ActionInput, asker: Asker) -> dict[str, Any]:
        return await self._act(
            actions.dismiss, asked, asker, actions.legal_from(EventKind.DISMISSED)
        )

    async def _page(self, asked: inputs.DeadInput, states: list[JobState] | None) -> bytes:
        await caught_up(self.projector, asked.min_seq)
        wanted = asked.wanted(states)
        return _page_json(
            await reads.page(self.readers, wanted, offset=asked.offset, limit=asked.limit)
        )

    async def _act(
        self,
        plan: Plan,
        asked: inputs.ActionInput,
        asker: Asker,
        legal_from: frozenset[JobState],
    ) -> dict[str, Any]:
        """Answers once the projection has the event (design D17), with the job as it is then."""
        found = await self._find(asked)
        address = JobAddress(found.service, found.type, found.id)
        order = Order(by=asked.by or asker.session or "operator", reason=asked.reason)
        outcome = await self.actions.carry_out(plan, address, order, legal_from=legal_from)
        match outcome:
            case Done(head):
                await caught_up(self.projector, head.sequence)
                return {"job": await self._shown(await self._find(asked)), "seq": head.sequence}
            case NotLegal(state, legal):
                raise _wrong_state(found, state, legal)
            case _:
                raise NotFound(asked.id)

    async def _find(self, asked: inputs.JobInput) -> StoredJob:
        try:
            found = await reads.find(
                self.readers, asked.id, service=asked.service, job_type=asked.type
            )
        except reads.AmbiguousId as ambiguous:
            raise Invalid(str(ambiguous), [Issue("/id", str(ambiguous))]) from None
        if found is None:
            raise NotFound(asked.id)
        return found

    async def _shown(self, found: StoredJob) -> dict[str, Any]:
        logs = await reads.lines(self.readers, found.number)
        return {**found.document, "logs": logs, "lastSeq": found.last_sequence}


def _page_json(page: Page) -> bytes:
    """The entries are JSON already, and go out as they are."""
    body: dict[str, Any] = {
        "entries": [orjson.Fragment(document) for document in page.documents],
        "count": page.count,
        "offset": page.offset,
        "limit": page.limit,
    }
    if page.offset + page.limit < page.count:
        body["nextOffset"] = page.offset + page.limit
    return dumps(body)


def _wrong_state(found: StoredJob, state: JobState, legal: tuple[str, ...]) -> Invalid:
    expected = " or ".join(legal)
    message = f"job {found.id} is {state}; this needs it to be {expected}"
    return Invalid(
        message,
        [Issue("/id", message)],
        field="state",
        jobKey=f"{found.service}/{found.type}/{found.id}",
        expected=list(legal),
        actual=state.value,
    )
