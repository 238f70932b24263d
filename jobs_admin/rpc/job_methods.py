"""Requests about jobs: ask a reader or carry out an action, and shape the answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson

from jobs_admin.actions import job_actions
from jobs_admin.actions.job_actions import ActionRequest, Done, NotLegal
from jobs_admin.api import inputs
from jobs_admin.api.error_envelope import Invalid, NotFound
from jobs_admin.api.errors import Issue
from jobs_admin.reads import jobs as reads
from jobs_admin.reads.dead_groups import dead_groups
from jobs_admin.reads.read_your_writes import caught_up, showing_what_was_done
from jobs_admin.rpc.job_lookup import address_of, find
from jobs_admin.rpc.pages import job_page_json, page_json, without_the_large
from jobs_admin.rpc.router import Method
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.states import JobState
from trellis_jobs.wire.fields import add_present, dumps

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jobs_admin.actions.job_actions import Actions, Plan
    from jobs_admin.reads.dead_groups import DeadGroup
    from jobs_admin.reads.jobs import StoredJob
    from jobs_admin.reads.read_your_writes import LogProgress
    from jobs_admin.reads.readers import Readers
    from jobs_admin.rpc.router import Asker

_DEAD: Final = frozenset({JobState.DEAD})
_AROUND_THE_JOB: Final = 1024


@dataclass(frozen=True, slots=True)
class JobMethods:
    readers: Readers
    progress: LogProgress
    actions: Actions
    largest_answer: Callable[[], int]

    def table(self) -> Mapping[str, Method]:
        return {
            "Jobs.List": Method(inputs.ListInput, self.list_jobs),
            "Jobs.Get": Method(inputs.JobInput, self.get_job),
            "Jobs.ListDLQ": Method(inputs.DeadInput, self.list_dead),
            "Jobs.GroupDLQ": Method(inputs.FilterInput, self.group_dead),
            "Jobs.Cancel": Method(inputs.ActionInput, self.cancel),
            "Jobs.Retry": Method(inputs.ActionInput, self.retry),
            "Jobs.ReplayDLQ": Method(inputs.ActionInput, self.replay),
            "Jobs.DismissDLQ": Method(inputs.ActionInput, self.dismiss),
        }

    async def list_jobs(self, asked: inputs.ListInput, _: Asker) -> bytes:
        return await self._page(asked, asked.state)

    async def list_dead(self, asked: inputs.DeadInput, _: Asker) -> bytes:
        return await self._page(asked, [JobState.DEAD])

    async def group_dead(self, asked: inputs.FilterInput, _: Asker) -> bytes:
        await caught_up(self.progress, asked.min_seq)
        found = await dead_groups(
            self.readers, asked.wanted([JobState.DEAD]), offset=asked.offset, limit=asked.limit
        )
        return page_json(
            [dumps(_group_json(group)) for group in found.groups],
            count=found.count,
            offset=asked.offset,
            limit=asked.limit,
            room=self.largest_answer(),
            jobs=found.jobs,
        )

    async def get_job(self, asked: inputs.JobInput, _: Asker) -> dict[str, Any]:
        return {"job": await self._shown(await find(self.readers, self.progress, asked))}

    async def cancel(self, asked: inputs.ActionInput, asker: Asker) -> dict[str, Any]:
        return await self._act(
            job_actions.cancel, asked, asker, job_actions.legal_from(EventKind.CANCELLED)
        )

    async def retry(self, asked: inputs.ActionInput, asker: Asker) -> dict[str, Any]:
        return await self._act(
            job_actions.retry, asked, asker, job_actions.legal_from(EventKind.RETRIED)
        )

    async def replay(self, asked: inputs.ActionInput, asker: Asker) -> dict[str, Any]:
        return await self._act(job_actions.retry, asked, asker, _DEAD)

    async def dismiss(self, asked: inputs.ActionInput, asker: Asker) -> dict[str, Any]:
        return await self._act(
            job_actions.dismiss, asked, asker, job_actions.legal_from(EventKind.DISMISSED)
        )

    async def _page(self, asked: inputs.DeadInput, states: list[JobState] | None) -> bytes:
        await caught_up(self.progress, asked.min_seq)
        room = self.largest_answer()
        page = await reads.page(
            self.readers,
            asked.wanted(states),
            offset=asked.offset,
            limit=asked.limit,
            before=asked.place,
            room=room,
        )
        return job_page_json(page, before=asked.place, room=room)

    async def _act(
        self,
        plan: Plan,
        asked: inputs.ActionInput,
        asker: Asker,
        legal_from: frozenset[JobState],
    ) -> dict[str, Any]:
        """Answers once the projection has the event (design D17), with the job as it is then."""
        address = await address_of(self.readers, self.progress, asked)
        by = asked.by or asker.session or "operator"
        order = ActionRequest(by=by, reason=asked.reason, request=asker.request_id)
        outcome = await self.actions.carry_out(plan, address, order, legal_from=legal_from)
        match outcome:
            case Done(head):
                with showing_what_was_done(head.sequence):
                    await caught_up(self.progress, head.sequence)
                    found = await find(self.readers, self.progress, asked)
                    return {"job": await self._shown(found), "seq": head.sequence}
            case NotLegal():
                raise _wrong_state(outcome)
            case _:
                raise NotFound(asked.id)

    async def _shown(self, found: StoredJob) -> dict[str, Any]:
        """With its log lines; of a job too large for one answer, without what makes it so."""
        logs = await reads.lines(self.readers, found.number)
        numbers = {"firstSeq": found.number, "lastSeq": found.last_sequence}
        shown = {**found.document, "logs": logs, **numbers}
        data = dumps(shown)
        if len(data) + _AROUND_THE_JOB <= self.largest_answer():
            return shown
        slim: dict[str, Any] = orjson.loads(without_the_large(data))
        return slim


def _group_json(group: DeadGroup) -> dict[str, Any]:
    body: dict[str, Any] = {
        "service": group.service,
        "type": group.type,
        "jobs": group.jobs,
        "oldestAt": group.oldest_at,
        "newestAt": group.newest_at,
        "exampleId": group.example_id,
    }
    add_present(body, error=group.error)
    return body


def _wrong_state(refused: NotLegal) -> Invalid:
    """Says also what won, where the job was in a legal state a moment ago."""
    job, expected = refused.job, " or ".join(refused.legal_from)
    since = job.updated_at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    who = f" by {job.run.ended_by}" if job.run.ended_by else ""
    message = f"job {job.id} is {job.state} since {since}{who}; this needs it to be {expected}"
    if refused.raced:
        message = f"somebody was faster: {message}"
    fields: dict[str, Any] = {"since": job.updated_at, "raced": refused.raced}
    add_present(fields, by=job.run.ended_by)
    return Invalid(
        message,
        [Issue("/id", message)],
        field="state",
        jobKey=f"{job.address.service}/{job.address.job_type}/{job.id}",
        expected=list(refused.legal_from),
        actual=job.state.value,
        **fields,
    )
