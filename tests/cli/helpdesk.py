"""A service whose queues have keys, for the command to find."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel

from tests.support.example_service import example_jobs
from trellis_jobs import KeyConcurrency, QueueDepth, Service

BY_ORIGIN = KeyConcurrency(["/origin"])


class Sync(BaseModel):
    origin: str


HELPDESK: Final = example_jobs(
    "helpdesk",
    Sync,
    type(None),
    patient={"key": BY_ORIGIN, "queue": QueueDepth(0)},
    merging={"key": BY_ORIGIN, "queue": QueueDepth(0, "coalesce")},
    newest={"key": BY_ORIGIN, "queue": QueueDepth(0, "replace-oldest")},
)


service = Service(HELPDESK)
