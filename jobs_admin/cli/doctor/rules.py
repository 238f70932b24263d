"""What the facts of an installation mean: no questions are asked here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from itertools import chain
from typing import Final

from jobs_admin.api.views.health import CheckView, HealthStatus, HealthView
from jobs_admin.api.views.services import WorkerView
from jobs_admin.cli.doctor.findings import Finding, attention, broken, fine, note
from jobs_admin.cli.queues.rows import QueueRow
from jobs_admin.cli.render.counts import count
from jobs_admin.health import CONTRACTS
from trellis_jobs.contract.features import FEATURES, Features
from trellis_jobs.contract.topology import LOG
from trellis_jobs.jetstream.client.replication import Replication
from trellis_jobs.jetstream.setup.permission_probe import ProbeResult
from trellis_jobs.jetstream.setup.plan import Act, Change
from trellis_jobs.jetstream.setup.readers import Reader, count_by_service, push_consumers
from trellis_jobs.model.clock_offset import MIN_OFFSET
from trellis_jobs.model.durations import format_duration
from trellis_jobs.model.usage import Level as Fullness
from trellis_jobs.model.usage import Usage

# Deadlines, retries and leases are compared over machines: so much is not noticed.
CLOCK_ALLOWED: Final = timedelta(seconds=1)
SLOW_ROUND_TRIP: Final = 0.1
_REPLICATED: Final = 3
# One for each wait, watch and read that is under way.
MOST_READERS: Final = 1000
_PUSHING_SHOWN: Final = 10
_UPGRADE: Final = "upgrade nats-server: 2.15 is recommended"
_SAME_VERSION: Final = (
    "finish the upgrade: the same version of trellis-jobs here, for the admin runtime and for "
    "workers, in any order"
)
_MAKE_SPACE: Final = (
    "make space before jobs can no longer be created: raise the limit, or shorten the retention of "
    "finished jobs (trellis-jobs admin serve --retention)"
)
_ONE_CONTRACT: Final = (
    "finish the deploy; or, if these are two services with the same name, give one another name: "
    "their workers fail or put back each other's jobs (`trellis-jobs contract diff` shows what "
    "differs)"
)
_SEE_TO_SERVERS: Final = (
    "see to the servers that hold the streams: while replicas are missing, the loss of one more "
    "server can stop all jobs"
)
MAKE_MISSING: Final = "make what is missing: trellis-jobs infra apply"


def judge_round_trip(seconds: float) -> Finding:
    took = f"round trip {format_duration(timedelta(seconds=seconds))}"
    if seconds < SLOW_ROUND_TRIP:
        return fine(took)
    return attention(took, "run workers nearer to the server: each job takes several round trips")


def judge_features(features: Features) -> list[Finding]:
    missing = features.missing()
    present = [feature.name for feature in FEATURES if feature not in missing]
    found = [attention(f"lacks {feature}", _UPGRADE) for feature in missing]
    return [fine(f"has {', '.join(present)}"), *found] if present else found


def judge_streams(changes: Iterable[Change]) -> list[Finding]:
    return list(map(_judge_change, changes))


def _judge_change(change: Change) -> Finding:
    details, command = "; ".join(change.details), "trellis-jobs infra apply"
    match change.act:
        case Act.CREATED:
            return broken(f"{change.name} is missing", MAKE_MISSING)
        case Act.REFUSED:
            return broken(
                f"{change.name} is not as jobs need it: {details}",
                f"change {change.name} back with the nats command line; or delete it, which loses "
                f"what is in it, and make it anew: {command}",
            )
        case Act.UPDATED:
            return attention(f"{change.name}: {details}", f"bring it up to date: {command}")
        case Act.KEPT if details:
            return note(f"{change.name}: {details}")
        case Act.KEPT:
            return fine(f"{change.name} is as it should be")


def judge_replication(streams: Sequence[Replication], cluster: str | None) -> list[Finding]:
    if not streams:
        return []
    found = [
        (attention if stream.leader else broken)(problem, _SEE_TO_SERVERS)
        for stream in streams
        for problem in stream.problems
    ]
    few = [stream.stream for stream in streams if stream.replicas < _REPLICATED]
    if cluster is None:
        found.append(note("one server: its loss stops all jobs until it is back"))
    elif few:
        found.append(
            attention(
                f"in cluster {cluster}, and {', '.join(few)} have fewer than 3 replicas",
                "let the loss of a server stop nothing: trellis-jobs infra apply --replicas 3",
            )
        )
    else:
        found.append(fine(f"every stream has {min(s.replicas for s in streams)} replicas"))
    return found


def judge_usages(usages: Iterable[Usage]) -> list[Finding]:
    """Only what fills up is worth a line."""
    found: list[Finding] = []
    for usage in usages:
        if usage.level is Fullness.FULL:
            found.append(broken(str(usage), _MAKE_SPACE))
        elif usage.level is Fullness.FILLING:
            found.append(attention(str(usage), _MAKE_SPACE))
    return found


def judge_sync(is_always: bool | None) -> Finding:
    if is_always is None:
        return note("whether it writes to disk at once is not known: --system-account lets it tell")
    if is_always:
        return fine("every write is on disk before it is confirmed")
    return attention(
        "writes are confirmed before they are on disk: a power cut loses the last seconds",
        "set `sync_interval: always` in the server's jetstream block",
    )


def judge_queues(rows: Sequence[QueueRow]) -> list[Finding]:
    if not rows:
        return [note("no worker has ever started, so there is no queue")]
    judged = [_judge_queue(row) for row in rows]
    quiet = sum(not found for found in judged)
    return [
        fine(f"{count(quiet)} of {count(len(rows))} queues need nothing"),
        *chain.from_iterable(judged),
    ]


def _judge_queue(row: QueueRow) -> list[Finding]:
    found: list[Finding] = []
    if row.drift:
        remedy = f"restart the workers of {row.service}, or `trellis-jobs infra apply --app`"
        found.append(attention(f"{row.name}: {'; '.join(row.drift)}", remedy))
    if row.queue is not None and row.queue.consumer.is_paused:
        why = f" ({row.queue.consumer.paused_because})" if row.queue.consumer.paused_because else ""
        found.append(note(f"{row.name}: paused{why}, {count(row.queue.consumer.pending)} waiting"))
    if row.is_unattended:
        waiting = f"{count(row.waiting)} waiting, and no worker asks for them"
        found.append(broken(f"{row.name}: {waiting}", f"start workers of {row.name}"))
    return found


def judge_workers(workers: Iterable[WorkerView]) -> list[Finding]:
    """A worker has a view for each of its queues, and one event loop."""
    longest: dict[tuple[str, str], int] = {}
    for worker in workers:
        if worker.loop_blocked_ms is not None:
            whose = (worker.service, worker.instance_id)
            longest[whose] = max(longest.get(whose, 0), worker.loop_blocked_ms)
    return [
        attention(
            f"worker {instance} of {service}: a handler blocked its event loop for "
            f"{format_duration(timedelta(milliseconds=blocked))} in the last 10 minutes",
            "let handlers that block be plain functions (def instead of async def), or call "
            "asyncio.to_thread in them; the worker's log names the job and the line",
        )
        for (service, instance), blocked in sorted(longest.items())
    ]


def judge_worker_clocks(workers: Iterable[WorkerView]) -> list[Finding]:
    offsets = {
        (worker.service, worker.instance_id): timedelta(milliseconds=worker.clock_offset_ms)
        for worker in workers
        if worker.clock_offset_ms is not None
    }
    return [
        attention(
            f"the clock of worker {instance} of {service} is {format_duration(abs(ahead))} "
            f"{'ahead of' if ahead > timedelta() else 'behind'} the server's",
            "set the clocks (NTP): workers correct the times of jobs, your own code does not",
        )
        for (service, instance), ahead in sorted(offsets.items())
        if abs(ahead) > MIN_OFFSET
    ]


def judge_readers(readers: Sequence[Reader]) -> list[Finding]:
    found = [
        attention(
            f"{reader.path} pushes the jobs of {reader.service} to {reader.deliver_subject}: "
            "nothing of trellis-jobs makes push consumers, and one can slow down others",
            f"ask the owners of {reader.service} what it is for, or delete it as the user of the "
            f"admin runtime: nats consumer rm {reader.stream} {reader.name}",
        )
        for reader in push_consumers(readers)[:_PUSHING_SHOWN]
    ]
    if (more := len(push_consumers(readers)) - len(found)) > 0:
        found.append(note(f"and {more} more push consumers"))
    found += [
        attention(
            f"{count} consumers of {LOG} read the jobs of {service}: each costs the server memory",
            f"find out why {service} makes so many readers; the admin runtime deletes those that "
            "were not used for an hour, unless they are durable",
        )
        for service, count in count_by_service(readers).most_common()
        if count > MOST_READERS
    ]
    return found or [fine(f"{len(readers)} readers of the log, none of them pushes")]


def judge_abilities(found: Sequence[ProbeResult]) -> list[Finding]:
    told = []
    for can, words in ((True, "may"), (False, "may not"), (None, "no answer whether they may")):
        names = [ability.name for ability in found if ability.allowed is can]
        if names:
            told.append((fine if can else note)(f"{words}: {', '.join(names)}"))
    return told


def judge_version(ours: str, of_daemon: str | None) -> Finding:
    if of_daemon == ours:
        return fine(f"it is trellis-jobs {ours} too")
    theirs = f"trellis-jobs {of_daemon}" if of_daemon else "a version that does not tell which"
    return attention(f"it is {theirs}, and this command {ours}", _SAME_VERSION)


def judge_health(health: HealthView) -> list[Finding]:
    found = [_judge_check(check) for check in health.checks if check.status is not HealthStatus.OK]
    projection = health.check("projection")
    lag = projection.lag_seconds if projection else None
    behind = "" if lag is None else f", {format_duration(timedelta(seconds=lag))} behind the log"
    return [fine(f"answers, mode {health.mode.value}{behind}"), *found]


def _judge_check(check: CheckView) -> Finding:
    why = check.error or check.last_error or "see `trellis-jobs admin` and its log"
    if check.name == CONTRACTS:
        return attention(why, _ONE_CONTRACT)
    return attention(f"{check.name} is degraded: {why}", f"see to the admin runtime: {check.name}")


def judge_clock(ahead: timedelta) -> Finding:
    if abs(ahead) <= CLOCK_ALLOWED:
        return fine(f"the server's clock differs by {format_duration(abs(ahead))}")
    where = "ahead of" if ahead > timedelta() else "behind"
    words = f"the server's clock is {format_duration(abs(ahead))} {where} this one"
    return attention(words, "set the clocks (NTP): deadlines and ages are compared over machines")
