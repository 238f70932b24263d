"""Jobs that operators create: what a queue takes, what would happen, and what happened."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any

from pydantic import JsonValue

from jobs_admin.api.views.base import View
from trellis_jobs.model.states import JobState


class CreationOutcome(StrEnum):
    ACCEPTED = "accepted"
    REPLACED = "replaced"
    COALESCED = "coalesced"
    REJECTED = "rejected"
    EXISTS = "exists"


class CreatedJobView(View):
    """What became of a request to create a job.

    `id` is the job that exists now: the new one, the one into which it was coalesced, or the one
    that had this id before. A rejected job has none. `seq` is the log sequence of the new job's
    first event. `reason`, `active`, `queued`, `limit` and `existing_job_id` describe the key that
    had no room for a rejected job. `payload_checked` is False if the contract has no schema.
    """

    outcome: CreationOutcome
    service: str
    type: str
    id: str | None = None
    seq: int | None = None
    key: str | None = None
    replaced_job_id: str | None = None
    reason: str | None = None
    active: int | None = None
    queued: int | None = None
    limit: int | None = None
    existing_job_id: str | None = None
    payload_checked: bool | None = None


class WouldBe(StrEnum):
    """What would become of a job if it were created now."""

    RUN = "run"
    WAIT = "wait"
    DELAY = "delay"
    REPLACE = "replace"
    COALESCE = "coalesce"
    REJECT = "reject"
    EXISTS = "exists"


class IssueView(View):
    """One problem of the request; `path` is the JSON Pointer of the field."""

    path: str
    message: str


class PlannedKeyView(View):
    """The key of a job that would be created, with the jobs that it has now, and its limits."""

    key: str
    key_hash: str
    active: int | None = None
    queued: int | None = None
    max_active: int
    max_queued: int


class CreationPreview(View):
    """What creating the job would do now. If it is not valid, there are only `issues`.

    `behind` is how many jobs are before it: those of its key, or those of its queue that no worker
    has received. `existing_job_id` is the job that it would be coalesced into, or that takes its
    place in the key; `replaced_job_id` is the job that it would replace. `sentence` is for people.
    `payload` has no secrets. `payload_checked` is False if the contract has no schema.
    """

    valid: bool
    issues: tuple[IssueView, ...] = ()
    would: WouldBe | None = None
    sentence: str | None = None
    behind: int | None = None
    key: PlannedKeyView | None = None
    reason: str | None = None
    existing_job_id: str | None = None
    replaced_job_id: str | None = None
    payload: JsonValue = None
    payload_checked: bool | None = None
    payload_version: int | None = None
    run_at: datetime | None = None
    deadline: datetime | None = None
    max_tries: int | None = None
    timeout_ms: int | None = None
    paused: bool | None = None


class CreateReply(View):
    """`preview` is the reply to a dry run, `created` to any other request."""

    preview: CreationPreview | None = None
    created: CreatedJobView | None = None


class ContentTypeView(View):
    """The type of a payload or result. `secrets` are JSON Pointers; `*` matches every item.

    Without `json_schema` any value is taken: the contract has none, or only its `digest`, because
    it is too large.
    """

    json_schema: Any = None
    digest: str | None = None
    secrets: tuple[str, ...] = ()


class KeyPolicyView(View):
    """`template` has constants, and JSON Pointers into the payload."""

    template: tuple[str, ...]
    max_active: int
    max_queued: int
    when_full: str
    when_due: str
    stale_policy: str
    heartbeat_interval_ms: int
    heartbeat_ttl_ms: int


class ContractView(View):
    """The contract of a queue, as its workers published it.

    `options` are the options of the queue under the names of a manifest, with their values in
    force. `docs` is what the service's author wrote for readers.
    """

    service: str
    type: str
    payload: ContentTypeView
    payload_version: int
    result: ContentTypeView
    options: dict[str, Any]
    key: KeyPolicyView | None = None
    docs: JsonValue = None


class OneContract(View):
    contract: ContractView


class PayloadTemplate(View):
    """The payload of a recent job, without secrets; `jobs` recent jobs have this payload.

    The other fields are those of the newest of them. `secrets` are the paths whose values are
    redacted.
    """

    payload: JsonValue = None
    payload_version: int = 1
    secrets: tuple[str, ...] = ()
    id: str
    created_at: datetime
    state: JobState
    jobs: int


class RecentPayloads(View):
    """Newest first, each payload once."""

    payloads: tuple[PayloadTemplate, ...]
