"""Which columns of a table give way on a narrow terminal, and that ids never do."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from jobs_admin.cli.operations import list as operations
from jobs_admin.cli.render.columns import Columns, Row, columns_that_fit, fit_table
from jobs_admin.cli.render.output import one_line

COLUMNS = Columns(
    names=("id", "queue", "age", "key", "error"),
    flexible="error",
    truncated="queue",
    dropped_first=("key", "age"),
)
WIDTHS = {"id": 26, "queue": 10, "age": 6, "key": 8, "error": 12}


@pytest.mark.parametrize(
    ("room", "missing"),
    [
        (200, ()),
        (70, ()),
        (69, ("key",)),
        (60, ("key",)),
        (59, ("key", "age")),
        (9, ("key", "age")),
    ],
)
def test_columns_are_dropped_in_their_order_and_only_as_many_as_must(
    room: int, missing: tuple[str, ...]
) -> None:
    assert columns_that_fit(COLUMNS, WIDTHS, room) == [
        name for name in COLUMNS.names if name not in missing
    ]


@pytest.mark.parametrize("room", [50, 60, 80, 130])
def test_an_id_is_whole_whatever_else_is_cut(room: int) -> None:
    row: Row = {
        "id": "01JQEXAMP1E0000000000000AA",
        "queue": "a-service-with-a-name/and-its-long-type",
        "age": "3 min ago",
        "key": "tickets:acme",
        "error": one_line("RuntimeError: " + "much to say " * 20),
    }
    drawn = io.StringIO()
    Console(file=drawn, width=room).print(fit_table(COLUMNS, [row], room))
    lines = drawn.getvalue().splitlines()
    assert len(lines) == 2, "nothing is folded"
    assert lines[1].startswith("01JQEXAMP1E0000000000000AA ")
    assert all(len(line) <= room for line in lines)


def test_a_table_without_rows_has_its_head() -> None:
    drawn = io.StringIO()
    Console(file=drawn, width=80).print(fit_table(COLUMNS, [], 80))
    assert drawn.getvalue().split() == list(COLUMNS.names)


@pytest.mark.parametrize("room", [80, 100, 130])
def test_one_long_value_is_cut_and_costs_no_column(room: int) -> None:
    """A key of 500 characters removed the column of keys."""
    columns = replace(COLUMNS, names=("id", "age", "key", "error"), max_widths={"key": 12})
    row: Row = {
        "id": "01JQEXAMP1E0000000000000AA",
        "age": "3 min ago",
        "key": one_line("tickets:" + "x" * 500),
        "error": one_line("RuntimeError: " + "much to say " * 20),
    }
    drawn = io.StringIO()
    Console(file=drawn, width=room).print(fit_table(columns, [row], room))
    head, line = drawn.getvalue().splitlines()
    assert head.split() == ["id", "age", "key", "error"]
    assert "tickets:xxx…" in line
    assert "RuntimeError" in line
    whole = io.StringIO()
    Console(file=whole, width=2_000).print(fit_table(columns, [row], 2_000))
    assert "x" * 500 in whole.getvalue(), "where there is room nothing is cut"


@pytest.mark.parametrize("room", [61, 80, 130])
def test_the_numbers_of_an_operation_are_whole_whatever_else_is_cut(room: int) -> None:
    row: Row = {
        "id": "01JQEXAMP1E0000000000000AA",
        "action": "dismiss",
        "state": "stopped",
        "done": "20,664",
        "refused": "1",
        "total": "20,665",
        "started": "1 min 22 s ago",
        "by": "a-service-account-with-a-name",
        "reason": "the bank is back",
    }
    drawn = io.StringIO()
    Console(file=drawn, width=room).print(fit_table(operations.COLUMNS, [row], room))
    line = drawn.getvalue().splitlines()[1]
    assert line.split()[:4] == ["01JQEXAMP1E0000000000000AA", "dismiss", "stopped", "20,664"]
    assert "20,665" in line.split()
