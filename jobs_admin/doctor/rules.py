"""The rules of `doctor`: pure functions from facts to findings."""

from __future__ import annotations

from datetime import timedelta
from itertools import chain
from typing import TYPE_CHECKING, Final

from jobs_admin.api.views.health import CONTRACTS, HealthStatus
from jobs_admin.doctor.findings import about_queue, about_worker, broken, fine, note, warning
from jobs_admin.doctor.job_rules import check_jobs
from trellis_jobs.contract.features import FEATURES
from trellis_jobs.contract.topology import CONTROL, LOG
from trellis_jobs.jetstream.setup.plan import Act
from trellis_jobs.jetstream.setup.readers import count_by_service, push_consumers
from trellis_jobs.model.clock_offset import MIN_OFFSET
from trellis_jobs.model.durations import format_duration
from trellis_jobs.model.usage import Level as Fullness

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from jobs_admin.api.views.doctor import Finding
    from jobs_admin.api.views.health import CheckView, HealthView
    from jobs_admin.api.views.queues import QueueView
    from jobs_admin.api.views.services import WorkerView
    from trellis_jobs.contract.features import Features
    from trellis_jobs.jetstream.client.replication import Replication
    from trellis_jobs.jetstream.client.stream_info import DroppingLimit
    from trellis_jobs.jetstream.setup.permission_probe import ProbeResult
    from trellis_jobs.jetstream.setup.plan import Change
    from trellis_jobs.jetstream.setup.readers import Reader
    from trellis_jobs.model.usage import Usage

# Deadlines, retries and leases are compared between machines; this difference does no harm.
MAX_CLOCK_DIFFERENCE: Final = timedelta(seconds=1)
SLOW_ROUND_TRIP: Final = 0.1
_MIN_REPLICAS: Final = 3
# Each wait, watch and read in progress has one.
MAX_READERS: Final = 1000
_MAX_PUSH_CONSUMERS_SHOWN: Final = 10
_UPGRADE: Final = "upgrade nats-server: 2.15 is recommended"
_SAME_VERSION: Final = (
    "finish the upgrade: install the same version of trellis-jobs here, for the admin runtime and "
    "for workers, in any order"
)
_FREE_SPACE: Final = (
    "free space before jobs can no longer be created: raise the limit, or shorten the retention of "
    "ended jobs (trellis-jobs admin serve --retention)"
)
_ONE_CONTRACT: Final = (
    "finish the deploy; or, if these are two services with the same name, rename one: their "
    "workers fail or put back each other's jobs (`trellis-jobs contract diff` shows the "
    "differences)"
)
_REPAIR_SERVERS: Final = (
    "repair the servers that hold the streams: while replicas are missing, the loss of one more "
    "server can stop all jobs"
)
CREATE_MISSING: Final = "create what is missing: trellis-jobs infra apply"


def check_round_trip(seconds: float) -> Finding:
    took = f"round trip {format_duration(timedelta(seconds=seconds))}"
    if seconds < SLOW_ROUND_TRIP:
        return fine(took)
    return warning(took, "run workers closer to the server: each job takes several round trips")


def check_features(features: Features) -> list[Finding]:
    missing = features.missing()
    present = [feature.name for feature in FEATURES if feature not in missing]
    found = [warning(f"lacks {feature}", _UPGRADE) for feature in missing]
    return [fine(f"has {', '.join(present)}"), *found] if present else found


def check_streams(changes: Iterable[Change]) -> list[Finding]:
    return list(map(_check_change, changes))


def _check_change(change: Change) -> Finding:
    details, command = "; ".join(change.details), "trellis-jobs infra apply"
    match change.act:
        case Act.CREATED if change.name == CONTROL:
            return warning(
                f"{change.name} is missing: jobs run, but operations on many jobs (`jobs cancel`, "
                "`dlq replay` with a filter) cannot be started, and workers keep no records",
                CREATE_MISSING,
            )
        case Act.CREATED:
            return broken(f"{change.name} is missing", CREATE_MISSING)
        case Act.REFUSED:
            return broken(
                f"{change.name} has settings that jobs cannot work with: {details}",
                f"change {change.name} back with the nats command line; or delete it, which loses "
                f"its contents, and create it again: {command}",
            )
        case Act.UPDATED:
            return warning(f"{change.name}: {details}", f"update it: {command}")
        case Act.KEPT if details:
            return note(f"{change.name}: {details}")
        case Act.KEPT:
            return fine(f"{change.name} is up to date")


def check_dropping_limits(limits: Iterable[DroppingLimit]) -> list[Finding]:
    """Every event of a job must stay in the log until retention purges the whole job."""
    return [
        broken(
            f"{LOG} deletes its oldest events silently, because it has {limit}: jobs lose their "
            "history or are lost",
            f"remove the limit, or let the stream refuse new events: nats stream edit {LOG} "
            f"{limit.remedy}",
        )
        for limit in limits
    ]


def check_replication(streams: Sequence[Replication], cluster: str | None) -> list[Finding]:
    if not streams:
        return []
    found = [
        (warning if stream.leader else broken)(problem, _REPAIR_SERVERS)
        for stream in streams
        for problem in stream.problems
    ]
    few = [stream.stream for stream in streams if stream.replicas < _MIN_REPLICAS]
    if cluster is None:
        found.append(note("one server: its loss stops all jobs until it is back"))
    elif few:
        found.append(
            warning(
                f"in cluster {cluster}, {', '.join(few)} have fewer than {_MIN_REPLICAS} replicas",
                "add replicas, so that jobs survive the loss of a server: trellis-jobs infra apply "
                "--replicas 3",
            )
        )
    else:
        found.append(fine(f"every stream has {min(s.replicas for s in streams)} replicas"))
    return found


def check_usages(usages: Iterable[Usage]) -> list[Finding]:
    """Report only what is nearly full."""
    found: list[Finding] = []
    for usage in usages:
        if usage.level is Fullness.FULL:
            found.append(broken(str(usage), _FREE_SPACE))
        elif usage.level is Fullness.FILLING:
            found.append(warning(str(usage), _FREE_SPACE))
    return found


def check_sync(is_always: bool | None) -> Finding:
    if is_always is None:
        return note("sync_interval is not known: add --system-account to read it")
    if is_always:
        return fine("sync_interval is always: writes are on disk before they are confirmed")
    return warning(
        "writes are confirmed before they are on disk: a power failure loses the last seconds",
        "set `sync_interval: always` in the server's jetstream block",
    )


def check_queues(
    queues: Sequence[QueueView], failing_since: Mapping[str, datetime] | None = None
) -> list[Finding]:
    """`failing_since`: since when most tries of a queue fail, by its name, as far as known."""
    if not queues:
        return [note("there are no queues, because no worker was ever started")]
    findings = [
        [*_check_queue(queue), *check_jobs(queue, (failing_since or {}).get(queue.name))]
        for queue in queues
    ]
    healthy = sum(not found for found in findings)
    level = fine if healthy == len(queues) else note
    return [
        level(f"{healthy:,} of {len(queues):,} queues are healthy"),
        *chain.from_iterable(findings),
    ]


def _check_queue(queue: QueueView) -> list[Finding]:
    found: list[Finding] = []
    about = about_queue(queue.service, queue.type)
    if queue.drift:
        remedy = f"restart the workers of {queue.service}, or run `trellis-jobs infra apply --app`"
        found.append(warning(f"{queue.name}: {'; '.join(queue.drift)}", remedy, about))
    if queue.paused:
        found.append(note(f"{queue.name}: {_pause_words(queue)}", about))
    if queue.unattended:
        waiting = f"{queue.waiting:,} waiting, and no worker is available"
        remedy = f"start workers for {queue.name}"
        found.append(broken(f"{queue.name}: {waiting}", remedy, about, queue.oldest_at))
    return found


def _pause_words(queue: QueueView) -> str:
    by = f" by {queue.paused_by}" if queue.paused_by else ""
    why = f" ({queue.pause_reason})" if queue.pause_reason else ""
    until = f" until {queue.paused_until:%Y-%m-%d %H:%M:%S}Z" if queue.paused_until else ""
    return f"paused{by}{until}{why}, {queue.waiting:,} waiting"


def check_workers(workers: Iterable[WorkerView]) -> list[Finding]:
    """A worker sends a heartbeat for each of its queues, and has one event loop."""
    longest: dict[tuple[str, str], int] = {}
    for worker in workers:
        if worker.loop_blocked_ms is not None:
            identity = (worker.service, worker.instance_id)
            longest[identity] = max(longest.get(identity, 0), worker.loop_blocked_ms)
    return [
        warning(
            f"worker {instance} of {service}: a handler blocked its event loop for "
            f"{format_duration(timedelta(milliseconds=blocked))} in the last 10 minutes",
            "write handlers that block as plain functions (def instead of async def), or use "
            "asyncio.to_thread in them; the worker's log names the job and the line",
            about_worker(service, instance),
        )
        for (service, instance), blocked in sorted(longest.items())
    ]


def check_worker_clocks(workers: Iterable[WorkerView]) -> list[Finding]:
    offsets = {
        (worker.service, worker.instance_id): timedelta(milliseconds=worker.clock_offset_ms)
        for worker in workers
        if worker.clock_offset_ms is not None
    }
    return [
        warning(
            f"the clock of worker {instance} of {service} is {format_duration(abs(ahead))} "
            f"{'ahead of' if ahead > timedelta() else 'behind'} the server's",
            "synchronise the clocks (NTP): workers correct the times of jobs, your code does not",
            about_worker(service, instance),
        )
        for (service, instance), ahead in sorted(offsets.items())
        if abs(ahead) > MIN_OFFSET
    ]


def check_readers(readers: Sequence[Reader]) -> list[Finding]:
    found = [
        warning(
            f"{reader.path} pushes the jobs of {reader.service} to {reader.deliver_subject}: "
            "trellis-jobs does not create push consumers, and they can slow down other readers",
            f"ask the owners of {reader.service} what it is for, or delete it as the user of the "
            f"admin runtime: nats consumer rm {reader.stream} {reader.name}",
        )
        for reader in push_consumers(readers)[:_MAX_PUSH_CONSUMERS_SHOWN]
    ]
    if (more := len(push_consumers(readers)) - len(found)) > 0:
        found.append(note(f"and {more} more push consumers"))
    found += [
        warning(
            f"{count} consumers of {LOG} read the jobs of {service}: each costs the server memory",
            f"find out why {service} creates that many readers; the admin runtime deletes readers "
            "that were not used for an hour, unless they are durable",
        )
        for service, count in count_by_service(readers).most_common()
        if count > MAX_READERS
    ]
    readers_of_log = "1 reader" if len(readers) == 1 else f"{len(readers):,} readers"
    return found or [fine(f"{readers_of_log} of the log, no push consumers")]


def check_abilities(found: Sequence[ProbeResult]) -> list[Finding]:
    findings = []
    for allowed, words in ((True, "permitted"), (False, "not permitted"), (None, "not known")):
        names = [ability.name for ability in found if ability.allowed is allowed]
        if names:
            findings.append((fine if allowed else note)(f"{words}: {', '.join(names)}"))
    return findings


def check_version(ours: str, daemon: str | None) -> Finding:
    if daemon == ours:
        return fine(f"same version as this command: {ours}")
    theirs = f"trellis-jobs {daemon}" if daemon else "an older version of trellis-jobs"
    return warning(f"the admin runtime is {theirs}, this command is {ours}", _SAME_VERSION)


def check_health(health: HealthView) -> list[Finding]:
    found = [
        _check_health_check(check) for check in health.checks if check.status is not HealthStatus.OK
    ]
    projection = health.check("projection")
    lag = projection.lag_seconds if projection else None
    behind = "" if lag is None else f", {format_duration(timedelta(seconds=lag))} behind the log"
    return [fine(f"answers, mode {health.mode.value}{behind}"), *found]


def _check_health_check(check: CheckView) -> Finding:
    why = check.error or check.last_error or "see the log of the admin runtime"
    if check.name == CONTRACTS:
        return warning(why, _ONE_CONTRACT)
    return warning(
        f"{check.name} is degraded: {why}", f"check {check.name} in the log of the admin runtime"
    )


def check_clock(ahead: timedelta) -> Finding:
    if abs(ahead) <= MAX_CLOCK_DIFFERENCE:
        return fine(f"the server's clock differs by {format_duration(abs(ahead))}")
    where = "ahead of" if ahead > timedelta() else "behind"
    words = f"the server's clock is {format_duration(abs(ahead))} {where} this one"
    return warning(
        words, "synchronise the clocks (NTP): deadlines and ages are compared between machines"
    )
