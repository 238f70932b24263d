"""What operators did: one entry for each change, and for each look at secrets."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from jobs_admin.api.views.base import Page, View


class AuditVerb(StrEnum):
    """What was done. An operation has the verb of what it does to its jobs, or `stop`.

    `retry` of a job is also that of a dead one: its event is the same as that of a replay.
    """

    CREATE = "create"
    CANCEL = "cancel"
    RETRY = "retry"
    REPLAY = "replay"
    DISMISS = "dismiss"
    RESCHEDULE = "reschedule"
    RUN_NOW = "run-now"
    REVEAL = "reveal"
    PAUSE = "pause"
    RESUME = "resume"
    RELEASE = "release"
    PUT = "put"
    TRIGGER = "trigger"
    DELETE = "delete"
    RUN = "run"
    QUIET = "quiet"
    TERMINATE = "terminate"
    STOP = "stop"


class AuditTarget(StrEnum):
    """What it was done to."""

    JOB = "job"
    QUEUE = "queue"
    KEY = "key"
    SCHEDULE = "schedule"
    WORKER = "worker"
    OPERATION = "operation"


class AuditSource(StrEnum):
    """Where an entry comes from: a job's event, or a record of the admin runtime or of a command.

    A command that acted without an admin runtime records what it did with its own credentials.
    """

    EVENT = "event"
    ADMIN = "admin"
    COMMAND = "command"


class AuditedChange(View):
    """`id` is that of the job or the operation, the key, the schedule's name, or the instance.

    Workers that were directed together have one entry for each service, without an id if there are
    several. `count` is how many workers it was, or how many jobs matched when an operation was
    started. `job_id` is the job whose slot of a key was released, or which a schedule created.
    `request_id` is the id of the request. Verbs and targets of later versions may be others.
    """

    verb: str
    target: str
    service: str | None = None
    type: str | None = None
    id: str | None = None
    job_id: str | None = None
    count: int | None = None
    by: str | None = None
    reason: str | None = None
    request_id: str | None = None


class AuditEntry(AuditedChange):
    """`at` is the server's time when the entry was stored. `seq` is that of the job's event."""

    at: datetime
    source: AuditSource
    seq: int | None = None


class AuditPage(Page[AuditEntry]):
    """Newest first. `problem` is why there are only entries about jobs, if that is so."""

    problem: str | None = None
