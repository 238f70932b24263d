"""Crash points that no scenario passes, each with the reason; and those that only chance passes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_LOG: Final = "trellis_jobs.jetstream.log.event_log:EventLog"
_PUBLISHER: Final = "trellis_jobs.jetstream.log.event_publisher:EventPublisher"
_READS: Final = "trellis_jobs.jetstream.log.reads:LogReads"
_BUCKET: Final = "trellis_jobs.jetstream.keys.bucket:KeyBucket"
_TURNS: Final = "trellis_jobs.jetstream.keys.write_coalescer:WriteCoalescer"
_ALARMS: Final = "trellis_jobs.jetstream.alarms.alarms:Alarms"
_ADMISSION: Final = "trellis_jobs.producer.admission:Admission"
_PROVISION: Final = "trellis_jobs.jetstream.setup.provision"
_RETENTION: Final = "jobs_admin.maintenance.retention.retention:Retention"
_RECORDS: Final = "trellis_jobs.jetstream.control.records:ControlRecords"
_WORKER_RECORDS: Final = "trellis_jobs.jetstream.control.worker_records:WorkerRecords"
_ALARMS_STREAMS: Final = "trellis_jobs.jetstream.setup.alarms_streams"
_PROJECTOR: Final = "jobs_admin.projection.projector:Projector"

# A reason, and the points that it is given for.
NEVER: Final[Mapping[str, tuple[str, ...]]] = {
    "a preview of a new job: nothing is written": (
        "trellis_jobs.jetstream.keys.coordinator:KeyCoordinator.preview:self._gone",
        "trellis_jobs.jetstream.keys.coordinator:KeyCoordinator.preview:self.read",
    ),
    "two processes change one schedule at the same time: the loser reads the record again": (
        "trellis_jobs.jetstream.schedules.records:ScheduleRecords.find_after:self._records.read_after",
        "trellis_jobs.jetstream.schedules.schedules:Schedules.change:self.records.find_after",
        "trellis_jobs.jetstream.schedules.schedules:Schedules.delete:self.records.find_after",
        "trellis_jobs.scheduler.schedule_firing:ScheduleFirer._create_jobs:"
        "self.schedules.records.find_after",
        "trellis_jobs.scheduler.schedule_firing:ScheduleFirer._fire:"
        "self.schedules.records.find_after",
        "trellis_jobs.scheduler.schedule_firing:ScheduleFirer._handle:self._leave",
        "trellis_jobs.scheduler.schedule_firing:ScheduleFirer._leave:self.alarms.has_newer",
    ),
    "what consoles read and wait for: nothing is written": (
        f"{_PROJECTOR}.wait_beyond:self._moved.wait",
        "jobs_admin.rpc.job_methods:JobMethods.group_errors:error_groups",
        "jobs_admin.rpc.job_methods:JobMethods.group_errors:self.clock.now",
        "jobs_admin.rpc.job_methods:JobMethods.group_errors:wait_for_position",
    ),
    "a read of schedules that a replica answered with an older one: it is read again": (
        *(
            f"trellis_jobs.jetstream.schedules.records:ScheduleRecords.{point}"
            for point in (
                "_list:self._connection.wait_until_connected",
                "_read_written:self._records.newest",
                "_read_written:self._records.read_after",
                "_replace_stale:self.find",
                "find:self._read_written",
            )
        ),
    ),
    "a decision whose jobs take longer than a second: a renewed alarm comes again all the same": (
        "trellis_jobs.scheduler.schedule_firing:ScheduleFirer._create_jobs:alarm.renew",
    ),
    "an alarm of a schedule that comes too early: setting it again is harmless at any time": (
        "trellis_jobs.scheduler.schedule_firing:ScheduleFirer._too_early:self.alarms.set_again",
    ),
    "schedules that cannot be applied yet, or that are only read: nothing is written": (
        "trellis_jobs.scheduler.declared_schedules:DeclaredSchedules.keep_applying:asyncio.sleep",
        "trellis_jobs.service.schedules:QueueSchedules.get:self._schedules.records.find",
        "trellis_jobs.jetstream.schedules.records:ScheduleRecords.position:self._records.newest",
    ),
    "what the next owner of an operation does after a death (tests/admin/test_operations.py)": (
        "jobs_admin.actions.job_actions:Actions.has_done:stored_message.newest",
        "jobs_admin.operations.page_work:PageWork._change_job:self._actions.has_done",
        "jobs_admin.operations.run:Run._finish_previous_page:self._work.do",
        "jobs_admin.operations.run:Run._finish_previous_page:load_targets",
    ),
    "a mistake of ours while an operation runs: what is left is one record": (
        "jobs_admin.operations.run:Run.fail:self._write",
        "jobs_admin.operations.runner:Runner._carry_out:run.fail",
    ),
    "an outage of the server while an operation runs: nothing is written": (
        "jobs_admin.operations.runner:Runner._carry_out:run.release#2",
        f"{_RECORDS}._write_once:self._connection.wait_until_connected",
        f"{_RECORDS}._write_once:asyncio.sleep",
        f"{_RECORDS}._own_copy:self.read_after",
        f"{_RECORDS}.write:self._own_copy",
        f"{_RECORDS}.write:asyncio.sleep",
    ),
    "replicas that lag behind, a conflict with an admin runtime, or a mistake of ours: the record "
    "is written again with the next beat": (
        f"{_RECORDS}.read_after:asyncio.sleep",
        f"{_WORKER_RECORDS}.change:self.read_after",
        "trellis_jobs.jetstream.work.lease_keeper:LeaseKeeper._keep_record:asyncio.sleep",
    ),
    "a list of the workers for an operator, which only reads": (
        f"{_WORKER_RECORDS}.all:self.listing",
        f"{_WORKER_RECORDS}.listing:self._records.listing",
        f"{_WORKER_RECORDS}.listing:self._records.newest_of_all",
        f"{_WORKER_RECORDS}.find:self._records.newest",
        f"{_RECORDS}.newest_of_all:_read_each",
    ),
    "checks of alarms and their streams for an operator, which only read": (
        "trellis_jobs.jetstream.alarms.alarms_info:read_alarms_info:api.request",
        f"{_ALARMS_STREAMS}:_is_visible:api.find",
        f"{_ALARMS_STREAMS}:_names:api.request",
        f"{_ALARMS_STREAMS}:services_with_alarms:_names",
        f"{_ALARMS_STREAMS}:services_with_alarms:asyncio.gather",
    ),
    "a service without a stream for alarms, or a stream without a leader: nothing is written": (
        "trellis_jobs.jetstream.alarms.alarms:Alarms._is_missing:api.request",
        "trellis_jobs.jetstream.alarms.alarms:Alarms._publish_until_stored:self._is_missing",
    ),
    "a takeover from a worker that sends heartbeats, which only reads (test_deaths.py)": (
        "trellis_jobs.worker.lost_attempt:_verdict_text:context.records.find",
    ),
    "a server without the stream of the records, which this only reads": (
        "jobs_admin.workers.registry:WorkerRegistry.run:asyncio.sleep",
    ),
    "replicas that lag behind, which one server has not": (
        f"{_READS}.latest:asyncio.sleep",
        f"{_READS}.find:asyncio.sleep",
        f"{_READS}.find:self._histories.read_through",
        f"{_RETENTION}._remaining:stored_message.newest",
        f"{_READS}.newest_sequence_from_leader:asyncio.sleep",
        "trellis_jobs.jetstream.keys.coordinator:KeyCoordinator.latest:self._events.latest#2",
        "trellis_jobs.jetstream.keys.coordinator:KeyCoordinator._fence:self._latest_from_leader",
        f"{_PROVISION}:_apply:_resume_source",
        f"{_PROVISION}:_resume_source:api.request",
        f"{_PROVISION}:_resume_source:asyncio.sleep",
        f"{_PROVISION}:_resume_source:api.request#2",
    ),
    "replicas that lag behind, or an alarm that comes between two requests: it only reads": (
        f"{_ALARMS}._set:asyncio.sleep",
        "trellis_jobs.scheduler.job_release:JobReleaser._scheduled_for:asyncio.sleep",
    ),
    "a trigger that the key refuses: without this write a worker decides again about its job": (
        "trellis_jobs.service.schedules:QueueSchedules.trigger:self._give_up",
        "trellis_jobs.service.schedules:QueueSchedules._give_up:self._schedules.change",
    ),
    "a thousand alarms at once: the next one is not taken yet": (
        "trellis_jobs.scheduler.alarm_worker:AlarmWorker._free_slots:self._has_slot.wait",
    ),
    "an outbound buffer that is full: the alarm is delivered again": (
        "trellis_jobs.jetstream.alarms.due_alarms:DueAlarm.answer:self._connection.publish",
    ),
    "a mistake of ours in the loop that receives alarms": (
        "trellis_jobs.scheduler.alarm_worker:AlarmWorker._keep_receiving:self._pause#2",
    ),
    "servers that cannot guard, or cannot batch, or do it wrongly": (
        f"{_PUBLISHER}._publish_or_find_copy:self._moved_past",
        f"{_PUBLISHER}._is_wrong_refusal:self._moved_past",
        f"{_PUBLISHER}._moved_past:self._reads.newest",
    ),
    "a server without the stream, or a stream without a leader: there is nothing to write to": (
        f"{_READS}.newest:asyncio.sleep",
        "trellis_jobs.jetstream.work.lease_keeper:LeaseKeeper._keep_renewing:self._wait",
        f"{_PROVISION}:require_log:asyncio.sleep",
        "trellis_jobs.worker.end_watch:EndWatch._check_with_retry:asyncio.sleep",
    ),
    "credentials that may not provision: it only reads": (f"{_PROVISION}:require_log:api.newest",),
    "a key whose state fits no message any more, or cannot be read: a person has to mend it": (
        f"{_TURNS}._apply_pending:self._fail",
        f"{_TURNS}._fail:self._apply_alone",
        f"{_TURNS}._apply_alone:self._apply_moves",
        f"{_TURNS}._apply_alone:self._fail",
    ),
    "more than eight handlers that end in one turn of the loop: no outcome is written yet": (
        "trellis_jobs.worker.attempt:AttemptRunner.run:self._throttle.wait",
    ),
    "a daemon that only answers: it looks for the file of another": (
        "jobs_admin.parts:assemble:_require_file",
        "jobs_admin.parts:_require_file:asyncio.to_thread",
        "jobs_admin.parts:_require_file:position",
    ),
    "a file that others write while it is rebuilt, or that breaks in an unknown way": (
        "jobs_admin.projection.rebuild:catch_up:ingest.apply",
        "jobs_admin.projection.rebuild:catch_up:ingest.complete",
        f"{_PROJECTOR}._run:self._close#4",
    ),
    "a job that is retried, or gets another event, while retention removes it": (
        "jobs_admin.projection.ingest:Ingest.forget:read_job",
        f"{_RETENTION}._is_there:self._read",
        f"{_RETENTION}._remaining:self._histories.messages",
    ),
    "a log that is full, or batches that are refused: nothing is stored meanwhile. What a death "
    "leaves, a reservation in a key or a lease, ends by itself": (
        f"{_PUBLISHER}.publish_batch:asyncio.sleep",
        f"{_PUBLISHER}.publish_batch:self.publish_with_retry",
        f"{_PUBLISHER}._publish_until_stored:self._space.wait",
        f"{_PUBLISHER}._publish_until_stored:self._find_stored_copy",
        f"{_PUBLISHER}._find_stored_copy:asyncio.sleep",
        f"{_PUBLISHER}._find_stored_copy:self._reads.own_copy",
        f"{_READS}.own_copy:self.newest",
        "trellis_jobs.jetstream.log.space_watch:SpaceWatch.wait:asyncio.sleep",
    ),
    "a log that is full while a keyed job is retried: key repair removes the place it has taken": (
        "jobs_admin.actions.job_actions:Actions._append:self.keys.withdraw",
    ),
    "an unused reader is deleted: the next sweep finds it again": (
        "jobs_admin.maintenance.abandoned_readers:AbandonedReaders.sweep:delete_reader",
        "trellis_jobs.jetstream.setup.readers:delete_reader:api.request",
    ),
    "a mistake of ours in the thread that renews leases": (
        "trellis_jobs.jetstream.work.lease_keeper:LeaseKeeper._keep_renewing:self._wait#2",
    ),
    "a server that is not ready when a process starts: nothing has begun": (
        "trellis_jobs.jetstream.client.startup:Startup.until_ready:asyncio.sleep",
    ),
    "how full the store is: it only reads": (
        "trellis_jobs.jetstream.setup.storage_info:_request_info:api.request",
        "trellis_jobs.jetstream.setup.storage_info:usages:asyncio.gather",
        "trellis_jobs.jetstream.setup.storage_info:account_usages:_request_info",
        "trellis_jobs.jetstream.setup.storage_info:usages:account_usages",
    ),
    "a payload that only another worker's contract accepts: it only reads before it puts it back": (
        "trellis_jobs.jetstream.work.puller:WorkPuller.recorded_contract:api.request",
        "trellis_jobs.worker.contract_gate:ContractGate._other_contract:self._work.recorded_contract",
        "trellis_jobs.worker.contract_gate:ContractGate.reclassify:self._other_contract",
    ),
    "a job that is purged, and its id used again, while one decides about it: it only reads": (
        "jobs_admin.actions.job_follower:JobFollower.after:self._whole#2",
    ),
    "a queue that is shared with foreign runtimes, of which the whole history is read": (
        f"{_READS}._latest_from:self._histories.read_through",
    ),
    "a queue that is shared with foreign runtimes, where notes go before the outcome": (
        "trellis_jobs.worker.attempt_log:AttemptLog.settle:self._append_notes",
    ),
    "a job that another admin runtime has purged: it only reads": (
        f"{_RETENTION}._purged_by_others:self._has_left",
        f"{_RETENTION}._has_left:has_events",
    ),
    "an advisory that cannot be dealt with now: it comes again by itself": (
        "jobs_admin.maintenance.advisories:Advisories.run:self._feed.later",
        "trellis_jobs.jetstream.work.advisory_feed:AdvisoryFeed.later:self._answer",
    ),
    "lost work of a job under whose subjects a stranger wrote: it only reads": (
        "jobs_admin.actions.guarded_append:GuardedAppender.unmoved:self.current",
    ),
    "more jobs of one state than a sweep checks": (
        "jobs_admin.maintenance.reconciliation:Reconciliation._check_some:self._check",
    ),
    "a read, of a key whose job has a delivery limit": (
        "jobs_admin.maintenance.stuck_messages:StuckMessages._may_be_held:self.keys.key_of",
        "jobs_admin.maintenance.stuck_messages:StuckMessages._may_be_held:self.keys.read",
    ),
}

# Passed in one run and not in the next, as processes happen to meet.
BY_CHANCE: Final = frozenset(
    {
        "trellis_jobs.jetstream.alarms.alarms:Alarms._publish_until_stored:asyncio.sleep",
        "jobs_admin.actions.job_keys:JobKeys._is_lost_with_worker:self._appender.newest",
        "jobs_admin.actions.job_keys:JobKeys.release:self._is_lost_with_worker",
        "jobs_admin.operations.records:OperationRecords.change:self.read",
        "jobs_admin.loops:Loops.keep_running:asyncio.sleep",
        "jobs_admin.projection.file_watch:FileWatch._check:check_integrity",
        f"{_PROJECTOR}._make_fit:self._mend",
        f"{_PROJECTOR}._run:self._close#2",
        f"{_PROJECTOR}._run:self._mend",
        f"{_PROJECTOR}._run:self._close#3",
        f"{_PROJECTOR}._run:self._rebuild",
        "jobs_admin.projection.rebuild:_held:database.execute",
        "jobs_admin.projection.rebuild:_held:position_of",
        "jobs_admin.projection.store:Projection.do:asyncio.wait",
        "jobs_admin.maintenance.pace:Pace.each:self.sleep",
        "jobs_admin.maintenance.reconciliation:Reconciliation.sweep:self._check_all",
        "jobs_admin.maintenance.reconciliation:Reconciliation._check_all:self._check_next",
        "jobs_admin.maintenance.reconciliation:Reconciliation.sweep:self._missing#2",
        "jobs_admin.actions.guarded_append:GuardedAppender.append.read:follower.after",
        "jobs_admin.actions.job_follower:JobFollower.after:self._whole",
        "jobs_admin.actions.job_follower:JobFollower.after:self._stretch",
        f"{_LOG}.append.append_if_legal:self.try_append",
        "trellis_jobs.jetstream.log.decide_again:append_planned:decide_again",
        f"{_BUCKET}._get:asyncio.sleep",
        f"{_BUCKET}._apply_moves:asyncio.sleep",
        f"{_BUCKET}.read_cached:self.read",
        f"{_ADMISSION}._replace_before_created:self._skip",
        "trellis_jobs.worker.attempt:AttemptRunner._settle:self._too_late",
        "trellis_jobs.worker.attempt:AttemptRunner._too_late:self._context.events.append",
        "trellis_jobs.jetstream.work.delivery:Delivery.answer:self._channel.connection.publish",
        "trellis_jobs.worker.claim:Claimer.claim:own.adopt_redelivery",
        "trellis_jobs.worker.running_job:RunningJob._check_end_once:self._check_end",
        "trellis_jobs.worker.running_job:RunningJob._renew_now:self.verify",
        "trellis_jobs.worker.capacity:Capacity.acquire:self._until_granted",
    }
)
