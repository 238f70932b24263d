"""One event as one line of text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jobs_admin.cli.render.states import STYLES
from jobs_admin.cli.render.text import Text
from jobs_admin.cli.render.times import clock
from jobs_admin.explain.event_words import event_name, event_words
from trellis_jobs.model import events as e

if TYPE_CHECKING:
    from trellis_jobs.model.events import Event
    from trellis_jobs.model.job import Job

# The random end of a ULID: ids created at the same time start alike.
_ID_SHOWN: Final = 8
_QUEUE_WIDTH: Final = 16
_KIND_WIDTH: Final = 10


def event_line(event: Event, job: Job, *, queue: str | None = None, short_id: bool = False) -> Text:
    """`queue` is the label of the queue; its default is service/type."""
    line = Text(no_wrap=True, overflow="ellipsis")
    line.append(clock(event.at), "dim")
    line.append(f"  {queue or f'{event.job.service}/{event.job.job_type}':<{_QUEUE_WIDTH}}")
    line.append(f"  {job.id[-_ID_SHOWN:] if short_id else job.id}  ", "dim")
    line.append(f"{event_name(event):<{_KIND_WIDTH}}", STYLES[job.state])
    line.append(f"  {event_words(event, job)}", "dim" if isinstance(event, e.Described) else "")
    line.rstrip()
    return line
