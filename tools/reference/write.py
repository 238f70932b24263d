"""Writes docs/reference/: `python -m tools.reference.write`, or `make docs`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from tools.reference import api_page, cli_page, event_page, rpc_page, settings_page, subject_page

FOLDER: Final = Path(__file__).parents[2] / "docs" / "reference"
PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "api.md": api_page.page,
    "cli.md": cli_page.page,
    "events.md": event_page.page,
    "rpcs.md": rpc_page.page,
    "settings.md": settings_page.page,
    "subjects.md": subject_page.page,
}

if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page(), encoding="utf-8")
