"""What `dev` makes of the lines that an app writes, and which files it looks at."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from jobs_admin.cli.dev.app_output import AppLine, WorkerStarted, parse_line
from jobs_admin.cli.dev.sources import snapshot, until_changed
from jobs_admin.cli.logs import JsonLines


def logged(logger: str, level: int, message: str, **extra: object) -> str:
    record = logging.makeLogRecord({"name": logger, "levelno": level, "msg": message, **extra})
    record.levelname = logging.getLevelName(level)
    return JsonLines().format(record)


def test_a_worker_that_is_up_says_on_what_it_works() -> None:
    line = logged(
        "trellis_jobs.worker.host", logging.INFO, "worker started", service="shop", queues=["a"]
    )
    assert parse_line(line) == WorkerStarted("shop", ("a",))


def test_what_events_say_anyway_is_left_out() -> None:
    assert (
        parse_line(logged("trellis_jobs.worker.queue_worker", logging.INFO, "attempt settled"))
        is None
    )
    assert parse_line("") is None


def test_what_the_app_logs_is_told_with_its_fields() -> None:
    line = logged("shop.stock", logging.INFO, "counted", items=3)
    assert parse_line(line) == AppLine("counted  items=3")


def test_warnings_of_the_runtime_are_told() -> None:
    line = logged("trellis_jobs.worker.attempt_log", logging.WARNING, "too slow")
    assert parse_line(line) == AppLine("too slow", is_error=True)


def test_a_traceback_comes_with_its_record() -> None:
    try:
        raise ValueError("no such item")
    except ValueError as error:
        trace = (type(error), error, error.__traceback__)
    told = parse_line(logged("shop", logging.ERROR, "broken", exc_info=trace))
    assert isinstance(told, AppLine)
    assert told.text.splitlines()[0] == "broken"
    assert told.text.splitlines()[-1] == "ValueError: no such item"


@pytest.mark.parametrize("line", ["hello", '{"a": 1}', "{not json", '{"message": 7}', "[1]"])
def test_anything_else_is_printed_output(line: str) -> None:
    assert parse_line(line) == AppLine(line)


def test_an_error_of_the_command_is_an_alarm() -> None:
    assert parse_line("error: no such module") == AppLine("error: no such module", is_error=True)


@pytest.mark.parametrize("change", ["new", "gone", "other", "deep"])
async def test_every_kind_of_change_is_noticed(tmp_path: Path, change: str) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "here.py").write_text("1")
    before = snapshot(tmp_path)
    assert list(before) == [str(tmp_path / "here.py")]
    match change:
        case "new":
            (tmp_path / "new.py").touch()
        case "gone":
            (tmp_path / "here.py").unlink()
        case "other":
            (tmp_path / "here.py").write_text("22")
        case "deep":
            (tmp_path / "package" / "deep.py").touch()
    async with asyncio.timeout(10):
        after = await until_changed(tmp_path, before)
    assert after == snapshot(tmp_path)
    assert after != before


def test_unreadable_files_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "broken.py").symlink_to(tmp_path / "nowhere.py")
    assert snapshot(tmp_path) == {}
    assert snapshot(tmp_path / "nowhere") == {}
