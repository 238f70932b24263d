"""What a command prints: tables for people, JSON for scripts, and a bar where people wait."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final

import orjson
import typer
from pydantic import BaseModel
from rich import text as rich_text
from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.segment import Segment

from jobs_admin.cli.render.escape import harmless, harmless_json
from jobs_admin.cli.render.text import Text
from jobs_admin.cli.render.times import ago, clock, stamp

# Nobody's terminal, and wider than any value: what reads a pipe gets them whole.
_PIPE_WIDTH: Final = 1_000_000_000

Bar = Callable[[int, int], None]
Jsonable = BaseModel | Mapping[str, Any] | Sequence[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonOutput:
    """Options of a command that shows something, and no times."""

    json: Annotated[
        bool,
        typer.Option("--json", help="Print JSON, for scripts: see docs/reference/cli-json.md."),
    ] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Output(JsonOutput):
    """Options of every other one that shows something."""

    absolute: Annotated[
        bool, typer.Option("--absolute", help="Show times as RFC 3339 in UTC, not how long ago.")
    ] = False

    def time(self, at: datetime | None, now: datetime) -> str:
        if at is None:
            return ""
        return stamp(at) if self.absolute else ago(at, now)

    def clock(self, at: datetime) -> str:
        """For lines that follow each other."""
        return stamp(at) if self.absolute else clock(at)


class _Console(Console):
    """What users wrote is shown as they wrote it: `[x]` is no markup, and `:x:` no picture.

    Whatever is rendered, nothing but rich itself sends control codes to the terminal.
    """

    def __init__(self, **how: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, **how)

    def render_str(self, text: str, **how: Any) -> rich_text.Text:
        """Harmless before it is measured."""
        return super().render_str(harmless(text), **how)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterator[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=harmless(segment.text))

    def on_broken_pipe(self) -> None:
        """A pipe that is closed ends the command, not in the middle of rich."""
        raise BrokenPipeError


class _Pipe(_Console):
    """Lines end with what they say: tables are filled up with blanks, for terminals."""

    def print(self, *objects: Any, **how: Any) -> None:
        with self.capture() as told:
            super().print(*objects, **how)
        lines = told.get().split("\n")
        self.file.write("\n".join(line.rstrip(" ") for line in lines))
        self.file.flush()


@functools.cache
def console() -> Console:
    """Colours as the terminal and NO_COLOR say; none in a pipe, where lines are not folded."""
    if sys.stdout.isatty():
        return _Console()
    return _Pipe(width=_PIPE_WIDTH)


def stderr_console() -> Console:
    """For what is about the command itself."""
    return _Console(stderr=True)


def one_line(words: str | None, style: str = "") -> Text:
    """For an elastic column: what does not fit is cut, and never folded."""
    return Text(" ".join((words or "").split()), style, no_wrap=True, overflow="ellipsis")


def print_line(line: Text) -> None:
    """On a terminal, what does not fit is cut, and never folded."""
    console().print(line, no_wrap=True, overflow="ellipsis")


def print_text(words: str) -> None:
    """Plain words or a document, whole: not folded, and without colours."""
    # Documents are UTF-8, whatever the locale says.
    sys.stdout.buffer.write(f"{harmless(words)}\n".encode())
    sys.stdout.buffer.flush()


def print_json(body: Jsonable) -> None:
    """One document, indented: a whole answer."""
    print_text(json_document(body))


def print_json_line(body: Jsonable) -> None:
    """One of many, as they come."""
    print_text(_encoded(body))


def json_document(body: Jsonable) -> str:
    return _encoded(body, orjson.OPT_INDENT_2)


def say(words: str) -> None:
    """About the command itself, so that what it prints can be read by a script."""
    print(harmless(words), file=sys.stderr, flush=True)


@contextmanager
def progress_bar(what: str, *more: ProgressColumn) -> Iterator[Bar]:
    """On stderr, and only where somebody watches."""
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), *more)
    watched = stderr_console()
    with Progress(
        *columns, console=watched, transient=True, disable=not watched.is_terminal
    ) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _plain(body: Any) -> Any:
    """Answers of requests are told as they were given: the same names, and nothing made up."""
    if isinstance(body, BaseModel):
        return body.model_dump(mode="json", by_alias=True, exclude_unset=True)
    if isinstance(body, Mapping):
        return {name: _plain(value) for name, value in body.items()}
    if isinstance(body, list | tuple):
        return [_plain(each) for each in body]
    return body


def _encoded(body: Jsonable, layout: int = 0) -> str:
    return harmless_json(orjson.dumps(_plain(body), option=layout).decode())
