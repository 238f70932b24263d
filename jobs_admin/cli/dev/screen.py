"""The screen of `dev`: queues at the top, jobs in the middle, the newest events below."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rich.console import Group
from rich.progress_bar import ProgressBar
from rich.table import Table

from jobs_admin.cli.dev.news_lines import news_lines
from jobs_admin.cli.render.counts import count, rate
from jobs_admin.cli.render.states import STYLES, state_name, state_text
from jobs_admin.cli.render.text import Text
from jobs_admin.cli.render.times import moment
from jobs_admin.explain.event_words import progress_words
from trellis_jobs.model.durations import format_duration
from trellis_jobs.model.states import LIVE, JobState

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from rich.console import RenderableType

    from jobs_admin.cli.dev.state import DevState, QueueState
    from trellis_jobs.model.job import Job

_COUNTED: Final = (
    JobState.SCHEDULED,
    JobState.PENDING,
    JobState.ACTIVE,
    JobState.RETRY,
    JobState.COMPLETED,
    JobState.FAILED,
    JobState.DEAD,
)
_OTHERS: Final = tuple(state for state in JobState if state not in _COUNTED)
_BAR: Final = 14
_AGE: Final = len("59 min 59 s")
# From this width on, there is room for a progress bar, and for full ids in every line.
_WIDE: Final = 110
# The heading, two table headers and the blank lines between the parts.
_FRAME_LINES: Final = 5
_QUEUES_SHARE: Final = 0.4
_JOBS_SHARE: Final = 0.55
_APP_LINES: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """The headings, the current time, and the size of the screen."""

    heading: str
    hints: tuple[str, ...]
    now: datetime
    width: int
    height: int

    @property
    def is_wide(self) -> bool:
        return self.width >= _WIDE


def draw(state: DevState, frame: Frame) -> RenderableType:
    apps = _apps(state, frame.width)
    lines = max(6, frame.height - _FRAME_LINES - len(frame.hints) - len(apps))
    queues = list(state.queues.values())[: max(2, round(lines * _QUEUES_SHARE))]
    lines = max(2, lines - len(queues))
    jobs = round(lines * _JOBS_SHARE)
    return Group(
        _heading(frame),
        *(Text(hint, "dim", no_wrap=True, overflow="ellipsis") for hint in frame.hints),
        *apps,
        _queues(state, queues, frame.now),
        Text(),
        _jobs(state, frame, jobs) if state.totals() else _nothing_yet(state),
        Text(),
        *_tail(state, frame, lines - jobs),
    )


def _heading(frame: Frame) -> Table:
    line = Table.grid(expand=True)
    line.add_column(no_wrap=True)
    line.add_column(no_wrap=True, justify="right")
    line.add_row(Text(frame.heading, "bold"), Text("Ctrl-C stops", "dim"))
    return line


def _apps(state: DevState, width: int) -> list[Text]:
    """One line per app; errors may take more, so that they can be read in full."""
    lines = []
    for app in state.apps.values():
        text = f"{app.by} {app.text}"
        style = "red" if app.is_error else "blue"
        shown = textwrap.wrap(text, width)[:_APP_LINES] if app.is_error else [text]
        lines += [Text(line, style, no_wrap=True, overflow="ellipsis") for line in shown]
    return lines


def _queues(state: DevState, queues: list[QueueState], now: datetime) -> Table:
    hidden = len(state.queues) - len(queues)
    table = _table(f"queue (and {hidden} more)" if hidden else "queue")
    has_delayed = any(queue.states[JobState.SCHEDULED] for queue in queues)
    counted = _COUNTED if has_delayed else _COUNTED[1:]
    for name in (*map(state_name, counted), "other"):
        table.add_column(name, justify="right")
    table.add_column("/s", justify="right")
    for queue in queues:
        label = state.label(queue.service, queue.name)
        table.add_row(label, *_counts(queue, counted), rate(queue.ends_per_second(now)))
    return table


def _counts(queue: QueueState, counted: Iterable[JobState]) -> list[Text]:
    counts = [(queue.states[state], STYLES[state]) for state in counted]
    counts.append((sum(queue.states[state] for state in _OTHERS), "magenta"))
    return [Text(count(jobs), style if jobs else "dim") for jobs, style in counts]


def _jobs(state: DevState, frame: Frame, rows: int) -> Table:
    """Ids are never truncated, because other commands take them as arguments."""
    table = _table("job")
    table.add_column("id", no_wrap=True)
    table.add_column("state", no_wrap=True, width=9)
    table.add_column("age", justify="right", width=_AGE)
    if frame.is_wide:
        table.add_column("try", width=3)
        table.add_column("progress", width=_BAR)
    table.add_column("detail", ratio=1, overflow="ellipsis", no_wrap=True)
    jobs = state.recent(rows)
    for job in jobs:
        wide = (f"{job.tries}/{job.max_tries}", _bar(job)) if frame.is_wide else ()
        table.add_row(
            state.label(job.address.service, job.address.job_type),
            Text(job.id, "dim"),
            state_text(job.state),
            _age(job, frame.now),
            *wide,
            _words(job, frame.now),
            style="" if job.state in LIVE else "dim",
        )
    for _ in range(rows - len(jobs)):
        table.add_row()
    return table


def _nothing_yet(state: DevState) -> Text:
    queue = next((f"{each.service}/{each.name}" for each in state.queues.values()), None)
    command = f": trellis-jobs jobs create {queue} PAYLOAD" if queue else ""
    return Text(f"no jobs yet{command}", "dim", no_wrap=True, overflow="ellipsis")


def _age(job: Job, now: datetime) -> str:
    """The age of the latest run; after its end, its duration."""
    until = job.updated_at if job.is_over else now
    return format_duration(until - job.run.began_at)


def _bar(job: Job) -> RenderableType:
    progress = job.progress
    if progress is None or not progress.total:
        return ""
    return ProgressBar(
        total=progress.total,
        completed=progress.current or 0,
        width=_BAR,
        complete_style="cyan",
        finished_style="green",
    )


def _words(job: Job, now: datetime) -> Text:
    if job.state is JobState.COMPLETED:
        return Text("")
    if job.state is JobState.SCHEDULED and job.status.next_attempt_at is not None:
        return Text(f"until {moment(job.status.next_attempt_at, now)}", STYLES[job.state])
    if job.why is not None:
        return Text(job.why, STYLES[job.state])
    return Text(progress_words(job.progress) if job.progress else "", "dim")


def _tail(state: DevState, frame: Frame, rows: int) -> list[Text]:
    newest = list(state.news)[-rows:]
    lines = [
        line
        for news in newest
        for line in news_lines(news, state.label, short_ids=not frame.is_wide)
    ]
    return lines[-rows:]


def _table(first: str) -> Table:
    table = Table(box=None, expand=True, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column(first, no_wrap=True)
    return table
