"""Commands that show one page of a list of the admin runtime."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from rich.table import Table

from jobs_admin.api.client import AdminClient
from jobs_admin.api.views.base import Page
from jobs_admin.cli.connection import AdminConnectionOptions
from jobs_admin.cli.render.counts import count
from jobs_admin.cli.render.output import JsonOutput, console, print_json

P = TypeVar("P", bound=Page[Any])


async def show_page(
    fetch: Callable[[AdminClient], Awaitable[P]],
    options: AdminConnectionOptions,
    output: JsonOutput,
    table: Callable[[P], Table],
    total: Callable[[P], str],
) -> None:
    """Print JSON, or a table with a line below it: how many entries are shown, of how many."""
    async with options.admin() as admin:
        page = await fetch(admin)
    if output.json:
        print_json(page)
        return
    if page.entries:
        console().print(table(page))
    console().print(f"{count(len(page.entries))} of {total(page)}", style="dim")
