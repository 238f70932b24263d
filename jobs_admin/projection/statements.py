"""What is written into a projection's tables, as SQL."""

from __future__ import annotations

from typing import Final

from jobs_admin.projection.bulk_statement import BulkStatement
from jobs_admin.projection.rows import COLUMNS

JOBS: Final = f"SELECT {', '.join(COLUMNS)} FROM jobs_projection"  # noqa: S608 - our own column names
UPSERT_JOBS: Final = BulkStatement(
    f"INSERT INTO jobs_projection ({', '.join(COLUMNS)})",
    len(COLUMNS),
    "ON CONFLICT (job) DO UPDATE SET "
    + ", ".join(f"{column} = excluded.{column}" for column in COLUMNS[4:]),
)
ADD_JOB_VALUES: Final = BulkStatement("INSERT OR IGNORE INTO job_values", 2)
ADD_LINES: Final = BulkStatement("INSERT INTO job_logs", 6)
FORGET_LINES: Final = "DELETE FROM job_logs WHERE job = ? AND number <= ?"
ADD_IGNORED: Final = BulkStatement("INSERT OR IGNORE INTO ignored_events", 6)
ADD_ACTIONS: Final = BulkStatement("INSERT OR IGNORE INTO operator_actions", 9)
ADD_UNDECODABLE: Final = BulkStatement("INSERT OR IGNORE INTO undecodable_messages", 4)
COUNT_ACTIVITY: Final = BulkStatement(
    "INSERT INTO job_activity",
    5,
    "ON CONFLICT (minute, service, type, kind) DO UPDATE SET events = events + excluded.events",
)
FORGET_ACTIVITY: Final = (
    "DELETE FROM job_activity WHERE minute < (SELECT max(minute) FROM job_activity) - ?"
)
COUNT_HOURS: Final = BulkStatement(
    "INSERT INTO hourly_activity",
    5,
    "ON CONFLICT (hour, service, type, kind) DO UPDATE SET events = events + excluded.events",
)
FORGET_HOURS: Final = (
    "DELETE FROM hourly_activity WHERE hour < ((SELECT max(minute) FROM job_activity) - ?) / 60"
)
COUNT_STATE_CHANGES: Final = BulkStatement(
    "INSERT INTO state_changes",
    7,
    "ON CONFLICT (minutes, slot, service, type, state) DO UPDATE SET "
    "entered = entered + excluded.entered, exited = exited + excluded.exited",
)
COUNT_REMOVED: Final = BulkStatement(
    "INSERT INTO removed_jobs",
    6,
    "ON CONFLICT (minutes, slot, service, type, state) DO UPDATE SET jobs = jobs + excluded.jobs",
)
COUNT_DURATIONS: Final = BulkStatement(
    "INSERT INTO attempt_durations",
    7,
    "ON CONFLICT (minutes, slot, service, type, phase, bucket) "
    "DO UPDATE SET attempts = attempts + excluded.attempts",
)
# Slots of a length that ended a number of minutes before the newest event that was counted.
FORGET_SLOTS: Final = tuple(
    f"DELETE FROM {table} WHERE minutes = ?1 "  # noqa: S608 - our own tables
    "AND slot < ((SELECT max(minute) FROM job_activity) - ?2) / ?1"
    for table in ("state_changes", "removed_jobs", "attempt_durations")
)
UPSERT_PRESENCE: Final = BulkStatement(
    "INSERT INTO worker_presence_projection",
    10,
    "ON CONFLICT (service, type, instance) DO UPDATE SET seen_at = excluded.seen_at, "
    "said_at = excluded.said_at, concurrency = excluded.concurrency, version = excluded.version, "
    "loop_blocked_ms = excluded.loop_blocked_ms, contract = excluded.contract, "
    "clock_offset_ms = excluded.clock_offset_ms",
)
# By the newest of them, also of one that leaves: the same log always leads to the same rows.
FORGET_PRESENCE: Final = (
    "DELETE FROM worker_presence_projection "
    "WHERE seen_at < (SELECT max(seen_at) FROM worker_presence_projection) - ?"
)
DELETE_PRESENCE: Final = (
    "DELETE FROM worker_presence_projection WHERE service = ? AND type = ? AND instance = ?"
)
FORGET_JOB: Final = (
    "DELETE FROM jobs_projection WHERE job = ?",
    "DELETE FROM job_logs WHERE job = ?",
    "DELETE FROM job_values WHERE job = ?",
)
FORGET_IGNORED: Final = "DELETE FROM ignored_events WHERE service = ? AND type = ? AND id = ?"
FORGET_ACTIONS: Final = "DELETE FROM operator_actions WHERE service = ? AND type = ? AND id = ?"
# Whatever is under the job's own subjects: after a dot comes a slash.
FORGET_UNDECODABLE_OF_JOB: Final = (
    "DELETE FROM undecodable_messages WHERE subject > ?1 || '.' AND subject < ?1 || '/' "
    "AND sequence <= ?2"
)
FORGET_UNDECODABLE: Final = "DELETE FROM undecodable_messages WHERE sequence = ?"
SET_METADATA: Final = BulkStatement("INSERT OR REPLACE INTO projection_metadata", 2)
