"""The methods of an admin runtime: what answers each RPC, made from the shared parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobs_admin.actions.key_names import KeyNames
from jobs_admin.audit.trail import AuditTrail
from jobs_admin.queues.actions import QueueActions
from jobs_admin.rpc.audit_methods import AuditMethods
from jobs_admin.rpc.audited import audited
from jobs_admin.rpc.change_methods import ChangeMethods
from jobs_admin.rpc.creation_methods import CreationMethods
from jobs_admin.rpc.doctor_methods import DoctorMethods, Examination
from jobs_admin.rpc.history_methods import HistoryMethods
from jobs_admin.rpc.insight_methods import InsightMethods
from jobs_admin.rpc.job_methods import JobMethods
from jobs_admin.rpc.key_methods import KeyMethods
from jobs_admin.rpc.operation_methods import OperationMethods
from jobs_admin.rpc.queue_facts import QueueFacts
from jobs_admin.rpc.queue_methods import QueueMethods
from jobs_admin.rpc.router import Router
from jobs_admin.rpc.schedule_methods import ScheduleMethods
from jobs_admin.rpc.service_methods import ServiceMethods
from jobs_admin.rpc.suggest_methods import SuggestMethods
from jobs_admin.rpc.worker_methods import WorkerMethods
from jobs_admin.workers.directives import WorkerDirectives
from trellis_jobs.jetstream.control.worker_records import WorkerRecords
from trellis_jobs.model.audit_recorder import AuditRecorder
from trellis_jobs.model.states import JobState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobs_admin.operations.runner import Runner
    from jobs_admin.parts import Parts
    from jobs_admin.rpc.router import Method


def make_router(parts: Parts, runner: Runner) -> Router:
    new_id = parts.environment.new_id
    trail = AuditTrail(parts.control, AuditRecorder.ADMIN, new_id)
    return Router(audited(_methods(parts, runner), trail), new_id, parts.max_reply_bytes)


def _methods(parts: Parts, runner: Runner) -> Mapping[str, Method]:
    readers, progress, keys = parts.readers, parts.progress, parts.keys
    max_reply_bytes, facts = parts.max_reply_bytes, _queue_facts(parts)
    return {
        **_job_methods(parts),
        **_operation_methods(parts, runner),
        **KeyMethods(
            readers=readers,
            progress=progress,
            keys=keys,
            names=KeyNames(parts.connection),
            clock=parts.clock,
        ).table(),
        **ServiceMethods(readers, progress, parts.clock).table(),
        **ChangeMethods(parts.projector, progress.progress).table(),
        **HistoryMethods(
            connection=parts.connection,
            readers=readers,
            progress=progress,
            clock=parts.clock,
            max_reply_bytes=max_reply_bytes,
        ).table(),
        **WorkerMethods(parts.workers, _directives(parts), parts.clock).table(),
        **_schedule_methods(parts),
        **CreationMethods(
            connection=parts.connection,
            readers=readers,
            progress=progress,
            creator=parts.creator,
            max_reply_bytes=max_reply_bytes,
        ).table(),
        **_queue_methods(parts, facts),
        **_doctor_methods(parts, facts),
        **_audit_and_suggest_methods(parts),
        **InsightMethods(
            connection=parts.connection,
            readers=readers,
            progress=progress,
            health=parts.health,
            keys=keys,
            clock=parts.clock,
            workers=parts.workers,
        ).table(),
    }


def _operation_methods(parts: Parts, runner: Runner) -> Mapping[str, Method]:
    return OperationMethods(
        readers=parts.readers,
        progress=parts.progress,
        records=parts.operations,
        runner=runner,
        clock=parts.clock,
        new_id=parts.environment.new_id,
        now=parts.environment.now,
    ).table()


def _job_methods(parts: Parts) -> Mapping[str, Method]:
    return JobMethods(
        parts.readers,
        parts.progress,
        parts.actions,
        parts.clock,
        parts.max_reply_bytes,
        dead_retention=parts.config.retention.ages.get(JobState.DEAD),
    ).table()


def _queue_facts(parts: Parts) -> QueueFacts:
    return QueueFacts(
        connection=parts.connection,
        readers=parts.readers,
        clock=parts.clock,
        workers=parts.workers,
        keys=parts.keys,
    )


def _queue_methods(parts: Parts, facts: QueueFacts) -> Mapping[str, Method]:
    actions = QueueActions(parts.connection, parts.installation.features)
    return QueueMethods(facts=facts, progress=parts.progress, actions=actions).table()


def _doctor_methods(parts: Parts, facts: QueueFacts) -> Mapping[str, Method]:
    examination = Examination(
        installation=parts.installation,
        facts=facts,
        health=parts.health,
        schedules=parts.schedules,
        grace=parts.config.overdue_grace,
    )
    return DoctorMethods(examination, parts.environment.monotonic).table()


def _audit_and_suggest_methods(parts: Parts) -> Mapping[str, Method]:
    audit = AuditMethods(
        readers=parts.readers,
        progress=parts.progress,
        registry=parts.audit,
        records=parts.control,
        clock=parts.clock,
    )
    suggest = SuggestMethods(
        connection=parts.connection,
        readers=parts.readers,
        progress=parts.progress,
        monotonic=parts.environment.monotonic,
    )
    return {**audit.table(), **suggest.table()}


def _schedule_methods(parts: Parts) -> Mapping[str, Method]:
    return ScheduleMethods(
        connection=parts.connection,
        registry=parts.schedules,
        actions=parts.schedule_actions,
        readers=parts.readers,
        workers=parts.workers,
        clock=parts.clock,
        new_id=parts.environment.new_id,
        grace=parts.config.overdue_grace,
        max_reply_bytes=parts.max_reply_bytes,
    ).table()


def _directives(parts: Parts) -> WorkerDirectives:
    supports_ttl = parts.events.features.message_ttl
    records = WorkerRecords(parts.connection, supports_ttl=supports_ttl)
    return WorkerDirectives(records, parts.environment.now)
