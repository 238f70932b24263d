"""The projection's tables, as far as two projections of one log are compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

PRESENCE: Final = "worker_presence_projection"
ACTIVITY: Final = "job_activity"


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
    "(SELECT service, type, state, error, count(*) AS jobs FROM live.jobs_projection "
    "WHERE error IS NOT NULL GROUP BY service, type, state, error)"
)
TABLES: Final = (
    Table("jobs_projection", ("job",), "job"),
    Table("job_logs", ("job", "number"), "job"),
    Table("payload_values", ("hash", "job"), "job"),
    Table("ignored_events", ("sequence",), "sequence"),
    Table("undecodable_messages", ("sequence",), "sequence"),
    Table(PRESENCE, ("service", "type", "instance")),
    Table(ACTIVITY, ("minute", "service", "type", "kind")),
    Table("job_counts", ("service", "type", "state"), expected=_COUNTED),
    Table("change_counts", ("slot", "service", "type", "state"), expected=_CHANGES_COUNTED),
    Table("key_counts", ("service", "type", "key_hash", "key"), expected=_KEYS_COUNTED),
    Table("error_counts", ("service", "type", "state", "error"), expected=_ERRORS_COUNTED),
)
