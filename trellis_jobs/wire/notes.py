"""Progress and log lines of events ⇄ JSON."""

from __future__ import annotations

from typing import Any

from trellis_jobs.model.notes import NOTHING_NOTED, LogLevel, LogLine, Notes, Progress
from trellis_jobs.wire.fields import BadField, add_present, optional, required, timestamp


def add_to(body: dict[str, Any], notes: Notes) -> None:
    if notes.progress is not None:
        p = notes.progress
        progress: dict[str, Any] = {}
        add_present(progress, step=p.step, message=p.message, current=p.current, total=p.total)
        body["progress"] = progress
    if notes.lines:
        body["logs"] = [
            {"timestamp": line.at, "level": line.level, "message": line.message}
            for line in notes.lines
        ]


def from_json(body: dict[str, Any]) -> Notes:
    progress, lines = optional(body, "progress", dict), optional(body, "logs", list)
    if progress is None and not lines:
        return NOTHING_NOTED
    return Notes(
        None if progress is None else _progress(progress),
        tuple(_log_line(line) for line in lines or ()),
    )


def _progress(body: dict[str, Any]) -> Progress:
    return Progress(
        step=optional(body, "step", str),
        message=optional(body, "message", str),
        current=optional(body, "current", int),
        total=optional(body, "total", int),
    )


def _log_line(body: Any) -> LogLine:
    if not isinstance(body, dict):
        raise BadField("a log entry must be an object")
    level = required(body, "level", str)
    if level not in set(LogLevel):
        raise BadField(f"log level {level!r:.80} is not known")
    return LogLine(
        at=timestamp(body, "timestamp"),
        level=LogLevel(level),
        message=required(body, "message", str),
    )
