"""A new user with `trellis-jobs dev` and a mouse finds, explains, fixes and replays a dead job."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest
from playwright.async_api import Browser, Locator

from tests.cli.command import running
from tests.console.browser import Tab, visit
from tests.support.facts import until
from trellis_jobs import Jobs, Service, job

pytestmark = pytest.mark.asyncio(loop_scope="session")

READY: Final = "runs jobs of charge"
APP: Final = """\
from trellis_jobs import ActiveJob, Jobs, Service, job

class ShopJobs(Jobs, service="shop"):
    charge = job(str, int, max_deliver=1)

service = Service(ShopJobs)

@service.jobs.charge.handle
async def charge(job: ActiveJob[str]) -> int:
    euros, cents = job.payload.split("{separator}")
    return int(euros) * 100 + int(cents)
"""


class ShopJobs(Jobs, service="shop"):
    charge = job(str, int, max_deliver=1)


def save(folder: Path, separator: str) -> None:
    """As an editor does it: a reader of the file gets the old or the new one."""
    draft = folder / "app.draft"
    draft.write_text(APP.format(separator=separator))
    draft.replace(folder / "app.py")


async def click(tab: Tab, target: Locator) -> None:
    """Move the mouse there, and click."""
    await target.scroll_into_view_if_needed()
    box = await target.bounding_box()
    assert box is not None
    async with tab.page.expect_navigation():
        await tab.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    await tab.page.wait_for_load_state("load")


async def test_a_dead_job_is_found_explained_fixed_and_replayed_with_the_mouse(
    tmp_path: Path, browser: Browser
) -> None:
    project, printed = tmp_path / "project", tmp_path / "printed"
    for folder in (project, printed):
        folder.mkdir()
    save(project, ".")
    command = ("dev", "--app", "app:service", "--port", "0", "--console-port", "0")
    with running(printed, *command, cwd=project) as dev:
        await dev.until_prints(READY)
        [address] = re.findall(r"console: (\S+)", dev.printed)
        async with Service(ShopJobs).connect(dev.printed.split()[2], workers=False) as shop:
            ref = await shop.jobs.charge.create("12,50")
        await dev.until_prints("dead")
        async with visit(browser, address) as tab:
            await _find(tab, ref.id)
            save(project, ",")
            await until(lambda: dev.printed.count(READY) == 2, "dev has started it again")
            await _replay(tab)
            assert tab.complaints == []


async def _find(tab: Tab, job_id: str) -> None:
    """From the overview, by its error, to the page that explains it."""
    page = tab.page
    await tab.open("/")
    await tab.until("document.body.innerText.includes('ValueError')")
    await click(tab, page.locator("nav >> text=Dead letters"))
    await click(tab, page.locator("[id^=group-] td.number a"))
    await click(tab, page.locator(f"a[title='{job_id}']"))
    assert "ValueError" in await page.inner_text(".explanation")
    assert '"12,50"' in await page.inner_text("main")


async def _replay(tab: Tab) -> None:
    await click(tab, tab.page.locator("nav >> text=Dead letters"))
    await click(tab, tab.page.locator("[id^=one-]"))
    await tab.until("document.querySelector('.job-title .state-completed') !== null")
    assert "1250" in await tab.page.inner_text("main")
