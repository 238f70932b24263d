"""A bundle: one job as it was when it was exported, with the views that the admin runtime gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobs_admin.api.errors import BundleInvalid
from jobs_admin.api.views.base import Page
from jobs_admin.api.views.jobs import LogEntry
from jobs_admin.explain.job_view import view_of
from jobs_admin.explain.log_records import recorded
from jobs_admin.explain.views import job_secrets
from trellis_jobs.model.reducer import NOTES
from trellis_jobs.model.timeline import replay
from trellis_jobs.wire.event_redaction import redact

if TYPE_CHECKING:
    from datetime import datetime

    from jobs_admin.api.views.creation import ContractView
    from jobs_admin.api.views.jobs import ExplanationView, JobSecrets, JobView
    from trellis_jobs.model.identity import JobAddress
    from trellis_jobs.model.job import Job
    from trellis_jobs.model.timeline import TimelineEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class JobBundle:
    """`revealed`: the events in `entries` have their secrets. The views never show them.

    `contract` and `explanation` are None if they were not known when the job was exported.
    """

    address: JobAddress
    exported_at: datetime
    exported_by: str | None
    revealed: bool
    entries: tuple[LogEntry, ...]
    contract: ContractView | None = None
    explanation: ExplanationView | None = None

    @property
    def history(self) -> list[TimelineEntry]:
        """Each entry with its effect on the job."""
        return replay(recorded(self.entries))

    @property
    def job(self) -> Job:
        """The job with all that is in the file, also with secrets that were revealed."""
        history = self.history
        job = history[-1].job if history else None
        if job is None:
            raise BundleInvalid("no entry of the bundle is the first event of a job")
        return job

    def view(self) -> JobView:
        """As Jobs.Get returns it."""
        view = view_of(self.history)
        if view is None:
            raise BundleInvalid("no entry of the bundle is the first event of a job")
        return view

    def events(self) -> list[LogEntry]:
        """As Jobs.Events returns them: without secrets, and with the state after each."""
        return [_shown(entry, step) for entry, step in zip(self.entries, self.history, strict=True)]

    def events_page(
        self, *, after_seq: int = 0, notes: bool = True, offset: int = 0, limit: int = 100
    ) -> Page[LogEntry]:
        """A page as Jobs.Events returns it."""
        shown = [
            entry
            for entry in self.events()
            if entry.seq > after_seq and (notes or not _is_note(entry))
        ]
        part = shown[offset : offset + limit]
        return Page[LogEntry].of(part, count=len(shown), offset=offset, limit=limit)

    def secrets(self) -> JobSecrets:
        """As Jobs.GetSecrets returns them. Raises BundleInvalid if they were not exported."""
        job = self.job
        if not self.revealed and (job.run.secrets or job.run.result_secrets):
            raise BundleInvalid(
                "the bundle has no secrets: export the job with `trellis-jobs jobs export --reveal`"
            )
        return job_secrets(job)


def _is_note(entry: LogEntry) -> bool:
    return entry.subject.rpartition(".")[2] in {kind.value for kind in NOTES}


def _shown(entry: LogEntry, step: TimelineEntry) -> LogEntry:
    bare = LogEntry(seq=entry.seq, subject=entry.subject, stored_at=entry.stored_at)
    if step.event is None:
        return bare.model_copy(update={"undecodable": step.ignored})
    event = redact(entry.event or {})
    if step.ignored is not None:
        return bare.model_copy(update={"event": event, "ignored": step.ignored})
    return bare.model_copy(update={"event": event, "state": step.job and step.job.state})
