"""How people use the console: the keyboard, live pages, two browsers, forms while pages change."""

from __future__ import annotations

from typing import Final

import pytest
from playwright.async_api import Browser

from tests.console.browser import Tab, visit
from tests.console.installation import ConsoleInstallation
from tests.support.example_service import Task
from trellis_jobs import JobRef

pytestmark = pytest.mark.asyncio(loop_scope="session")

SHOWN: Final = (
    "id => document.querySelector(`#main [title='${id}'], #main [href*='${id}']`) !== null"
)


async def new_job(shop: ConsoleInstallation) -> JobRef[object]:
    return await shop.queues.unattended.create(Task(text="made while the page is open"))


async def test_a_change_appears_in_every_open_browser(
    shop: ConsoleInstallation, browser: Browser
) -> None:
    async with visit(browser, shop.address) as one, visit(browser, shop.address) as other:
        for tab in (one, other):
            await tab.open("/jobs")
            await tab.until_live()
        ref = await new_job(shop)
        for tab in (one, other):
            await tab.until(SHOWN, ref.id)
            assert tab.complaints == []


async def test_a_paused_page_stays_as_it_is_until_it_is_resumed(
    shop: ConsoleInstallation, browser: Browser
) -> None:
    async with visit(browser, shop.address) as paused, visit(browser, shop.address) as live:
        for tab in (paused, live):
            await tab.open("/jobs")
            await tab.until_live()
        await paused.page.keyboard.press("p")
        ref = await new_job(shop)
        await live.until(SHOWN, ref.id)
        assert not await paused.page.evaluate(f"({SHOWN})('{ref.id}')")
        await paused.page.keyboard.press("p")
        await paused.until(SHOWN, ref.id)


async def test_a_change_that_came_while_a_dialog_was_open_appears_when_it_is_closed(
    shop: ConsoleInstallation, browser: Browser
) -> None:
    ref = await new_job(shop)
    async with visit(browser, shop.address) as tab, visit(browser, shop.address) as other:
        for each in (tab, other):
            await each.open(f"/jobs/shop/unattended/{ref.id}")
            await each.until_live()
        await tab.page.click("#open-cancel")
        await shop.admin.cancel(ref.id, reason="the customer called")
        await other.until("document.querySelector('.job-title .state-cancelled') !== null")
        await tab.until("!document.querySelector('.job-title .state-cancelled')")
        await tab.page.click("dialog[open] [data-close]")
        await tab.until("document.querySelector('.job-title .state-cancelled') !== null")


async def test_a_paused_page_still_shows_the_job_as_of_any_event(
    shop: ConsoleInstallation, browser: Browser
) -> None:
    ref = shop.jobs["completed"]
    async with visit(browser, shop.address) as tab:
        await tab.open(f"/jobs/shop/work/{ref.id}")
        await tab.until_live()
        await tab.page.keyboard.press("p")
        await tab.page.focus("#as-of-range")
        await tab.page.keyboard.press("Home")
        await tab.until("document.querySelector('.as-of-banner') !== null")
        assert tab.complaints == []


async def test_the_keys_can_be_switched_off(shop: ConsoleInstallation, browser: Browser) -> None:
    async with visit(browser, shop.address) as tab:
        await tab.open("/jobs")
        await tab.page.keyboard.press("?")
        await tab.page.click("#use-keys")
        await tab.page.keyboard.press("Escape")
        await tab.page.keyboard.press("?")
        assert not await tab.page.is_visible("#shortcuts")
        await tab.open("/queues")
        await tab.page.keyboard.press("?")
        assert not await tab.page.is_visible("#shortcuts"), "it is remembered"
        await tab.page.click("#keys")
        assert await tab.page.is_visible("#shortcuts")


async def test_the_live_tail_connects_again_after_it_was_refused(
    shop: ConsoleInstallation, browser: Browser
) -> None:
    stream = "**/live/events*"
    async with visit(browser, shop.address) as tab:
        await tab.page.route(stream, lambda route: route.fulfill(status=503, body="too many"))
        await tab.open("/live")
        await tab.until("document.getElementById('tail-state').textContent.includes('again')")
        await tab.page.unroute(stream)
        ref = await new_job(shop)
        await tab.until(SHOWN, ref.id)


async def test_the_focus_stays_while_the_page_changes(
    shop: ConsoleInstallation, browser: Browser
) -> None:
    async with visit(browser, shop.address) as tab:
        await tab.open("/jobs")
        await tab.until_live()
        await tab.page.keyboard.press("j")
        before = await focused(tab)
        assert before.startswith("/jobs/")
        ref = await new_job(shop)
        await tab.until(SHOWN, ref.id)
        assert await focused(tab) == before
        await tab.page.keyboard.press("/")
        await tab.page.keyboard.type("state:de")
        again = await new_job(shop)
        await tab.until(SHOWN, again.id)
        await tab.page.keyboard.type("ad")
        assert await tab.page.input_value("#search") == "state:dead"


async def focused(tab: Tab) -> str:
    href: str = await tab.page.evaluate("document.activeElement.getAttribute('href') ?? ''")
    return href


async def test_everything_is_reached_with_the_keyboard(
    shop: ConsoleInstallation, browser: Browser
) -> None:
    async with visit(browser, shop.address) as tab:
        press = tab.page.keyboard.press
        await tab.open("/")
        await press("Tab")
        assert await focused(tab) == "#main", "the first thing skips the navigation"
        for screen in await tab.page.eval_on_selector_all(
            "nav [data-key]", "links => links.map((each) => [each.dataset.key, each.pathname])"
        ):
            key, path = screen
            if key:
                async with tab.page.expect_navigation():
                    await press("g")
                    await press(key)
                await tab.until("path => location.pathname === path", path)
                await tab.page.wait_for_load_state("load")
        await tab.open("/jobs")
        await press("?")
        assert await tab.page.is_visible("#shortcuts")
        await press("Escape")
        assert not await tab.page.is_visible("#shortcuts")
        await press("j")
        await press("j")
        target = await focused(tab)
        assert target.startswith("/jobs/")
        async with tab.page.expect_navigation():
            await press("Enter")
        await tab.until("path => location.pathname === path", target)


async def test_theme_and_time_zone_are_remembered(
    shop: ConsoleInstallation, browser: Browser
) -> None:
    async with visit(browser, shop.address, timezone_id="Asia/Tokyo") as tab:
        await tab.open("/")
        for _ in range(2):
            await tab.page.keyboard.press("t")
        await tab.page.keyboard.press("u")
        await tab.open("/jobs")
        assert await tab.page.evaluate("document.documentElement.dataset.theme") == "dark"
        assert await tab.page.inner_text("#zone") == "UTC"
        moment = await tab.page.get_attribute("#main time", "title")
        assert moment is not None
        assert "local" in moment
        assert "Z" in moment
        assert tab.complaints == []


async def test_a_hidden_page_asks_for_nothing(shop: ConsoleInstallation, browser: Browser) -> None:
    async with visit(browser, shop.address) as tab:
        await tab.open("/jobs")
        await tab.until_live()
        await tab.page.evaluate(
            """() => {
              Object.defineProperty(document, "hidden", {value: true, configurable: true});
              document.dispatchEvent(new Event("visibilitychange"));
            }"""
        )
        await tab.until("document.documentElement.dataset.live === undefined")
        ref = await new_job(shop)
        await tab.page.evaluate(
            """() => {
              Object.defineProperty(document, "hidden", {value: false, configurable: true});
              document.dispatchEvent(new Event("visibilitychange"));
            }"""
        )
        await tab.until(SHOWN, ref.id)
