"""The newest events of all jobs, each in one line."""

from __future__ import annotations

from datetime import datetime

from jobs_admin.api.views.base import View


class TailEntry(View):
    """An event, or a message of the log that is no event.

    `words` is what the event says, without secrets, cut to a line. `undecodable` is why a message
    is no event.
    """

    seq: int
    stored_at: datetime
    service: str
    type: str
    id: str
    kind: str
    words: str = ""
    by: str | None = None
    undecodable: str | None = None


class TailView(View):
    """Oldest first. Continue after `seq`, and no event is left out or read twice.

    `skipped` is how many events match between the position that was asked for and the first
    entry: a reply holds only the newest ones.
    """

    entries: tuple[TailEntry, ...]
    seq: int
    skipped: int = 0
