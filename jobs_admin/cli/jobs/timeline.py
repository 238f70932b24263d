"""A job's timeline as lines: its events, and the phases between them beside a bar."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from jobs_admin.cli.render.output import Output
from jobs_admin.cli.render.states import STYLES
from jobs_admin.cli.render.text import Text
from jobs_admin.cli.render.times import moment
from jobs_admin.explain.event_words import event_name, event_words
from jobs_admin.explain.phase_words import INTERRUPTION_WORDS, PHASE_WORDS
from trellis_jobs.model import events as e
from trellis_jobs.model.durations import format_duration
from trellis_jobs.model.timeline import TimelineEntry, TimelineSpan

_KIND_WIDTH: Final = 10


def render_timeline(
    timeline: Sequence[TimelineEntry | TimelineSpan], output: Output, now: datetime
) -> Iterator[Text]:
    """Times have no date, so each new day gets a line."""
    day = None
    for each in timeline:
        if isinstance(each, TimelineSpan):
            yield _between(each, output, now)
            continue
        today = each.at.astimezone().date()
        if today != day and not output.absolute:
            yield Text(f"{today:%A, %d %B %Y}", "dim")
        day = today
        yield event_text(each, output)


def event_text(each: TimelineEntry, output: Output) -> Text:
    line = Text()
    line.append(f"{output.clock(each.at)}  ", "dim")
    event = each.event
    if event is None or each.ignored is not None:
        kind = event.kind.value if event else "unknown"
        line.append(f"{kind:<{_KIND_WIDTH}}  ", "strike dim" if event else "dim")
        line.append(f"ignored: {each.ignored}", "yellow")
        return line
    line.append(f"{event_name(event):<{_KIND_WIDTH}}", STYLES[each.job.state] if each.job else "")
    line.append(f"  {_words(event, each)}", "dim" if isinstance(event, e.Described) else "")
    line.rstrip()
    return line


def _words(event: e.Event, each: TimelineEntry) -> str:
    words = " ".join(event_words(event, each.job).split())
    if isinstance(event, e.Started) and event.attempt is not None:
        return f"{words}, worker {event.attempt.instance}"
    return words


def _between(each: TimelineSpan, output: Output, now: datetime) -> Text:
    past, present = PHASE_WORDS[each.phase]
    words = [
        f"{past} {format_duration(each.length(now))}" if each.end else _lasting(present, each, now)
    ]
    if each.until is not None and each.end is None:
        until = output.clock(each.until) if output.absolute else moment(each.until, now)
        words.append(f"until {until}")
    if each.interrupted_by is not None:
        words.append(INTERRUPTION_WORDS[each.interrupted_by])
    indent = " " * len(output.clock(each.begin))
    style = "yellow" if each.interrupted_by else "cyan"
    return Text(f"{indent}  │ {', '.join(words)}", style)


def _lasting(present: str, each: TimelineSpan, now: datetime) -> str:
    return f"{present}, {format_duration(each.length(now))} so far"
