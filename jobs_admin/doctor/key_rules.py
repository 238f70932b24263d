"""The rules about keys that jobs wait for."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from jobs_admin.api.views.doctor import About, Subject
from jobs_admin.doctor.findings import broken, warning
from trellis_jobs.model.durations import format_duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from jobs_admin.api.views.doctor import Finding
    from jobs_admin.api.views.keys import BusyKeyView, HolderView

# A job may wait for its key this long before someone should know of it.
MAX_WAIT: Final = timedelta(minutes=5)
_MILLISECOND: Final = timedelta(milliseconds=1)
_MAX_SHOWN: Final = 60


def check_keys(keys: Iterable[BusyKeyView], now: datetime) -> list[Finding]:
    return [finding for key in keys for finding in _check_key(key, now)]


def _check_key(key: BusyKeyView, now: datetime) -> Iterator[Finding]:
    since = key.oldest_waiting_at
    if key.holders is None or since is None or now - since <= MAX_WAIT:
        return
    name = key.key if len(key.key) <= _MAX_SHOWN else f"{key.key[:_MAX_SHOWN]}…"
    jobs = "1 job waits" if key.waiting == 1 else f"{key.waiting:,} jobs wait"
    waited = format_duration(now - since)
    text = f"key {name!r} of {key.service}/{key.type}: {jobs}, the oldest for {waited}"
    about = About(subject=Subject.KEY, service=key.service, type=key.type, name=key.key_hash)
    lost = next((holder for holder in key.holders if _has_expired(holder)), None)
    if lost is not None:
        silent = format_duration(lost.heartbeat_age_ms * _MILLISECOND)
        yield broken(
            f"{text}; job {lost.job_id} holds it and has not renewed its lease for {silent}",
            f"release the slot of job {lost.job_id} if its worker is gone",
            about,
            since,
        )
    elif not key.holders:
        remedy = f"see whether workers of {key.service}/{key.type} run, and explain a waiting job"
        yield broken(f"{text}; no job holds it", remedy, about, since)
    else:
        holder = key.holders[0]
        remedy = f"look at job {holder.job_id}, which holds it; more slots per key let more run"
        yield warning(text, remedy, about, since)


def _has_expired(holder: HolderView) -> bool:
    """Both times of a lease are from its holder's clock; the age of the renewal is the server's."""
    length = holder.lease_expires_at - holder.heartbeat_at
    return holder.heartbeat_age_ms * _MILLISECOND > length
