"""Tables that fit the terminal: columns are dropped or truncated in a declared order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from rich.cells import cell_len
from rich.table import Table

from jobs_admin.cli.render.text import Text

GAP: Final = 2
_MIN_TRUNCATED: Final = 8

Row = Mapping[str, str | Text]


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """How a table adapts to the width of the terminal.

    `flexible` takes the remaining width, but at least `min_flexible`. If the table is too wide,
    the columns in `max_widths` are limited first, because users choose how long these values are.
    Then the columns in `dropped_first` are dropped one by one, and then `truncated` is truncated.
    All other columns are shown in full. The columns in `right` are numbers.
    """

    names: Sequence[str]
    flexible: str | None = None
    truncated: str | None = None
    dropped_first: Sequence[str] = ()
    max_widths: Mapping[str, int] = field(default_factory=dict)
    right: Sequence[str] = ()
    gap: int = GAP
    min_flexible: int = 12


def fit_table(columns: Columns, rows: Sequence[Row], width: int) -> Table:
    widths = {name: _width(name, rows) for name in columns.names}
    if columns.flexible is not None:
        widths[columns.flexible] = min(widths[columns.flexible], columns.min_flexible)
    if _total(columns.names, widths, columns.gap) > width:
        widths |= {name: min(widths[name], limit) for name, limit in columns.max_widths.items()}
    shown = columns_that_fit(columns, widths, width)
    excess = _total(shown, widths, columns.gap) - width
    if excess > 0 and columns.truncated is not None:
        widths[columns.truncated] = max(_MIN_TRUNCATED, widths[columns.truncated] - excess)
    table = Table(box=None, header_style="bold", padding=(0, columns.gap, 0, 0), pad_edge=False)
    for name in shown:
        if name == columns.flexible:
            table.add_column(name, no_wrap=False, overflow="ellipsis")
        else:
            table.add_column(
                name,
                no_wrap=True,
                overflow="ellipsis",
                width=widths[name],
                justify="right" if name in columns.right else "left",
            )
    for row in rows:
        table.add_row(*(row[name] for name in shown))
    return table


def columns_that_fit(columns: Columns, widths: Mapping[str, int], width: int) -> list[str]:
    """The columns that fit into the width."""
    shown = list(columns.names)
    for name in columns.dropped_first:
        if _total(shown, widths, columns.gap) <= width:
            break
        shown.remove(name)
    return shown


def _total(shown: Sequence[str], widths: Mapping[str, int], gap: int) -> int:
    return sum(widths[name] for name in shown) + gap * (len(shown) - 1)


def _width(name: str, rows: Sequence[Row]) -> int:
    lines = [line for row in rows for line in str(row[name]).splitlines()]
    return max(map(cell_len, (name, *lines)))
