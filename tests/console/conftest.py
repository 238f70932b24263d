"""One installation with its console, and one browser, for all tests that only look at it."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import Browser

from tests.console.browser import WHY_NOT, chromium
from tests.console.installation import ConsoleInstallation, installation


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def shop(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ConsoleInstallation]:
    folder: Path = tmp_path_factory.mktemp("console")
    async with installation(folder, environment="test") as made:
        yield made


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def web(shop: ConsoleInstallation) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=shop.address, timeout=20) as client:
        yield client


@pytest.fixture
def in_tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The process of the console is far from UTC."""
    with monkeypatch.context() as there:
        there.setenv("TZ", "JST-9")
        time.tzset()
        yield
    time.tzset()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    if WHY_NOT:
        pytest.skip(WHY_NOT)
    async with chromium() as started:
        yield started
