"""`trellis.jobs@v1`: every RPC with its input, output, errors and required capability.

`Rpcs` is the only list of RPCs: the router takes each method's input from it, the client its input
and its output, and contracts/trellis.jobs@v1.json is generated from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from jobs_admin.api import history_inputs, inputs, schedule_inputs
from jobs_admin.api.views.audit import AuditPage
from jobs_admin.api.views.base import Page
from jobs_admin.api.views.changes import ChangesView
from jobs_admin.api.views.creation import CreateReply, OneContract, RecentPayloads
from jobs_admin.api.views.dead_groups import DeadGroups, ErrorGroups
from jobs_admin.api.views.doctor import AttentionView, Diagnosis
from jobs_admin.api.views.health import HealthView
from jobs_admin.api.views.history import HistoryView, JobsAtView, StatsAtView
from jobs_admin.api.views.jobs import (
    ChangedJob,
    ExplanationView,
    JobPage,
    JobSecrets,
    LogEntry,
    OneJob,
)
from jobs_admin.api.views.keys import BusyKeyView, KeyView
from jobs_admin.api.views.operations import OneOperation, Operated, OperationView
from jobs_admin.api.views.queues import ChangedQueue, QueueView
from jobs_admin.api.views.schedules import (
    ChangedSchedule,
    DeletedSchedule,
    OneSchedule,
    ScheduleView,
    TriggeredSchedule,
)
from jobs_admin.api.views.services import IgnoredView, ServiceView, StatsView
from jobs_admin.api.views.suggestions import Suggestions
from jobs_admin.api.views.tail import TailView
from jobs_admin.api.views.workers import DirectedWorkers, WorkerProcessView
from trellis_jobs.model import subjects

if TYPE_CHECKING:
    from collections.abc import Mapping

In = TypeVar("In", bound=BaseModel)
Out = TypeVar("Out", bound=BaseModel)

ID: Final = "trellis.jobs@v1"
_API: Final = ID.partition("@")[0]
_SCHEMAS: Final = "#/schemas/{model}"


class Capability(StrEnum):
    READ = f"{_API}::admin.read"
    MUTATE = f"{_API}::admin.mutate"
    SECRETS = f"{_API}::admin.secrets"
    WORKERS = f"{_API}::admin.workers"
    CREATE = f"{_API}::admin.create"


_CHANGES: Final = frozenset({Capability.MUTATE, Capability.WORKERS, Capability.CREATE})


@dataclass(frozen=True, slots=True)
class Rpc(Generic[In, Out]):
    """`may_miss`: what the input names may not exist, so the reply may be a NotFoundError.

    `has_large_input`: a request may be as large as a message of the server.
    """

    name: str
    input: type[In]
    output: type[Out]
    needs: Capability = Capability.READ
    may_miss: bool = False
    has_large_input: bool = False

    @property
    def is_change(self) -> bool:
        return self.needs in _CHANGES

    @property
    def errors(self) -> tuple[str, ...]:
        missing = ("NotFoundError",) if self.may_miss else ()
        full = ("StreamFullError",) if self.is_change else ()
        return (*missing, "ValidationError", *full, "BusyError", "UnexpectedError")


def _reads(name: str, input_type: type[In], output: type[Out]) -> Rpc[In, Out]:
    return Rpc(name, input_type, output)


def _finds(name: str, input_type: type[In], output: type[Out]) -> Rpc[In, Out]:
    return Rpc(name, input_type, output, may_miss=True)


def _changes(name: str, input_type: type[In], output: type[Out]) -> Rpc[In, Out]:
    return Rpc(name, input_type, output, Capability.MUTATE, may_miss=True)


class Rpcs:
    HEALTH = _reads("Jobs.Health", inputs.Nothing, HealthView)
    CHANGES = _reads("Jobs.Changes", inputs.ChangesInput, ChangesView)
    TAIL = _reads("Jobs.Tail", inputs.TailInput, TailView)
    LIST_SERVICES = _reads("Jobs.ListServices", inputs.PageInput, Page[ServiceView])
    LIST_IGNORED = _reads("Jobs.ListIgnored", inputs.QueuePageInput, Page[IgnoredView])
    STATS = _reads("Jobs.Stats", inputs.StatsInput, StatsView)
    HISTORY = _reads("Jobs.History", history_inputs.HistoryInput, HistoryView)
    STATS_AT = _reads("Jobs.StatsAt", history_inputs.StatsAtInput, StatsAtView)
    LIST_AT = _reads("Jobs.ListAt", history_inputs.ListAtInput, JobsAtView)
    LIST = _reads("Jobs.List", inputs.ListInput, JobPage)
    LIST_DLQ = _reads("Jobs.ListDLQ", inputs.DeadInput, JobPage)
    GROUP_DLQ = _reads("Jobs.GroupDLQ", inputs.FilterInput, DeadGroups)
    GROUP_ERRORS = _reads("Jobs.GroupErrors", inputs.GroupErrorsInput, ErrorGroups)
    SUGGEST = _reads("Jobs.Suggest", inputs.SuggestInput, Suggestions)
    GET = _finds("Jobs.Get", inputs.JobInput, OneJob)
    GET_SECRETS = Rpc(
        "Jobs.GetSecrets", inputs.SecretsInput, JobSecrets, Capability.SECRETS, may_miss=True
    )
    EVENTS = _finds("Jobs.Events", inputs.EventsInput, Page[LogEntry])
    EXPLAIN = _finds("Jobs.Explain", inputs.JobInput, ExplanationView)
    LIST_KEYS = _reads("Jobs.ListKeys", inputs.QueuePageInput, Page[BusyKeyView])
    GET_KEY = _finds("Jobs.GetKey", inputs.KeyInput, KeyView)
    LIST_QUEUES = _reads("Jobs.ListQueues", inputs.QueuesInput, Page[QueueView])
    GET_CONTRACT = _finds("Jobs.GetContract", inputs.ContractInput, OneContract)
    RECENT_PAYLOADS = _reads("Jobs.RecentPayloads", inputs.RecentPayloadsInput, RecentPayloads)
    CREATE = Rpc(
        "Jobs.Create",
        inputs.CreateInput,
        CreateReply,
        Capability.CREATE,
        may_miss=True,
        has_large_input=True,
    )
    PAUSE_QUEUE = _changes("Jobs.PauseQueue", inputs.PauseInput, ChangedQueue)
    RESUME_QUEUE = _changes("Jobs.ResumeQueue", inputs.QueueInput, ChangedQueue)
    LIST_SCHEDULES = _reads("Jobs.ListSchedules", inputs.QueuePageInput, Page[ScheduleView])
    GET_SCHEDULE = _finds("Jobs.GetSchedule", schedule_inputs.GetScheduleInput, OneSchedule)
    PUT_SCHEDULE = _changes("Jobs.PutSchedule", schedule_inputs.PutScheduleInput, ChangedSchedule)
    PAUSE_SCHEDULE = _changes(
        "Jobs.PauseSchedule", schedule_inputs.PauseScheduleInput, ChangedSchedule
    )
    RESUME_SCHEDULE = _changes(
        "Jobs.ResumeSchedule", schedule_inputs.ChangeScheduleInput, ChangedSchedule
    )
    TRIGGER_SCHEDULE = _changes(
        "Jobs.TriggerSchedule", schedule_inputs.ChangeScheduleInput, TriggeredSchedule
    )
    DELETE_SCHEDULE = _changes(
        "Jobs.DeleteSchedule", schedule_inputs.ChangeScheduleInput, DeletedSchedule
    )
    LIST_AUDIT = _reads("Jobs.ListAudit", inputs.AuditInput, AuditPage)
    LIST_WORKERS = _reads("Jobs.ListWorkers", inputs.WorkersInput, Page[WorkerProcessView])
    DIRECT_WORKERS = Rpc(
        "Jobs.DirectWorkers", inputs.DirectInput, DirectedWorkers, Capability.WORKERS
    )
    DOCTOR = _reads("Jobs.Doctor", inputs.Nothing, Diagnosis)
    ATTENTION = _reads("Jobs.Attention", inputs.Nothing, AttentionView)
    CANCEL = _changes("Jobs.Cancel", inputs.ActionInput, ChangedJob)
    RETRY = _changes("Jobs.Retry", inputs.ActionInput, ChangedJob)
    REPLAY_DLQ = _changes("Jobs.ReplayDLQ", inputs.ActionInput, ChangedJob)
    DISMISS_DLQ = _changes("Jobs.DismissDLQ", inputs.ActionInput, ChangedJob)
    RESCHEDULE = _changes("Jobs.Reschedule", inputs.RescheduleInput, ChangedJob)
    RUN_NOW = _changes("Jobs.RunNow", inputs.ActionInput, ChangedJob)
    RELEASE_KEY = _changes("Jobs.ReleaseKey", inputs.ReleaseInput, KeyView)
    OPERATE = Rpc("Jobs.Operate", inputs.OperateInput, Operated, Capability.MUTATE)
    GET_OPERATION = _finds("Jobs.GetOperation", inputs.OperationInput, OneOperation)
    LIST_OPERATIONS = _reads("Jobs.ListOperations", inputs.PageInput, Page[OperationView])
    STOP_OPERATION = _changes("Jobs.StopOperation", inputs.StopInput, OneOperation)


RPCS: Final[Mapping[str, Rpc[Any, Any]]] = {
    rpc.name: rpc for rpc in vars(Rpcs).values() if isinstance(rpc, Rpc)
}

_ISSUE: Final = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "message": {"type": "string"}},
    "required": ["path", "message"],
}
# The fields of each error besides `id`, `type`, `message` and `context`.
_ERRORS: Final[Mapping[str, Mapping[str, Any]]] = {
    "NotFoundError": {"resource": {"type": "string"}, "jobId": {"type": "string"}},
    "ValidationError": {
        "issues": {"type": "array", "items": _ISSUE},
        "field": {"type": "string"},
        "jobKey": {"type": "string"},
        "expected": {"type": "array", "items": {"type": "string"}},
        "actual": {"type": "string"},
        "since": {"type": "string", "format": "date-time"},
        "raced": {"type": "boolean"},
        "by": {"type": "string"},
    },
    "StreamFullError": {"stream": {"type": "string"}, "limit": {"type": "string"}},
    "BusyError": {},
    "UnexpectedError": {},
}
_REQUIRED_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "NotFoundError": ("resource", "jobId"),
    "ValidationError": ("issues",),
    "StreamFullError": ("stream", "limit"),
}


def contract() -> dict[str, Any]:
    """Build the content of the contract file: JSON Schemas by name, and RPCs that refer to them."""
    input_models = [(rpc.input, "validation") for rpc in RPCS.values()]
    outputs = [(rpc.output, "serialization") for rpc in RPCS.values()]
    names, shared = models_json_schema(
        [*input_models, *outputs],  # type: ignore[list-item]
        by_alias=True,
        ref_template=_SCHEMAS,
    )
    return {
        "id": ID,
        "displayName": "Jobs",
        "description": "Every job of every service: what operators see and do.",
        "capabilities": [capability.value for capability in Capability],
        "rpc": {
            name: {
                "version": "v1",
                "subject": subjects.rpc(name),
                "input": names[rpc.input, "validation"],
                "output": names[rpc.output, "serialization"],
                "capabilities": {"call": [rpc.needs.value]},
                "errors": [{"type": error} for error in rpc.errors],
            }
            for name, rpc in RPCS.items()
        },
        "errors": {name: _error_schema(name) for name in _ERRORS},
        "schemas": shared["$defs"],
    }


def _error_schema(name: str) -> dict[str, Any]:
    context = {
        "type": "object",
        "properties": {each: {"type": "string"} for each in ("service", "method", "requestId")},
    }
    common = {
        "id": {"type": "string"},
        "type": {"const": name},
        "message": {"type": "string"},
        "context": context,
    }
    return {
        "type": "object",
        "properties": {**common, **_ERRORS[name]},
        "required": ["id", "type", "message", *_REQUIRED_FIELDS.get(name, ())],
    }
