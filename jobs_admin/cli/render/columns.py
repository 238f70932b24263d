"""Tables that fit: on a narrow terminal columns give way, and what must be read whole stays so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from rich.cells import cell_len
from rich.table import Table

from jobs_admin.cli.render.text import Text

GAP: Final = 2
_LEAST_SHORTENED: Final = 8

Row = Mapping[str, str | Text]


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """`elastic` takes the room that is left, `gives_way` are dropped one by one, then `shortened`.

    Before any is dropped, values in `cut` are shortened to so many cells: whoever writes them
    decides how long they are, and one of them must not cost a column.

    Narrower than `least`, what is elastic would say nothing. All others
    are shown whole, whatever they cost. Those in `right` are numbers.
    """

    names: Sequence[str]
    elastic: str | None = None
    shortened: str | None = None
    gives_way: Sequence[str] = ()
    cut: Mapping[str, int] = field(default_factory=dict)
    right: Sequence[str] = ()
    gap: int = GAP
    least: int = 12


def fitting(columns: Columns, rows: Sequence[Row], room: int) -> Table:
    widths = {name: _width(name, rows) for name in columns.names}
    if columns.elastic is not None:
        widths[columns.elastic] = min(widths[columns.elastic], columns.least)
    if _total(columns.names, widths, columns.gap) > room:
        widths |= {name: min(widths[name], most) for name, most in columns.cut.items()}
    shown = shown_in(columns, widths, room)
    lacking = _total(shown, widths, columns.gap) - room
    if lacking > 0 and columns.shortened is not None:
        widths[columns.shortened] = max(_LEAST_SHORTENED, widths[columns.shortened] - lacking)
    table = Table(box=None, header_style="bold", padding=(0, columns.gap, 0, 0), pad_edge=False)
    for name in shown:
        if name == columns.elastic:
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


def shown_in(columns: Columns, widths: Mapping[str, int], room: int) -> list[str]:
    """Which columns there is room for."""
    shown = list(columns.names)
    for name in columns.gives_way:
        if _total(shown, widths, columns.gap) <= room:
            break
        shown.remove(name)
    return shown


def _total(shown: Sequence[str], widths: Mapping[str, int], gap: int) -> int:
    return sum(widths[name] for name in shown) + gap * (len(shown) - 1)


def _width(name: str, rows: Sequence[Row]) -> int:
    lines = [line for row in rows for line in str(row[name]).splitlines()]
    return max(map(cell_len, (name, *lines)))
