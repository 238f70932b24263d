"""Printing: tables for terminals, JSON for scripts, notes on stderr, and progress bars."""

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
from jobs_admin.cli.render.times import ago, clock, moment, stamp

# Wider than any value, so that nothing is truncated in a pipe.
_PIPE_WIDTH: Final = 1_000_000_000

Bar = Callable[[int, int], None]
Jsonable = BaseModel | Mapping[str, Any] | Sequence[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonOutput:
    """Output options of a command that shows no times."""

    json: Annotated[
        bool,
        typer.Option("--json", help="Print JSON for scripts; see docs/reference/cli-json.md."),
    ] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Output(JsonOutput):
    """Output options of a command that shows times."""

    absolute: Annotated[
        bool,
        typer.Option("--absolute", help="Show times as RFC 3339 in UTC instead of `3 min ago`."),
    ] = False

    def time(self, at: datetime | None, now: datetime) -> str:
        if at is None:
            return ""
        return stamp(at) if self.absolute else ago(at, now)

    def moment(self, at: datetime, now: datetime) -> str:
        """A point in time, and not how far away it is."""
        return stamp(at) if self.absolute else moment(at, now)

    def clock(self, at: datetime) -> str:
        """For lists of lines that belong together."""
        return stamp(at) if self.absolute else clock(at)


class _Console(Console):
    """A console that does not interpret `[x]` as markup or `:x:` as an emoji.

    Only rich itself sends control codes to the terminal; all other text is escaped.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, **settings)

    def render_str(self, text: str, **settings: Any) -> rich_text.Text:
        """Escape the text before rich measures its width."""
        return super().render_str(harmless(text), **settings)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterator[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=harmless(segment.text))

    def on_broken_pipe(self) -> None:
        """Let the command end: rich itself would exit right here."""
        raise BrokenPipeError


class _Pipe(_Console):
    """A console that removes the trailing spaces with which rich pads tables."""

    def print(self, *objects: Any, **settings: Any) -> None:
        with self.capture() as captured:
            super().print(*objects, **settings)
        lines = captured.get().split("\n")
        self.file.write("\n".join(line.rstrip(" ") for line in lines))
        self.file.flush()


@functools.cache
def console() -> Console:
    """The console of stdout; in a pipe it has no colours and does not wrap lines."""
    if sys.stdout.isatty():
        return _Console()
    return _Pipe(width=_PIPE_WIDTH)


def stderr_console() -> Console:
    """The console of stderr, for messages about the command itself."""
    return _Console(stderr=True)


def one_line(words: str | None, style: str = "") -> Text:
    """For a flexible column: text that does not fit is truncated, not wrapped."""
    return Text(" ".join((words or "").split()), style, no_wrap=True, overflow="ellipsis")


def print_line(line: Text) -> None:
    """On a terminal, text that does not fit is truncated, not wrapped."""
    console().print(line, no_wrap=True, overflow="ellipsis")


def print_text(words: str) -> None:
    """Print text or a document without wrapping and without colours."""
    # Documents are UTF-8 in every locale.
    sys.stdout.buffer.write(f"{harmless(words)}\n".encode())
    sys.stdout.buffer.flush()


def print_json(body: Jsonable) -> None:
    """One indented document."""
    print_text(json_document(body))


def print_json_line(body: Jsonable) -> None:
    """One document on one line, for output that has many."""
    print_text(_encoded(body))


def present_fields(view: BaseModel) -> dict[str, Any]:
    """A view without the fields that are None, as the admin runtime sends it."""
    return view.model_dump(mode="json", by_alias=True, exclude_none=True)


def json_document(body: Jsonable) -> str:
    return _encoded(body, orjson.OPT_INDENT_2)


def print_stderr(words: str) -> None:
    """For messages about the command itself, so that scripts can parse stdout."""
    print(harmless(words), file=sys.stderr, flush=True)


@contextmanager
def progress_bar(what: str, *more: ProgressColumn) -> Iterator[Bar]:
    """A progress bar on stderr, only if that is a terminal."""
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), *more)
    watched = stderr_console()
    with Progress(
        *columns, console=watched, transient=True, disable=not watched.is_terminal
    ) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _plain(body: Any) -> Any:
    """Replies of the admin runtime are printed with their own field names and no added fields."""
    if isinstance(body, BaseModel):
        return body.model_dump(mode="json", by_alias=True, exclude_unset=True)
    if isinstance(body, Mapping):
        return {name: _plain(value) for name, value in body.items()}
    if isinstance(body, list | tuple):
        return [_plain(each) for each in body]
    return body


def _encoded(body: Jsonable, layout: int = 0) -> str:
    return harmless_json(orjson.dumps(_plain(body), option=layout).decode())
