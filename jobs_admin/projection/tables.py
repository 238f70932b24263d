"""The projection's tables, as far as two projections of one log are compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

PRESENCE: Final = "worker_presence_projection"
STATE_CHANGES: Final = "state_changes"
# How many minutes a row is about, by the column that says when.
_MINUTES: Final = {"minute": 1, "hour": 60}


@dataclass(frozen=True, slots=True)
class Table:
    """`sequence` is the column that names the message of the log that a row began with.

    `counts` are columns with numbers of events, of which some may have left the log.
    """

    name: str
    key: tuple[str, ...]
    sequence: str | None = None
    expected: str | None = None
    counts: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        """What its rows should be like: those of the fresh fold, unless it says otherwise."""
        return self.expected or f"fresh.{self.name}"


def first_minute(row: Mapping[str, Any]) -> int:
    """The minute with which the time begins that a row with counts is about."""
    for column, minutes in _MINUTES.items():
        if column in row:
            return int(row[column]) * minutes
    return int(row["slot"]) * int(row["minutes"])


# Counts are of the rows that are there, those included of which the log knows no more.
_COUNTED: Final = (
    "(SELECT service, type, state, count(*) AS jobs FROM live.jobs_projection "
    "GROUP BY service, type, state)"
)
_CHANGES_COUNTED: Final = (
    "(SELECT updated_at / 600000000 - (updated_at % 600000000 < 0) AS slot, service, type, state, "
    "count(*) AS jobs FROM live.jobs_projection GROUP BY 1, 2, 3, 4)"
)
_KEYS_COUNTED: Final = (
    "(SELECT service, type, key_hash, key, count(*) AS jobs, sum(state = 'active') AS active, "
    "sum(state <> 'active') AS waiting FROM live.jobs_projection "
    "WHERE key IS NOT NULL AND state IN ('pending', 'retry', 'active') "
    "GROUP BY service, type, key_hash, key)"
)
_ERRORS_COUNTED: Final = (
    "(SELECT service, type, state, cause, error, count(*) AS jobs FROM live.jobs_projection "
    "WHERE error IS NOT NULL GROUP BY service, type, state, cause, error)"
)
_GROUPS_COUNTED: Final = (
    "(SELECT cause, service, type, state, count(*) AS jobs FROM live.jobs_projection "
    "WHERE cause <> 0 GROUP BY cause, service, type, state)"
)
_GROUP_VALUES_COUNTED: Final = (
    "(SELECT cause, state, error_values, count(*) AS jobs FROM live.jobs_projection "
    "WHERE cause <> 0 GROUP BY cause, state, error_values)"
)
_GROUP_VERSIONS_COUNTED: Final = (
    "(SELECT cause, state, app_version, count(*) AS jobs FROM live.jobs_projection "
    "WHERE cause <> 0 AND app_version IS NOT NULL GROUP BY cause, state, app_version)"
)
_GROUP_CHANGES_COUNTED: Final = (
    "(WITH slots (minutes) AS (VALUES (10), (60), (360), (1440)) "
    "SELECT minutes, updated_at / (minutes * 60000000) - (updated_at % (minutes * 60000000) < 0) "
    "AS slot, cause, state, count(*) AS jobs FROM slots, live.jobs_projection WHERE cause <> 0 "
    "GROUP BY 1, 2, 3, 4)"
)
TABLES: Final = (
    Table("jobs_projection", ("job",), "job"),
    Table("job_logs", ("job", "number"), "job"),
    Table("job_values", ("hash", "job"), "job"),
    Table("ignored_events", ("sequence",), "sequence"),
    Table("operator_actions", ("sequence",), "sequence"),
    Table("undecodable_messages", ("sequence",), "sequence"),
    Table(PRESENCE, ("service", "type", "instance")),
    Table("job_activity", ("minute", "service", "type", "kind"), counts=("events",)),
    Table("hourly_activity", ("hour", "service", "type", "kind"), counts=("events",)),
    Table(
        STATE_CHANGES,
        ("minutes", "slot", "service", "type", "state"),
        counts=("entered", "exited"),
    ),
    Table(
        "attempt_durations",
        ("minutes", "slot", "service", "type", "phase", "bucket"),
        counts=("attempts",),
    ),
    Table("job_counts", ("service", "type", "state"), expected=_COUNTED),
    Table("change_counts", ("slot", "service", "type", "state"), expected=_CHANGES_COUNTED),
    Table("key_counts", ("service", "type", "key_hash", "key"), expected=_KEYS_COUNTED),
    Table(
        "error_counts",
        ("service", "type", "state", "cause", "error"),
        expected=_ERRORS_COUNTED,
    ),
    Table("group_counts", ("cause", "service", "type", "state"), expected=_GROUPS_COUNTED),
    Table("group_value_counts", ("cause", "state", "error_values"), expected=_GROUP_VALUES_COUNTED),
    Table(
        "group_version_counts", ("cause", "state", "app_version"), expected=_GROUP_VERSIONS_COUNTED
    ),
    Table(
        "group_change_counts",
        ("minutes", "slot", "cause", "state"),
        expected=_GROUP_CHANGES_COUNTED,
    ),
)
