"""The board as a screen: queues above, jobs in the middle, the newest events below."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rich.console import Group
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from trellis_jobs.cli.showing.event_lines import event_line, progress_words, short_id
from trellis_jobs.cli.showing.states import STYLES, state_text
from trellis_jobs.model.states import LIVE, JobState

if TYPE_CHECKING:
    from datetime import datetime

    from rich.console import RenderableType

    from trellis_jobs.cli.dev.board import Board, QueueBoard
    from trellis_jobs.model.job import Job

_COUNTED: Final = (
    JobState.PENDING,
    JobState.ACTIVE,
    JobState.RETRY,
    JobState.COMPLETED,
    JobState.FAILED,
    JobState.DEAD,
)
_OTHERS: Final = tuple(state for state in JobState if state not in _COUNTED)
_BAR: Final = 14
# The heading, two table heads and the blank lines between the parts.
_FRAME_LINES: Final = 5
_JOBS_SHARE: Final = 0.55
_LONGEST_AGE: Final = 60


@dataclass(frozen=True, slots=True)
class Surface:
    """What is drawn besides the board: where it comes from, when, and how high it may be."""

    heading: str
    hint: str
    now: datetime
    height: int


def draw(board: Board, surface: Surface) -> RenderableType:
    room = max(2, surface.height - _FRAME_LINES - len(board.queues))
    jobs = round(room * _JOBS_SHARE)
    return Group(
        _heading(surface),
        _queues(board, surface.now),
        Text(),
        _jobs(board.recent(jobs), surface.now, jobs),
        Text(),
        *_tail(board, room - jobs),
    )


def _heading(surface: Surface) -> Table:
    line = Table.grid(expand=True)
    line.add_column(no_wrap=True)
    line.add_column(no_wrap=True, justify="right")
    line.add_row(Text(surface.heading, "bold"), Text(surface.hint, "dim"))
    return line


def _queues(board: Board, now: datetime) -> Table:
    table = _table("queue")
    for state in (*_COUNTED, "other"):
        table.add_column(state, justify="right")
    table.add_column("/s", justify="right")
    for queue in board.queues.values():
        table.add_row(queue.name, *_counts(queue), f"{queue.ends_per_second(now):.1f}")
    return table


def _counts(queue: QueueBoard) -> list[Text]:
    counts = [(queue.states[state], STYLES[state]) for state in _COUNTED]
    counts.append((sum(queue.states[state] for state in _OTHERS), "magenta"))
    return [Text(str(count), style if count else "dim") for count, style in counts]


def _jobs(jobs: list[Job], now: datetime, rows: int) -> Table:
    table = _table("job", width=16)
    table.add_column("id", width=8)
    table.add_column("state", width=9)
    table.add_column("try", width=3)
    table.add_column("age", justify="right", width=5)
    table.add_column("progress", width=_BAR)
    table.add_column("detail", ratio=1, overflow="ellipsis", no_wrap=True)
    for job in jobs:
        table.add_row(
            job.address.job_type,
            Text(short_id(job), "dim"),
            state_text(job.state),
            f"{job.tries}/{job.max_tries}",
            _age(job, now),
            _bar(job),
            _words(job),
            style="" if job.state in LIVE else "dim",
        )
    for _ in range(rows - len(jobs)):
        table.add_row()
    return table


def _age(job: Job, now: datetime) -> str:
    """While it lives, since its creation; afterwards, how long it took."""
    until = job.updated_at if job.is_over else now
    seconds = max(0.0, (until - job.created_at).total_seconds())
    return f"{seconds:.1f}s" if seconds < _LONGEST_AGE else f"{seconds / _LONGEST_AGE:.0f}m"


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


def _words(job: Job) -> Text:
    if job.state is JobState.COMPLETED:
        return Text("")
    if job.why is not None:
        return Text(job.why, STYLES[job.state])
    return Text(progress_words(job.progress) if job.progress else "", "dim")


def _tail(board: Board, rows: int) -> list[Text]:
    notices = [Text(notice, "yellow", no_wrap=True) for notice in list(board.notices)[-1:]]
    news = list(board.news)[-max(0, rows - len(notices)) :]
    return [*notices, *(event_line(event, job) for event, job in news)]


def _table(first: str, width: int | None = None) -> Table:
    table = Table(box=None, expand=True, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column(first, no_wrap=True, width=width)
    return table
