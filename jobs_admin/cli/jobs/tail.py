"""`trellis-jobs jobs tail`: the events of all jobs, read from the log (design D22)."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Final

import typer

from jobs_admin.cli.connection import ConnectionOptions
from jobs_admin.cli.exit_codes import Exit
from jobs_admin.cli.filters import moment
from jobs_admin.cli.render.output import Output, print_json_line, print_line
from jobs_admin.cli.render.states import STYLES
from jobs_admin.cli.render.text import Text
from jobs_admin.cli.run import run
from jobs_admin.explain.event_words import event_name, event_words
from jobs_admin.explain.views import log_entry, read_message
from trellis_jobs.errors import InvalidToken
from trellis_jobs.jetstream.client.connection import Connection
from trellis_jobs.jetstream.log.feed import LogFeed, LogMessage
from trellis_jobs.jetstream.log.history import Histories
from trellis_jobs.model import subjects
from trellis_jobs.model.events import Event, EventKind
from trellis_jobs.model.identity import JobAddress, check_service, check_token
from trellis_jobs.model.job import Entry
from trellis_jobs.model.reducer import RULES

_ANY: Final = "*"
_HINT: Final = "PATTERN"
_PARTS: Final = 3
_FORM: Final = "service, service/type or service/type/event"
_KIND_WIDTH: Final = 9


def tail(
    output: Output,
    options: ConnectionOptions,
    pattern: Annotated[
        str,
        typer.Argument(
            metavar=_HINT,
            help=f"{_FORM}; * matches any, as in */*/failed.",
            show_default=False,
        ),
    ] = _ANY,
    since: Annotated[
        str | None,
        typer.Option(
            help="Start with events stored since this time: 10m, 2h, 3d ago, or RFC 3339.",
            metavar="TIME",
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            help="Exit after this number of events; with --since, shows the most recent ones.",
            min=1,
            show_default=False,
        ),
    ] = None,
) -> None:
    """Print events of all jobs as they are stored, until Ctrl-C. With --json, one per line.

    The command reads the log and needs no admin runtime.
    """
    begin = moment("--since", since, datetime.now(UTC))
    run(_tail(options, Pattern.parse(pattern), begin, limit, output), when_interrupted=Exit.OK)


@dataclass(frozen=True, slots=True)
class Pattern:
    """Which events to print; None matches any."""

    service: str | None = None
    job_type: str | None = None
    kind: EventKind | None = None

    @classmethod
    def parse(cls, text: str) -> Pattern:
        parts = text.split("/")
        if len(parts) > _PARTS:
            raise typer.BadParameter(f"{text!r} has too many parts: use {_FORM}", param_hint=_HINT)
        service, job_type, kind = parts + [_ANY] * (_PARTS - len(parts))
        try:
            return cls(
                None if service == _ANY else check_service(service),
                None if job_type == _ANY else check_token("type", job_type),
                None if kind == _ANY else _kind(kind),
            )
        except InvalidToken as error:
            raise typer.BadParameter(f"{error}; use {_FORM}", param_hint=_HINT) from None

    def queue_of(self, job: JobAddress) -> str:
        """The parts of the queue's name that the pattern does not fix."""
        parts = (
            None if self.service else job.service,
            None if self.job_type else job.job_type,
        )
        return "/".join(filter(None, parts))


def _kind(word: str) -> EventKind:
    if word not in set(EventKind):
        known = ", ".join(EventKind)
        raise typer.BadParameter(f"{word!r} is not an event; events: {known}", param_hint=_HINT)
    return EventKind(word)


async def _tail(
    options: ConnectionOptions,
    pattern: Pattern,
    since: datetime | None,
    limit: int | None,
    output: Output,
) -> None:
    watched = subjects.matching(pattern.service, pattern.job_type, pattern.kind)
    async with options.connection(reconnect=True) as connection:
        end = await _end_of_log(connection)
        after = 0 if since is not None else end
        messages = Histories(connection).follow_messages(watched, after=after, since=since)
        async with aclosing(messages), aclosing(_newest(messages, end, limit)) as newest:
            async for message in newest:
                _print(message, pattern, output)


async def _newest(
    messages: AsyncIterator[LogMessage], end: int, limit: int | None
) -> AsyncGenerator[LogMessage, None]:
    """The last `limit` stored messages, or fewer stored ones and then new ones.

    `end` is the end of the log when the command started; a busy log never stops growing.
    """
    stored: deque[LogMessage] = deque(maxlen=limit)
    printed = 0
    async for message in messages:
        stored.append(message)
        if limit is not None and message.pending and message.sequence < end:
            continue
        while stored:
            yield stored.popleft()
            printed += 1
        if printed == limit:
            return


async def _end_of_log(connection: Connection) -> int:
    return (await LogFeed(connection).extent()).last_sequence


def _print(message: LogMessage, pattern: Pattern, output: Output) -> None:
    read = read_message(message)
    if output.json:
        print_json_line(log_entry(message, read))
        return
    line = Text().append(f"{output.clock(message.stored_at)}  ", "dim")
    if isinstance(read, Entry):
        line.append_text(event_text(read.event, pattern.queue_of(read.event.job)))
    else:
        line.append(f"{message.subject}  ignored: {read.reason}", "yellow")
    print_line(line)


def event_text(event: Event, queue: str) -> Text:
    """Coloured like the state that the event leads to; the job's previous state is not known."""
    leads_to = RULES[event.kind].leads_to
    words = " ".join(event_words(event).split())
    return Text.assemble(
        (f"{event_name(event):<{_KIND_WIDTH}}", STYLES[leads_to] if leads_to else "dim"),
        f"  {event.job.job_id}  ",
        (f"{queue}  " if queue else "", "dim"),
        words,
    )
