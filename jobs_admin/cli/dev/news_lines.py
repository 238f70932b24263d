"""News as lines: an event is one, what an app says may be several."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobs_admin.cli.dev.state import Happened, Notice
from jobs_admin.cli.render.event_lines import event_line
from jobs_admin.cli.render.text import Text
from jobs_admin.cli.render.times import clock

if TYPE_CHECKING:
    from collections.abc import Callable

    Label = Callable[[str, str], str]


def whole_label(service: str, queue: str) -> str:
    return f"{service}/{queue}"


def news_lines(
    news: Happened | Notice, label: Label = whole_label, *, short_ids: bool = False
) -> list[Text]:
    match news:
        case Happened(event, job):
            queue = label(event.job.service, event.job.job_type)
            return [event_line(event, job, queue=queue, short_id=short_ids)]
        case Notice():
            return [_spoken(news, words) for words in news.words.splitlines()]


def _spoken(notice: Notice, words: str) -> Text:
    line = Text(no_wrap=True, overflow="ellipsis")
    line.append(clock(notice.at), "dim")
    line.append(f"  {notice.by}  ", "blue")
    line.append(words, "red" if notice.is_alarm else "")
    return line
