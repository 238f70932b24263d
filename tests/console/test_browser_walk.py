"""Every page in a real browser: offline, accessible, narrow, dark, and with hostile jobs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Final, Literal

import nats
import pytest
import pytest_asyncio
from playwright.async_api import Browser, Route

from tests.console.browser import Tab, axe_violations, visit
from tests.console.installation import ConsoleInstallation, installation
from trellis_jobs.model import subjects

pytestmark = pytest.mark.asyncio(loop_scope="session")

SCHEMES: Final[tuple[Literal["light", "dark"], ...]] = ("light", "dark")
# Markup that would run, load, ask, navigate or restyle, in every way that a page could be careless.
MARKUP: Final = (
    "<script>window.pwned=1</script>"
    "<img src='http://evil.invalid/x' onerror='window.pwned=2'>"
    "\"'><svg onload=window.pwned=3>"
    "<a href='javascript:window.pwned=4'>x</a>"
    "<div hx-get='/static/icon.svg' hx-trigger='load' style='color:red'>{{7*7}}</div>"
    "</textarea></title></script><iframe srcdoc='<script>parent.pwned=5</script>'></iframe>"
)
# What can stand between the dots of a subject.
NAME: Final = "<svg/onload=window['pwned']=6>"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def hostile(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ConsoleInstallation]:
    """The words of its jobs, operators and keys are markup; so are names that a client forged."""
    folder: Path = tmp_path_factory.mktemp("hostile")
    async with installation(folder, MARKUP, environment=MARKUP) as made:
        await _forge(made.url)
        yield made


async def _forge(url: str) -> None:
    """What a client with the rights of a service can send: names with markup."""
    client = await nats.connect(url)
    for subject, body in (
        (f"trellis.jobs.shop.{NAME}.x.created", MARKUP.encode()),
        (f"trellis.jobs.{NAME}.work.{NAME}.{NAME}", MARKUP.encode()),
        (subjects.presence("shop", "work", NAME), b"{}"),
    ):
        await client.request(subject, body)
    await client.close()


async def test_no_page_needs_anything_from_elsewhere(
    shop: ConsoleInstallation, browser: Browser
) -> None:
    """Requests to other hosts are aborted; scripts run, and the policy is not violated."""
    async with visit(browser, shop.address) as tab:
        for path in shop.paths():
            assert await tab.open(path) == 200, path
            await tab.page.wait_for_load_state("load")
            assert tab.complaints == [], path


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_axe_finds_no_violation_on_any_page(
    shop: ConsoleInstallation, browser: Browser, scheme: Literal["light", "dark"]
) -> None:
    found: dict[str, list[str]] = {}
    async with visit(browser, shop.address, scheme=scheme, bypass_csp=True) as tab:
        for path in (*shop.paths(), "/nothing"):
            await tab.open(path)
            violations = await axe_violations(tab)
            if violations:
                found[path] = violations
    assert found == {}


async def test_a_narrow_screen_does_not_scroll_sideways(
    shop: ConsoleInstallation, browser: Browser
) -> None:
    async with visit(browser, shop.address, width=320) as tab:
        for path in (*shop.paths(), "/nothing"):
            await tab.open(path)
            width = await tab.page.evaluate("document.documentElement.scrollWidth")
            assert width <= 320, f"{path} is {width} px wide"


async def test_markup_in_jobs_is_shown_as_text_and_does_nothing(
    hostile: ConsoleInstallation, browser: Browser
) -> None:
    seen = []
    async with visit(browser, hostile.address) as tab:
        for path in hostile.paths():
            assert await tab.open(path) == 200, path
            await tab.page.wait_for_load_state("load")
            assert await tab.page.evaluate("window.pwned") is None, path
            assert tab.complaints == [], path
            assert await injected(tab) == [], path
            if "<script>window.pwned=1" in await tab.page.inner_text("body"):
                seen.append(path)
    assert "/" in seen, "the badge of the environment shows it"
    assert "/jobs" in seen


async def injected(tab: Tab) -> list[str]:
    """Elements that only the hostile markup could have made."""
    found: list[str] = await tab.page.evaluate(
        """() => [...document.querySelectorAll(
            `iframe, [style], [onerror], [onload], [hx-get], a[href^='javascript:'],
             script:not([src])`
        )].map((element) => element.outerHTML.slice(0, 200))"""
    )
    return found


async def test_no_other_site_can_show_the_console_in_a_frame(
    shop: ConsoleInstallation, browser: Browser
) -> None:
    async with visit(browser, shop.address) as tab:
        await tab.page.route(
            "http://evil.example/", _page(f'<iframe src="{shop.address}/jobs"></iframe>')
        )
        await tab.page.goto("http://evil.example/")
        frame = tab.page.frames[-1]
        assert frame.url.startswith("chrome-error://") or not await frame.query_selector("main")


async def test_a_form_of_another_site_changes_nothing(
    shop: ConsoleInstallation, browser: Browser
) -> None:
    """Also from another port of this machine: the browser says that it is another origin."""
    before = (await shop.admin.list_jobs()).count
    form = (
        f'<form method="post" action="{shop.address}/queues/shop/work/new">'
        '<input name="action" value="create"><button>Win</button></form>'
    )
    async with visit(browser, shop.address) as tab:
        for site in ("http://evil.example/", "http://localhost:1/"):
            await tab.page.route(site, _page(form))
            await tab.page.goto(site)
            async with tab.page.expect_navigation() as navigation:
                await tab.page.click("button")
            reply = await navigation.value
            assert reply is not None
            assert reply.status == 403
    assert (await shop.admin.list_jobs()).count == before


def _page(body: str) -> Callable[[Route], Awaitable[None]]:
    async def fulfill(route: Route) -> None:
        await route.fulfill(content_type="text/html", body=body)

    return fulfill
