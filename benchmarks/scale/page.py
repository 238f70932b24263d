"""`python -m benchmarks.scale.page`: put the newest figures into the page about capacity.

A table stands between `<!-- scale: its name -->` and `<!-- end -->`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from benchmarks.scale.pieces import RESULTS, read, sheets
from benchmarks.scale.sheets import Sheet

PAGE: Final = Path(__file__).parent.parent.parent / "docs" / "operate" / "capacity.md"
PLACE: Final = re.compile(r"(<!-- scale: (?P<name>[\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def main() -> None:
    PAGE.write_text(with_tables(PAGE.read_text(), sheets(read(RESULTS))))


def with_tables(page: str, shown: Iterable[Sheet]) -> str:
    """What was not measured stays as it is."""
    tables = {one.name: one.on_page() for one in shown}

    def fill(place: re.Match[str]) -> str:
        table = tables.get(place["name"])
        return place[0] if table is None else f"{place[1]}{table}\n{place[3]}"

    return PLACE.sub(fill, page)


if __name__ == "__main__":
    main()
