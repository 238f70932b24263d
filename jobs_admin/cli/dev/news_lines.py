"""Format news as lines: one for an event, one or more for a notice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobs_admin.cli.dev.state import JobEvent, Notice
from jobs_admin.cli.render.event_lines import event_line
from jobs_admin.cli.render.text import Text
from jobs_admin.cli.render.times import clock

if TYPE_CHECKING:
    from collections.abc import Callable

    Label = Callable[[str, str], str]


def full_label(service: str, queue: str) -> str:
    return f"{service}/{queue}"


def news_lines(
    news: JobEvent | Notice, label: Label = full_label, *, short_ids: bool = False
) -> list[Text]:
    match news:
        case JobEvent(event, job):
            queue = label(event.job.service, event.job.job_type)
            return [event_line(event, job, queue=queue, short_id=short_ids)]
        case Notice():
            return [_notice_line(news, text) for text in news.text.splitlines()]


def _notice_line(notice: Notice, text: str) -> Text:
    line = Text(no_wrap=True, overflow="ellipsis")
    line.append(clock(notice.at), "dim")
    line.append(f"  {notice.by}  ", "blue")
    line.append(text, "red" if notice.is_error else "")
    return line
