"""Log lines: the same records for people and for machines."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from jobs_admin.cli.logs import JsonLines, TextLines
from tests.cli.command import running
from trellis_jobs.embedded import EmbeddedServer


def record(message: str, level: int = logging.INFO, **extra: object) -> logging.LogRecord:
    made = logging.makeLogRecord({"name": "shop", "levelno": level, "msg": message, **extra})
    made.levelname = logging.getLevelName(level)
    made.created = datetime(2026, 3, 28, 12, 0, 1, 250_000, tzinfo=UTC).timestamp()
    return made


async def test_a_worker_logs_one_json_object_per_line(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    command = ("worker", "tests.cli.shop:service", "--nats", server.url, "--burst")
    with running(tmp_path, *command, "--log-format", "json") as worker:
        assert await worker.until_exit() == 0
        lines = [json.loads(line) for line in worker.printed.splitlines()]
    started = next(line for line in lines if line["message"].startswith("worker started"))
    assert started["queues"] == ["greet", "nap", "shrug"]
    assert started["level"] == "info"
    assert all(datetime.fromisoformat(line["time"]).tzinfo == UTC for line in lines)


def test_json_keeps_every_field_and_writes_times_as_rfc_3339() -> None:
    line = JsonLines().format(record("attempt settled", job="01J", tries=2, lost=None))
    assert json.loads(line) == {
        "time": "2026-03-28T12:00:01.250Z",
        "level": "info",
        "logger": "shop",
        "message": "attempt settled",
        "job": "01J",
        "tries": 2,
    }


def test_json_takes_values_that_json_does_not_know() -> None:
    line = JsonLines().format(record("odd", path=Path("/tmp/x"), ids={1: "a"}))  # noqa: S108
    assert json.loads(line)["path"] == "/tmp/x"  # noqa: S108


def test_text_leaves_out_fields_that_the_message_has() -> None:
    printed = record("job 01J of shop runs on a, b", job="01J", queues=["a", "b"], instance="X7")
    line = TextLines(coloured=False).format(printed)
    assert line.endswith("job 01J of shop runs on a, b instance=X7")


def test_text_shows_fields_as_key_value_and_quotes_what_has_blanks() -> None:
    printed = record("attempt settled", job="01J", queues=["a", "b"], why="not now")
    line = TextLines(coloured=False).format(printed)
    assert "info    attempt settled" in line
    assert line.endswith("job=01J queues=a,b why='not now'")
    assert "\x1b" not in line


def test_colours_are_used_only_when_asked_for() -> None:
    assert "\x1b[31m" in TextLines(coloured=True).format(record("broken", logging.ERROR))


@pytest.mark.parametrize("lines", [JsonLines(), TextLines(coloured=False)])
def test_an_exception_is_not_lost(lines: logging.Formatter) -> None:
    try:
        raise ValueError("no such ticket")
    except ValueError:
        printed = record("a task failed", logging.ERROR, exc_info=sys.exc_info())
    assert "ValueError: no such ticket" in lines.format(printed)
