"""Open pages that show the same and read again at the same time are rendered once for all."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from tests.console.installation import ConsoleInstallation
from tests.support.example_service import Task

pytestmark = pytest.mark.asyncio(loop_scope="session")

REFRESH = {"hx-request": "true"}


async def test_pages_that_read_again_get_what_their_hint_announced(
    shop: ConsoleInstallation, web: httpx.AsyncClient
) -> None:
    """Although another page has just read the same."""
    for _ in range(3):
        ref = await shop.queues.unattended.create(Task(text="seen at once"))
        [created] = [entry.seq async for entry in shop.admin.events(ref.id)]
        hint = {**REFRESH, "x-min-seq": str(created)}
        pages = await asyncio.gather(*(web.get("/jobs", headers=hint) for _ in range(10)))
        assert all(ref.id in page.text for page in pages)


async def test_a_file_that_is_asked_for_as_a_part_is_complete(web: httpx.AsyncClient) -> None:
    whole = (await web.get("/jobs.jsonl")).text
    for _ in range(2):
        assert (await web.get("/jobs.jsonl", headers=REFRESH)).text.count("\n") == whole.count("\n")
