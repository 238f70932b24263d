"""The table of queue options: the one place that has the facts about each option.

The declaration of queues, the manifest and its schema, generated modules, the classification of
changes and the reference page take their facts from here. The types that type checkers see are in
`declaration.py` (`JobOptions` and `JobType`); tests/contract/test_queue_options.py holds the two
equal. The order of the table is the order of the fields in a manifest.
"""

from __future__ import annotations

from dataclasses import fields
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import Field

from trellis_jobs.contract import change_rules
from trellis_jobs.contract.change_rules import always, limit, may_grow, migration, switch, update
from trellis_jobs.contract.documents import Part
from trellis_jobs.contract.key_policy import KeyConcurrency, QueueDepth
from trellis_jobs.contract.option import REQUIRED, Option, group, with_fields
from trellis_jobs.contract.option_kinds import (
    ANY,
    COUNT,
    DURATION,
    DURATIONS,
    EXCEPTIONS,
    FLAG,
    RENEWAL,
    SWITCH,
    Kind,
    count_unless,
    duration_at_least,
    one_of,
    optional,
)
from trellis_jobs.contract.schedule_kind import SCHEDULES
from trellis_jobs.errors import DeclarationError
from trellis_jobs.model.keys.backlog import WhenDue, WhenFull
from trellis_jobs.model.keys.fencing import StalePolicy
from trellis_jobs.model.retry import DEFAULT_MAX_SNOOZES
from trellis_jobs.model.try_limits import Renewal

if TYPE_CHECKING:
    from collections.abc import Mapping

_OF_KEY: Final = {each.name: each.default for each in fields(KeyConcurrency)}
_OF_DEPTH: Final = {each.name: each.default for each in fields(QueueDepth)}

KEY_OPTIONS: Final = (
    Option(
        name="key",
        kind=Kind(json_type=Annotated[list[str], Field(min_length=1)], to_json=list),
        about="constants, and JSON Pointers into the payload, such as `/customer/id`",
        default=REQUIRED,
        attribute="template.segments",
        field="key",
        change=always(migration("other jobs than before share a key and wait for each other")),
    ),
    Option(
        name="max_active",
        kind=COUNT,
        about="jobs of a key that may run at once",
        default=_OF_KEY["max_active"],
        field="maxActive",
        change=may_grow(
            more="more jobs of a key run at once", less="fewer jobs of a key run at once"
        ),
    ),
    Option(
        name="heartbeat_interval",
        kind=optional(DURATION),
        about="how often a worker renews its slot; without it, a third of `ack_wait`, at most 30 s",
        default=_OF_KEY["heartbeat_interval"],
        field="heartbeatIntervalMs",
        change=change_rules.renewal,
    ),
    Option(
        name="heartbeat_ttl",
        kind=optional(DURATION),
        about="how long a slot is kept without renewal; without it, twice `ack_wait`, or three "
        "intervals if that is longer",
        default=_OF_KEY["heartbeat_ttl"],
        field="heartbeatTtlMs",
        change=may_grow(
            more="a dead worker keeps its key for longer", less="a slow worker may lose its key"
        ),
    ),
    Option(
        name="stale_policy",
        kind=one_of(StalePolicy),
        about="what happens to a job whose slot expired: `fail-stale` ends it, `block` keeps "
        "the slot until an operator acts",
        default=_OF_KEY["stale_policy"],
        field="stalePolicy",
        change=always(migration("what happens when a worker that holds a key dies changes")),
    ),
)
DEPTH_OPTIONS: Final = (
    Option(
        name="max_queued_per_key",
        kind=Kind(json_type=Annotated[int, Field(ge=0)]),
        about="jobs that may wait for a key",
        default=_OF_DEPTH["max_queued_per_key"],
        attribute="max_queued",
        field="maxQueuedPerKey",
        change=may_grow(
            more="more jobs may wait for a key", less="jobs may be rejected that could have waited"
        ),
    ),
    Option(
        name="when_full",
        kind=one_of(WhenFull),
        about="what happens to one more job: `reject` it, `coalesce` it with a job that waits or "
        "runs, or `replace-oldest`",
        default=_OF_DEPTH["when_full"],
        field="whenFull",
        change=change_rules.when_full,
    ),
    Option(
        name="when_due",
        kind=one_of(WhenDue),
        about="what happens to a delayed job whose key is full when its time comes: it may `wait` "
        "beyond the limit, or is treated as a new job is, by `when-full`",
        default=_OF_DEPTH["when_due"],
        field="whenDue",
        change=change_rules.when_due,
    ),
)


@with_fields(KEY_OPTIONS)
class KeyEntry(Part):
    pass


@with_fields(DEPTH_OPTIONS)
class DepthEntry(Part):
    pass


QUEUE_OPTIONS: Final = (
    Option(
        name="name",
        kind=ANY,
        about="the name of the queue; without it, the name of the attribute, with dashes",
    ),
    Option(
        name="version",
        kind=ANY,
        about="the version of the payload; see [contracts](../guides/contracts.md)",
        default=1,
    ),
    Option(
        name="upgrades",
        kind=Kind(read=lambda _option, given: dict(given)),
        about="for each earlier version, the function that converts its JSON to the next version",
        default={},
    ),
    Option(
        name="max_deliver",
        kind=COUNT,
        about="tries before the job is dead",
        default=5,
        attribute="retry.max_tries",
        field="maxDeliver",
        change=may_grow(more="jobs get more tries", less="jobs die after fewer tries"),
    ),
    Option(
        name="backoff",
        kind=DURATIONS,
        about="the delay before each next try; the last one repeats, and each gets up to 10 % "
        "of random delay on top",
        default=tuple(timedelta(seconds=s) for s in (5, 30, 120, 600, 1800)),
        attribute="retry.delays",
        field="backoffMs",
        change=change_rules.backoff,
    ),
    Option(
        name="max_snoozes",
        kind=count_unless(DEFAULT_MAX_SNOOZES),
        about="how often handlers may snooze a job with `Snooze`; one more fails it",
        default=DEFAULT_MAX_SNOOZES,
        attribute="retry.max_snoozes",
        field="maxSnoozes",
        change=may_grow(
            more="jobs may be snoozed more often",
            less="jobs fail after fewer snoozes",
            default=DEFAULT_MAX_SNOOZES,
        ),
    ),
    Option(
        name="ack_wait",
        kind=duration_at_least(timedelta(milliseconds=100)),
        about="how long a worker that does not respond keeps its job",
        default=timedelta(seconds=30),
        field="ackWaitMs",
        change=may_grow(
            more="a dead worker is detected later", less="a slow worker may be considered dead"
        ),
    ),
    Option(
        name="renew",
        kind=RENEWAL,
        about="`manual`: only `job.heartbeat()` renews the lease, and a handler that does not call "
        "it for `ack_wait`, or for the `visibility` of its job, is stopped",
        default=Renewal.AUTOMATIC,
        field="renew",
        change=change_rules.renew,
    ),
    Option(
        name="progress",
        kind=SWITCH,
        about="whether progress is written to the log",
        default=True,
        field="progress",
        change=switch(on="progress is recorded", off="progress is no longer recorded"),
    ),
    Option(
        name="logs",
        kind=SWITCH,
        about="whether log lines are written to the log",
        default=True,
        field="logs",
        change=switch(on="log lines are recorded", off="log lines are no longer recorded"),
    ),
    Option(
        name="dlq",
        kind=SWITCH,
        about="whether a job without tries left is kept as dead; else it is failed",
        default=True,
        attribute="dead_letters",
        field="dlq",
        change=switch(
            on="jobs without tries left are kept as dead",
            off="jobs without tries left fail, and are not in the dead letter queue",
        ),
    ),
    Option(
        name="concurrency",
        kind=COUNT,
        about="jobs that run at once in each worker process",
        default=1,
        field="concurrency",
        change=always(update("only the number of jobs that run at once changes")),
    ),
    Option(
        name="deadline",
        kind=optional(DURATION),
        about="a job that did not start within this time after its creation expires",
        field="defaultDeadlineMs",
        change=limit(looser="jobs have more time", tighter="jobs may expire that would have run"),
    ),
    Option(
        name="timeout",
        kind=optional(DURATION),
        about="the time limit of one try; a try that exceeds it counts as a retryable error",
        field="timeoutMs",
        change=limit(
            looser="attempts have more time",
            tighter="attempts may be stopped that would have succeeded",
        ),
    ),
    Option(
        name="delivery_limit",
        kind=optional(COUNT),
        about="deliveries before the server gives up",
        field="deliveryLimit",
        change=limit(
            looser="the server delivers a job more often before it gives up",
            tighter="jobs may die after fewer deliveries",
        ),
    ),
    Option(
        name="permanent",
        kind=EXCEPTIONS,
        about="exception types that end the job at once",
        default=(),
    ),
    Option(
        name="shared",
        kind=FLAG,
        about="other runtimes write events of this queue too, so workers read whole histories",
        default=False,
        field="shared",
        change=switch(
            on="workers read whole histories", off="events of other runtimes count as guarded"
        ),
    ),
    Option(
        name="key",
        kind=group(KeyConcurrency, KeyEntry, KEY_OPTIONS),
        about="limits how many jobs of a key run at once",
        attribute="key_policy",
        field="keyConcurrency",
        members=KEY_OPTIONS,
    ),
    Option(
        name="queue",
        kind=group(QueueDepth, DepthEntry, DEPTH_OPTIONS),
        about="how many jobs may wait for a key, and what happens to one more",
        attribute="key_policy",
        field="queue",
        members=DEPTH_OPTIONS,
    ),
    Option(
        name="schedules",
        kind=SCHEDULES,
        about="creates jobs at certain times: `Cron(…)` or `Every(…)` for each name",
        default={},
        field="schedules",
        change=change_rules.schedule,
        named=True,
    ),
    Option(
        name="docs",
        kind=ANY,
        about="documentation for readers of the manifest; any JSON",
        field="docs",
        change=always(update("only documentation changes")),
    ),
)
_BY_NAME: Final = {option.name: option for option in QUEUE_OPTIONS}
DEFAULTS: Final[Mapping[str, Any]] = {option.name: option.default for option in QUEUE_OPTIONS}


def read_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the arguments of job(...) to values. Raises DeclarationError."""
    for name in arguments:
        if name not in _BY_NAME:
            known = ", ".join(sorted(_BY_NAME))
            raise DeclarationError(f"unknown option {name!r}; the options are {known}")
    return {name: _BY_NAME[name].kind.read(name, given) for name, given in arguments.items()}
