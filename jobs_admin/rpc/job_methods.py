"""The RPCs that list, show and change jobs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import orjson

from jobs_admin.actions.job_actions import ActionRequest, Done, NotLegal
from jobs_admin.api.contract import Rpcs
from jobs_admin.api.error_envelope import Invalid, NotFound
from jobs_admin.api.errors import Issue
from jobs_admin.api.views.dead_groups import kept_for
from jobs_admin.api.views.operations import OperationVerb
from jobs_admin.operations.verbs import CHANGES
from jobs_admin.reads import jobs as reads
from jobs_admin.reads.dead_groups import dead_groups
from jobs_admin.reads.group_details import error_groups
from jobs_admin.reads.read_your_writes import mention_recorded_event, wait_for_position
from jobs_admin.rpc.job_lookup import address_of, find
from jobs_admin.rpc.older_clients import document_for_older_client, fields_for_older_client
from jobs_admin.rpc.pages import job_page_json, without_large_fields
from jobs_admin.rpc.router import answered_by
from trellis_jobs.errors import DeadlineInvalid
from trellis_jobs.model.states import JobState
from trellis_jobs.wire.fields import add_present, dumps

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime, timedelta

    from jobs_admin.actions.job_actions import Actions
    from jobs_admin.api import inputs
    from jobs_admin.api.views.dead_groups import DeadGroups, ErrorGroups
    from jobs_admin.operations.verbs import Change
    from jobs_admin.reads.jobs import StoredJob
    from jobs_admin.reads.read_your_writes import LogProgress
    from jobs_admin.reads.readers import Readers
    from jobs_admin.rpc.router import Caller, Method
    from trellis_jobs.jetstream.client.server_clock import ServerClock

# For other end states the sentence has "was", as in "was cancelled".
_ENDED_HOW: Final = {
    JobState.COMPLETED: "completed",
    JobState.FAILED: "failed",
    JobState.DEAD: "died",
    JobState.EXPIRED: "expired",
    JobState.STALE: "lost its key",
}
# Room for the other fields of a reply with one job, in bytes.
_ENVELOPE_BYTES: Final = 1024


@dataclass(frozen=True, slots=True)
class JobMethods:
    readers: Readers
    progress: LogProgress
    actions: Actions
    clock: ServerClock
    max_reply_bytes: Callable[[], int]
    dead_retention: timedelta | None = None

    def table(self) -> Mapping[str, Method]:
        return dict(
            [
                answered_by(Rpcs.LIST, self.list_jobs),
                answered_by(Rpcs.GET, self.get_job),
                answered_by(Rpcs.LIST_DLQ, self.list_dead),
                answered_by(Rpcs.GROUP_DLQ, self.group_dead),
                answered_by(Rpcs.GROUP_ERRORS, self.group_errors),
                answered_by(Rpcs.CANCEL, self.cancel),
                answered_by(Rpcs.RETRY, self.retry),
                answered_by(Rpcs.REPLAY_DLQ, self.replay),
                answered_by(Rpcs.DISMISS_DLQ, self.dismiss),
                answered_by(Rpcs.RESCHEDULE, self.reschedule),
                answered_by(Rpcs.RUN_NOW, self.run_now),
            ]
        )

    async def list_jobs(self, request: inputs.ListInput, caller: Caller) -> bytes:
        knows = caller.knows_delayed_jobs or JobState.SCHEDULED in (request.state or ())
        return await self._page(request, request.state, for_older_client=not knows)

    async def list_dead(self, request: inputs.DeadInput, _: Caller) -> bytes:
        return await self._page(request, [JobState.DEAD])

    async def group_dead(self, request: inputs.FilterInput, _: Caller) -> DeadGroups:
        await wait_for_position(self.progress, request.min_seq)
        groups = await dead_groups(
            self.readers,
            request.to_filter([JobState.DEAD]),
            offset=request.offset,
            limit=request.limit,
        )
        return kept_for(groups, self.dead_retention)

    async def group_errors(self, request: inputs.GroupErrorsInput, _: Caller) -> ErrorGroups:
        await wait_for_position(self.progress, request.min_seq)
        groups = await error_groups(
            self.readers,
            request.to_filter(list(request.state)),
            now=await self.clock.now(),
            offset=request.offset,
            limit=request.limit,
        )
        are_dead = set(request.state) == {JobState.DEAD}
        return kept_for(groups, self.dead_retention if are_dead else None)

    async def get_job(self, request: inputs.JobInput, caller: Caller) -> bytes:
        found = await find(self.readers, self.progress, request)
        if not caller.knows_delayed_jobs:
            found = replace(found, document=fields_for_older_client(found.document))
        return dumps({"job": await self._shown(found)})

    async def cancel(self, request: inputs.ActionInput, caller: Caller) -> bytes:
        return await self._act(OperationVerb.CANCEL, request, caller)

    async def retry(self, request: inputs.ActionInput, caller: Caller) -> bytes:
        return await self._act(OperationVerb.RETRY, request, caller)

    async def replay(self, request: inputs.ActionInput, caller: Caller) -> bytes:
        return await self._act(OperationVerb.REPLAY, request, caller)

    async def dismiss(self, request: inputs.ActionInput, caller: Caller) -> bytes:
        return await self._act(OperationVerb.DISMISS, request, caller)

    async def reschedule(self, request: inputs.RescheduleInput, caller: Caller) -> bytes:
        return await self._act(OperationVerb.RESCHEDULE, request, caller, request.run_at)

    async def run_now(self, request: inputs.ActionInput, caller: Caller) -> bytes:
        now = await self.clock.now()
        return await self._act(OperationVerb.RUN_NOW, request, caller, now)

    async def _page(
        self,
        request: inputs.DeadInput,
        states: list[JobState] | None,
        *,
        for_older_client: bool = False,
    ) -> bytes:
        await wait_for_position(self.progress, request.min_seq)
        max_bytes = self.max_reply_bytes()
        page = await reads.page(
            self.readers,
            request.to_filter(states),
            offset=request.offset,
            limit=request.limit,
            before=request.cursor,
            max_bytes=max_bytes,
        )
        if for_older_client:
            page = replace(page, documents=list(map(document_for_older_client, page.documents)))
        return job_page_json(page, before=request.cursor, max_bytes=max_bytes)

    async def _act(
        self,
        verb: OperationVerb,
        request: inputs.ActionInput,
        caller: Caller,
        run_at: datetime | None = None,
    ) -> bytes:
        """Reply with the changed job once the projection has the event (design D17)."""
        address = await address_of(self.readers, self.progress, request)
        action = ActionRequest(
            by=request.by or caller.session or "operator",
            reason=request.reason,
            request=caller.request_id,
            run_at=run_at,
        )
        change = CHANGES[verb]
        try:
            outcome = await self.actions.carry_out(
                change.plan, address, action, legal_from=change.legal_from
            )
        except DeadlineInvalid as error:
            raise Invalid(str(error), [Issue("/runAt", str(error))]) from None
        match outcome:
            case Done(head):
                with mention_recorded_event(head.sequence):
                    await wait_for_position(self.progress, head.sequence)
                    found = await find(self.readers, self.progress, request)
                    return dumps({"job": await self._shown(found), "seq": head.sequence})
            case NotLegal():
                raise _wrong_state(outcome, change)
            case _:
                raise NotFound(request.id)

    async def _shown(self, found: StoredJob) -> orjson.Fragment:
        """The job with its log lines, as JSON, without large fields if it does not fit."""
        logs = await reads.lines(self.readers, found.number)
        numbers = {"firstSeq": found.number, "lastSeq": found.last_sequence}
        shown = {**found.document, "logs": logs, **numbers}
        data = dumps(shown)
        fits = len(data) + _ENVELOPE_BYTES <= self.max_reply_bytes()
        return orjson.Fragment(data if fits else without_large_fields(data))


def _either(states: Sequence[str]) -> str:
    *others, last = states
    return f"{', '.join(others)} or {last}" if others else last


def _wrong_state(refused: NotLegal, change: Change) -> Invalid:
    """Say which states are legal, and whether another change won a race."""
    job, legal = refused.job, _either(refused.legal_from)
    at = job.updated_at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    by = f" by {job.run.ended_by}" if job.run.ended_by else ""
    became = f"has been {job.state} since {at}"
    if job.is_over:
        became = f"{_ENDED_HOW.get(job.state, f'was {job.state}')}{by} at {at}"
    message = f"job {job.id} {became}; only {legal} jobs can be {change.participle}"
    if change is CHANGES[OperationVerb.RUN_NOW] and job.state is JobState.PENDING:
        message = f"{message}: it may run already, and `jobs explain` says what it waits for"
    if refused.raced:
        message = f"another change came first: {message}"
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
