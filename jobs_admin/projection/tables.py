"""The projection's tables, as far as two projections of one log are compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

PRESENCE: Final = "worker_presence_projection"
# How many minutes a row of each table of activity is about, by its first column.
ACTIVITY: Final = {"job_activity": 1, "hourly_activity": 60}


@dataclass(frozen=True, slots=True)
class Table:
    """`sequence` is the column that names the message of the log that a row began with."""

    name: str
    key: tuple[str, ...]
    sequence: str | None = None
    expected: str | None = None

    @property
    def source(self) -> str:
        """What its rows should be like: those of the fresh fold, unless it says otherwise."""
        return self.expected or f"fresh.{self.name}"


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
    "(SELECT service, type, key_hash, key, count(*) AS jobs, sum(state = 'active') AS active "
    "FROM live.jobs_projection WHERE key IS NOT NULL AND state IN ('pending', 'retry', 'active') "
    "GROUP BY service, type, key_hash, key)"
)
_ERRORS_COUNTED: Final = (
    "(SELECT service, type, state, cause, error, count(*) AS jobs FROM live.jobs_projection "
    "WHERE error IS NOT NULL GROUP BY service, type, state, cause, error)"
)
_DEAD_COUNTED: Final = (
    "(SELECT cause, service, type, count(*) AS jobs FROM live.jobs_projection "
    "WHERE state = 'dead' GROUP BY cause, service, type)"
)
_DEAD_VALUES_COUNTED: Final = (
    "(SELECT cause, error_values, count(*) AS jobs FROM live.jobs_projection "
    "WHERE state = 'dead' GROUP BY cause, error_values)"
)
_DEAD_CHANGES_COUNTED: Final = (
    "(WITH slots (minutes) AS (VALUES (10), (60), (360), (1440)) "
    "SELECT minutes, updated_at / (minutes * 60000000) - (updated_at % (minutes * 60000000) < 0) "
    "AS slot, cause, count(*) AS jobs FROM slots, live.jobs_projection WHERE state = 'dead' "
    "GROUP BY 1, 2, 3)"
)
TABLES: Final = (
    Table("jobs_projection", ("job",), "job"),
    Table("job_logs", ("job", "number"), "job"),
    Table("job_values", ("hash", "job"), "job"),
    Table("ignored_events", ("sequence",), "sequence"),
    Table("operator_actions", ("sequence",), "sequence"),
    Table("undecodable_messages", ("sequence",), "sequence"),
    Table(PRESENCE, ("service", "type", "instance")),
    Table("job_activity", ("minute", "service", "type", "kind")),
    Table("hourly_activity", ("hour", "service", "type", "kind")),
    Table("job_counts", ("service", "type", "state"), expected=_COUNTED),
    Table("change_counts", ("slot", "service", "type", "state"), expected=_CHANGES_COUNTED),
    Table("key_counts", ("service", "type", "key_hash", "key"), expected=_KEYS_COUNTED),
    Table(
        "error_counts",
        ("service", "type", "state", "cause", "error"),
        expected=_ERRORS_COUNTED,
    ),
    Table("dead_counts", ("cause", "service", "type"), expected=_DEAD_COUNTED),
    Table("dead_value_counts", ("cause", "error_values"), expected=_DEAD_VALUES_COUNTED),
    Table("dead_change_counts", ("minutes", "slot", "cause"), expected=_DEAD_CHANGES_COUNTED),
)
