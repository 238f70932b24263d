"""Debian's Chromium, driven by playwright, and what a page did in it.

async with visit(browser, shop.address) as tab:
    await tab.open("/jobs")
    assert tab.complaints == []
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, Final, Literal

from playwright.async_api import Browser, ConsoleMessage, Error, Page, Route, async_playwright

from tests.support.facts import until

# A hundred times what a page takes here.
_TIMEOUT_MS: Final = 20_000
_CHROMIUM: Final = shutil.which("chromium") or shutil.which("google-chrome")
WHY_NOT: Final = "" if _CHROMIUM else "there is no chromium: apt-get install chromium"
# Before any script of the page: what the browser forbade goes to the console, which is read here.
_REPORT_VIOLATIONS: Final = """
document.addEventListener("securitypolicyviolation", (event) => console.error(
  `policy violation: ${event.violatedDirective} ${event.blockedURI}`));
"""


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    async with async_playwright() as driver:
        started = await driver.chromium.launch(executable_path=_CHROMIUM, args=["--no-sandbox"])
        try:
            yield started
        finally:
            await started.close()


@dataclass
class Tab:
    """`complaints`: errors of scripts, violations of the policy, failed and foreign requests."""

    page: Page
    address: str
    complaints: list[str] = field(default_factory=list)

    async def open(self, path: str) -> int:
        """Open a page of the console, and return its status."""
        response = await self.page.goto(f"{self.address}{path}")
        assert response is not None
        return response.status

    async def until(self, script: str, argument: Any = None) -> None:
        """Wait until an expression is true in the page, whose policy forbids to poll within it."""

        async def holds() -> bool:
            try:
                return bool(await self.page.evaluate(script, argument))
            except Error:  # the page is being replaced by another
                return False

        await until(holds, script)

    async def until_live(self) -> None:
        """Wait until the page gets hints: until then it may have missed a change."""
        await self.until("document.documentElement.dataset.live === 'on'")


@asynccontextmanager
async def visit(
    browser: Browser,
    address: str,
    *,
    width: int = 1280,
    scheme: Literal["light", "dark"] = "light",
    **context: Any,
) -> AsyncIterator[Tab]:
    """A fresh profile. Requests to other hosts are aborted, and count as complaints."""
    profile = await browser.new_context(
        viewport={"width": width, "height": 800}, color_scheme=scheme, **context
    )
    try:
        page = await profile.new_page()
        page.set_default_timeout(_TIMEOUT_MS)
        tab = Tab(page, address)
        await profile.add_init_script(_REPORT_VIOLATIONS)
        await profile.route("**/*", lambda route: _only_here(route, tab))
        page.on("console", lambda message: _note(message, tab))
        page.on("pageerror", lambda error: tab.complaints.append(f"script error: {error}"))
        yield tab
    finally:
        await profile.close()


async def _only_here(route: Route, tab: Tab) -> None:
    url = route.request.url
    if url.startswith((f"{tab.address}/", "data:", "blob:")):
        await route.continue_()
        return
    tab.complaints.append(f"request to {url}")
    await route.abort()


def _note(message: ConsoleMessage, tab: Tab) -> None:
    if message.type in {"error", "warning"}:
        tab.complaints.append(f"{message.type}: {message.text}")


def axe_script() -> str:
    """The accessibility checks of axe-core, from the package that ships them."""
    return (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")


async def axe_violations(tab: Tab) -> list[str]:
    """The page must be opened with bypass_csp=True, because axe adds a script and styles."""
    await tab.page.add_script_tag(content=axe_script())
    result = await tab.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{found['id']} ({found['impact']}): {node['target']} {node['failureSummary']}"
        for found in result["violations"]
        for node in found["nodes"]
    ]
