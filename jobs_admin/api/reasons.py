"""Codes for why a job is in its state."""

from __future__ import annotations

from enum import StrEnum


class Because(StrEnum):
    """Stable codes for scripts; the sentences beside them are for people and may change."""

    DELAYED = "delayed"
    OVERDUE = "overdue"
    PAST_DEADLINE = "past-deadline"
    RETRY_LATER = "retry-later"
    SNOOZED = "snoozed"
    QUEUE_PAUSED = "queue-paused"
    NO_WORKER = "no-worker"
    NEWER_VERSION = "newer-version"
    WAITING_FOR_KEY = "waiting-for-key"
    KEY_BLOCKED = "key-blocked"
    WORK_LOST = "work-lost"
    MAY_BE_GIVEN_UP = "may-be-given-up"
    WORKERS_BUSY = "workers-busy"
    ABOUT_TO_START = "about-to-start"
    RUNNING = "running"
    WORKER_GONE = "worker-gone"
    WORKER_SILENT = "worker-silent"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    REPLACED = "replaced"
    LEASE_LOST = "lease-lost"
    OUT_OF_TRIES = "out-of-tries"
    DELIVERIES_EXHAUSTED = "deliveries-exhausted"
    DISMISSED = "dismissed"
