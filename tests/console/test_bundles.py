"""The console of exported jobs: no server, nothing to change, and every link leads somewhere."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import Browser

from jobs_admin.api.errors import Invalid
from jobs_admin.bundle.bundle_file import read_bundle
from jobs_admin.bundle.job_bundle import JobBundle
from jobs_admin.console.bundle_reads import BundleReads
from jobs_admin.console.config import ConsoleConfig
from jobs_admin.console.serving import bundles_serving
from tests.console.browser import axe_violations, visit
from tests.console.installation import ConsoleInstallation

pytestmark = pytest.mark.asyncio(loop_scope="session")

_LINK = re.compile(r'(?:href|src)="(/[^"#]*)')


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def bundles(
    shop: ConsoleInstallation, web: httpx.AsyncClient
) -> AsyncIterator[dict[str, JobBundle]]:
    """Every job of the installation, as its page exports it."""
    found = {}
    for name, ref in shop.jobs.items():
        reply = await web.get(f"{path_of(ref.address.job_type, ref.id)}/bundle")
        found[name] = read_bundle(reply.content)
    yield found


@asynccontextmanager
async def offline(*bundles: JobBundle) -> AsyncIterator[httpx.AsyncClient]:
    """Follows redirects."""
    async with (
        bundles_serving(ConsoleConfig(port=0), BundleReads(bundles)) as address,
        httpx.AsyncClient(base_url=address, timeout=20, follow_redirects=True) as client,
    ):
        yield client


def path_of(job_type: str, job_id: str) -> str:
    return f"/jobs/shop/{job_type}/{job_id}"


async def test_a_job_of_any_state_is_shown_and_every_link_is_answered(
    bundles: dict[str, JobBundle],
) -> None:
    for name, bundle in bundles.items():
        async with offline(bundle) as web:
            page = await web.get("/")
            assert page.status_code == 200, name
            assert page.url.path == path_of(bundle.address.job_type, bundle.address.job_id)
            assert f"state-{bundle.job.state}" in page.text, name
            with_notes = await web.get(f"{page.url.path}?notes=1")
            for entry in bundle.entries:
                assert f"?seq={entry.seq}" in with_notes.text, name
            assert not re.search(r'<form method="post"|data-dialog', page.text), name
            for link in {each.replace("&amp;", "&") for each in _LINK.findall(page.text)}:
                assert (await web.get(link)).status_code == 200, (name, link)


async def test_it_says_what_the_page_of_the_installation_said(
    bundles: dict[str, JobBundle], web: httpx.AsyncClient
) -> None:
    dead = bundles["dead"]
    path = path_of(dead.address.job_type, dead.address.job_id)
    there = (await web.get(path)).text
    async with offline(dead) as client:
        here = (await client.get(path)).text
    for part in ("attempts", "events"):
        assert section(here, part) == section(there, part)


def section(page: str, heading: str) -> str:
    return page.partition(f'<h2 id="{heading}">')[2].partition("<h2")[0]


async def test_a_job_is_shown_as_of_any_of_its_events(bundles: dict[str, JobBundle]) -> None:
    completed = bundles["completed"]
    path = path_of(completed.address.job_type, completed.address.job_id)
    async with offline(completed) as web:
        first = (await web.get(path, params={"at": "1"})).text
        assert "as of event" in first
        assert "state-pending" in section(first, "runs") + first.partition("<main")[2]
        event = await web.get(f"{path}/raw/event", params={"seq": completed.entries[0].seq})
        assert event.json()["seq"] == completed.entries[0].seq


async def test_nothing_can_be_changed(bundles: dict[str, JobBundle]) -> None:
    dead = bundles["dead"]
    path = path_of(dead.address.job_type, dead.address.job_id)
    async with offline(dead) as web:
        own = {"origin": str(web.base_url).rstrip("/"), "sec-fetch-site": "same-origin"}
        change = {"action": "replay", "reason": "x"}
        assert (await web.post(path, data=change, headers=own)).status_code == 405
        for screen in ("/jobs", "/dead", "/queues", "/system"):
            assert (await web.get(screen)).status_code == 404


async def test_several_jobs_are_listed_and_compared(bundles: dict[str, JobBundle]) -> None:
    async with offline(bundles["dead"], bundles["completed"]) as web:
        listed = (await web.get("/")).text
        for name in ("dead", "completed"):
            assert bundles[name].address.job_id in listed
        both = {"a": bundles["dead"].address.job_id, "b": bundles["completed"].address.job_id}
        compared = await web.get("/diff", params=both)
        assert compared.status_code == 200
        assert "Runs on one scale" in compared.text
        missing = await web.get("/diff", params={**both, "b": "01ARZ3NDEKTSV4RRFFQ69G5FAV"})
        assert missing.status_code == 404


async def test_the_same_job_twice_is_refused(bundles: dict[str, JobBundle]) -> None:
    with pytest.raises(Invalid, match="the same job"):
        BundleReads([bundles["dead"], bundles["dead"]])


async def test_in_a_browser_its_pages_are_accessible_and_ask_no_other_host(
    bundles: dict[str, JobBundle], browser: Browser
) -> None:
    """The list, a job and a comparison, at 320 pixels, too."""
    shown = [bundles["dead"], bundles["retry"]]
    names = [each.address.job_id for each in shown]
    paths = ("/", path_of("brief", names[0]), f"/diff?a={names[0]}&b={names[1]}")
    async with (
        bundles_serving(ConsoleConfig(port=0), BundleReads(shown)) as address,
        visit(browser, address, width=320) as tab,
        visit(browser, address, bypass_csp=True) as checked,
    ):
        for path in paths:
            assert await tab.open(path) == 200
            await tab.page.wait_for_load_state("load")
            await tab.page.keyboard.press("/")  # opens nothing: there is no search
            assert await tab.page.evaluate("document.documentElement.scrollWidth") <= 320
            assert not await tab.page.is_visible("#live"), "nothing changes"
            assert tab.complaints == [], path
            await checked.open(path)
            assert await axe_violations(checked) == [], path
