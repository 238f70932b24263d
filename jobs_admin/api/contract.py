"""`trellis.jobs@v1`: every RPC with its input, output, errors and required capability.

This is the only list of RPCs: contracts/trellis.jobs@v1.json is generated from it, and the router
takes each method's input from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from pydantic.json_schema import models_json_schema

from jobs_admin.api import inputs
from jobs_admin.api.views.base import Page
from jobs_admin.api.views.dead_groups import DeadGroups
from jobs_admin.api.views.health import HealthView
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
from jobs_admin.api.views.services import IgnoredView, ServiceView, StatsView
from trellis_jobs.model import subjects

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import BaseModel

ID: Final = "trellis.jobs@v1"
_API: Final = ID.partition("@")[0]
_SCHEMAS: Final = "#/schemas/{model}"


class Capability(StrEnum):
    READ = f"{_API}::admin.read"
    MUTATE = f"{_API}::admin.mutate"
    SECRETS = f"{_API}::admin.secrets"


@dataclass(frozen=True, slots=True)
class Rpc:
    input: type[BaseModel]
    output: type[BaseModel]
    needs: Capability = Capability.READ
    may_miss: bool = False

    @property
    def errors(self) -> tuple[str, ...]:
        missing = ("NotFoundError",) if self.may_miss else ()
        full = ("StreamFullError",) if self.needs is Capability.MUTATE else ()
        return (*missing, "ValidationError", *full, "BusyError", "UnexpectedError")


def _reads(input_type: type[BaseModel], output: type[BaseModel]) -> Rpc:
    return Rpc(input_type, output)


def _finds(input_type: type[BaseModel], output: type[BaseModel]) -> Rpc:
    return Rpc(input_type, output, may_miss=True)


def _changes(input_type: type[BaseModel], output: type[BaseModel]) -> Rpc:
    return Rpc(input_type, output, Capability.MUTATE, may_miss=True)


RPCS: Final[Mapping[str, Rpc]] = {
    "Jobs.Health": _reads(inputs.Nothing, HealthView),
    "Jobs.ListServices": _reads(inputs.PageInput, Page[ServiceView]),
    "Jobs.ListIgnored": _reads(inputs.QueuePageInput, Page[IgnoredView]),
    "Jobs.Stats": _reads(inputs.StatsInput, StatsView),
    "Jobs.List": _reads(inputs.ListInput, JobPage),
    "Jobs.ListDLQ": _reads(inputs.DeadInput, JobPage),
    "Jobs.GroupDLQ": _reads(inputs.FilterInput, DeadGroups),
    "Jobs.Get": _finds(inputs.JobInput, OneJob),
    "Jobs.GetSecrets": Rpc(inputs.JobInput, JobSecrets, Capability.SECRETS, may_miss=True),
    "Jobs.Events": _finds(inputs.EventsInput, Page[LogEntry]),
    "Jobs.Explain": _finds(inputs.JobInput, ExplanationView),
    "Jobs.ListKeys": _reads(inputs.QueuePageInput, Page[BusyKeyView]),
    "Jobs.GetKey": _finds(inputs.KeyInput, KeyView),
    "Jobs.Cancel": _changes(inputs.ActionInput, ChangedJob),
    "Jobs.Retry": _changes(inputs.ActionInput, ChangedJob),
    "Jobs.ReplayDLQ": _changes(inputs.ActionInput, ChangedJob),
    "Jobs.DismissDLQ": _changes(inputs.ActionInput, ChangedJob),
    "Jobs.ReleaseKey": _changes(inputs.ReleaseInput, KeyView),
    "Jobs.Operate": Rpc(inputs.OperateInput, Operated, Capability.MUTATE),
    "Jobs.GetOperation": _finds(inputs.OperationInput, OneOperation),
    "Jobs.ListOperations": _reads(inputs.PageInput, Page[OperationView]),
    "Jobs.StopOperation": _changes(inputs.StopInput, OneOperation),
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
_ALWAYS: Final[Mapping[str, tuple[str, ...]]] = {
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
        "required": ["id", "type", "message", *_ALWAYS.get(name, ())],
    }
