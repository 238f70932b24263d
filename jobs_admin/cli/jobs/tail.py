"""`trellis-jobs jobs tail`: what happens to all jobs, straight from the log (design D22)."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Final

import typer

from jobs_admin.api.views.jobs import LogEntry
from jobs_admin.cli.connection import ConnectionOptions
from jobs_admin.cli.exit_codes import Exit
from jobs_admin.cli.filters import moment
from jobs_admin.cli.render.event_lines import event_words
from jobs_admin.cli.render.output import Output, print_json_line, print_line
from jobs_admin.cli.render.states import STYLES
from jobs_admin.cli.render.text import Text
from jobs_admin.cli.run import run
from jobs_admin.explain.to_json import message_json
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
    reach: ConnectionOptions,
    pattern: Annotated[
        str,
        typer.Argument(
            metavar=_HINT,
            help=f"{_FORM}; * stands for any, as in */*/failed.",
            show_default=False,
        ),
    ] = _ANY,
    since: Annotated[
        str | None,
        typer.Option(
            help="Begin with what was stored since then: 10m, 2h, 3d, or RFC 3339.", metavar="TIME"
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            help="End after that many events; with --since, the most recent of them are shown.",
            min=1,
            show_default=False,
        ),
    ] = None,
) -> None:
    """Events of all jobs as they are written, until Ctrl-C; with --json, one a line.

    They come from the log itself, and need no admin runtime.
    """
    begin = moment("--since", since, datetime.now(UTC))
    wanted = Pattern.parse(pattern)
    run(_tail(reach, wanted, begin, limit, output), when_interrupted=Exit.OK)


@dataclass(frozen=True, slots=True)
class Pattern:
    """Which events; None stands for any."""

    service: str | None = None
    job_type: str | None = None
    kind: EventKind | None = None

    @classmethod
    def parse(cls, text: str) -> Pattern:
        said = text.split("/")
        if len(said) > _PARTS:
            raise typer.BadParameter(f"{text!r} is too long: {_FORM}", param_hint=_HINT)
        service, job_type, kind = said + [_ANY] * (_PARTS - len(said))
        try:
            return cls(
                None if service == _ANY else check_service(service),
                None if job_type == _ANY else check_token("type", job_type),
                None if kind == _ANY else _kind(kind),
            )
        except InvalidToken as error:
            raise typer.BadParameter(f"{error}; {_FORM}", param_hint=_HINT) from None

    def queue_of(self, job: JobAddress) -> str:
        """What the pattern does not say already: terminals are narrow."""
        told = (
            None if self.service else job.service,
            None if self.job_type else job.job_type,
        )
        return "/".join(filter(None, told))


def _kind(word: str) -> EventKind:
    if word not in set(EventKind):
        known = ", ".join(EventKind)
        raise typer.BadParameter(f"{word!r} is no event: {known}", param_hint=_HINT)
    return EventKind(word)


async def _tail(
    reach: ConnectionOptions,
    wanted: Pattern,
    since: datetime | None,
    limit: int | None,
    output: Output,
) -> None:
    watched = subjects.matching(wanted.service, wanted.job_type, wanted.kind)
    async with reach.connection(patient=True) as connection:
        end = await _end_of_log(connection)
        after = 0 if since is not None else end
        messages = Histories(connection).follow_messages(watched, after=after, since=since)
        async with aclosing(messages), aclosing(_newest(messages, end, limit)) as newest:
            async for message in newest:
                _print(message, wanted, output)


async def _newest(
    messages: AsyncIterator[LogMessage], end: int, limit: int | None
) -> AsyncGenerator[LogMessage, None]:
    """The last `limit` of what is stored already, then what is added, until there are so many.

    `end` is the end of the log when the command began: a busy log has no other.
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


def _print(message: LogMessage, wanted: Pattern, output: Output) -> None:
    told, read = message_json(message)
    if output.json:
        print_json_line(LogEntry.model_validate(told))
        return
    line = Text().append(f"{output.clock(message.stored_at)}  ", "dim")
    if isinstance(read, Entry):
        line.append_text(event_text(read.event, wanted.queue_of(read.event.job)))
    else:
        line.append(f"{message.subject}  ignored: {read.reason}", "yellow")
    print_line(line)


def event_text(event: Event, queue: str) -> Text:
    """Coloured like the state that it leads to; what the job was before is not known here."""
    leads_to = RULES[event.kind].leads_to
    words = " ".join(event_words(event).split())
    return Text.assemble(
        (f"{event.kind.value:<{_KIND_WIDTH}}", STYLES[leads_to] if leads_to else "dim"),
        f"  {event.job.job_id}  ",
        (f"{queue}  " if queue else "", "dim"),
        words,
    )
