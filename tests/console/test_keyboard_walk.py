"""Every change that the console offers, made in a real browser with the keyboard alone."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Request

from jobs_admin.api.errors import NotFound
from jobs_admin.console.screens import SCREENS
from tests.console.browser import Tab, visit
from tests.console.installation import ConsoleInstallation, installation
from tests.support.example_service import Task
from tests.support.facts import until
from trellis_jobs import JobRef
from trellis_jobs.model.schedules.address import ScheduleAddress
from trellis_jobs.model.states import JobState
from trellis_jobs.model.worker_states import WorkerState

# Not parallel to the installation that other tests only look at: this one is changed.
pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(400)]

WHY: Final = "the bank is back"
MOST_TABS: Final = 400
CHANGES: Final = tuple(path for screen in SCREENS for path in screen.changes)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def own(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ConsoleInstallation]:
    folder: Path = tmp_path_factory.mktemp("walked")
    async with installation(folder) as made:
        yield made


@dataclass
class Keyboard:
    """A page and its keys. `posted`: the paths of the changes that the page has sent."""

    tab: Tab
    posted: list[str] = field(default_factory=list)

    def note(self, request: Request) -> None:
        if request.method == "POST":
            self.posted.append(request.url.removeprefix(self.tab.address))

    async def open(self, path: str) -> None:
        assert await self.tab.open(path) == 200, path
        await self.tab.page.wait_for_load_state("load")

    async def to(self, selector: str) -> None:
        """Press Tab until the focus is there."""
        for _ in range(MOST_TABS):
            if await self._is_at(selector):
                return
            await self.tab.page.keyboard.press("Tab")
        raise AssertionError(f"{selector} cannot be reached on {self.tab.page.url}")

    async def _is_at(self, selector: str) -> bool:
        at: bool = await self.tab.page.evaluate(
            "selector => document.activeElement.matches(selector)", selector
        )
        return at

    async def write(self, selector: str, text: str) -> None:
        await self.to(selector)
        await self.tab.page.keyboard.press("Control+A")
        await self.tab.page.keyboard.type(text)

    async def follow(self, selector: str) -> int:
        """Press Enter there, and return the status of the page that it leads to."""
        await self.to(selector)
        async with self.tab.page.expect_navigation() as navigation:
            await self.tab.page.keyboard.press("Enter")
        reply = await navigation.value
        await self.tab.page.wait_for_load_state("load")
        return reply.status

    async def in_dialog(self, opener: str, **fields: str) -> int:
        """Open a dialog, fill its fields in, and press its first button."""
        await self.to(opener)
        await self.tab.page.keyboard.press("Enter")
        for name, text in fields.items():
            await self.write(f"dialog[open] [name={name}]", text)
        return await self.follow("dialog[open] .actions button:first-child")

    @property
    def path(self) -> str:
        return self.tab.page.url.removeprefix(self.tab.address)


async def test_every_change_is_made_with_the_keyboard_alone(
    own: ConsoleInstallation, browser: Browser
) -> None:
    async with visit(browser, own.address) as tab:
        keyboard = Keyboard(tab)
        tab.page.on("request", keyboard.note)
        await _queues(own, keyboard)
        await _one_job(own, keyboard)
        await _keys(own, keyboard)
        await _schedules(own, keyboard)
        await _workers(own, keyboard)
        await _new_job(own, keyboard)
        await _dead_letters(own, keyboard)
        assert {each for each in CHANGES if not _was_sent(each, keyboard.posted)} == set()
        refused = [each for each in tab.complaints if "409" not in each]
        assert refused == [], "a key that is held is not released: that is the only refusal"


def _was_sent(template: str, posted: list[str]) -> bool:
    pattern = re.sub(r"\\{\w+\\}", "[^/]+", re.escape(template))
    return any(re.fullmatch(pattern, each.partition("?")[0]) for each in posted)


async def _queues(own: ConsoleInstallation, keyboard: Keyboard) -> None:
    """The installation has paused `brief`."""
    await keyboard.open("/queues/shop/brief")
    assert await keyboard.in_dialog("[data-dialog=resume]", reason=WHY) == 200
    await until(lambda: _is_paused(own, "brief", False), "brief runs")
    await keyboard.open("/queues/shop/work")
    assert await keyboard.in_dialog("[data-dialog=pause]", reason=WHY, duration="30m") == 200
    await until(lambda: _is_paused(own, "work", True), "work is paused")
    await keyboard.open("/queues/shop/work")
    assert await keyboard.in_dialog("[data-dialog=resume]", reason=WHY) == 200
    await until(lambda: _is_paused(own, "work", False), "work runs")


async def _is_paused(own: ConsoleInstallation, queue: str, wanted: bool) -> bool:
    queues = (await own.admin.list_queues(service="shop")).entries
    return [bool(each.paused) for each in queues if each.type == queue] == [wanted]


async def _one_job(own: ConsoleInstallation, keyboard: Keyboard) -> None:
    steps = (
        ("scheduled", "reschedule", {"delay": "2h", "reason": WHY}, JobState.SCHEDULED),
        ("scheduled", "run-now", {"reason": WHY}, JobState.COMPLETED),
        ("failed", "retry", {"reason": WHY}, JobState.FAILED),
        ("dead", "replay", {"reason": WHY}, JobState.DEAD),
        ("dead", "dismiss", {"reason": WHY}, JobState.DISMISSED),
        ("active", "cancel", {"reason": WHY}, JobState.CANCELLED),
    )
    for name, action, fields, state in steps:
        ref = own.jobs[name]
        before = (await own.admin.get(ref.id)).last_seq or 0
        await keyboard.open(f"/jobs/shop/{ref.address.job_type}/{ref.id}")
        assert await keyboard.in_dialog(f"#open-{action}", **fields) == 200
        assert keyboard.path == f"/jobs/shop/{ref.address.job_type}/{ref.id}"
        await until(lambda: _is_later(own, ref, state, before), f"{action} leads to {state}")  # noqa: B023


async def _is_later(
    own: ConsoleInstallation, ref: JobRef[Any], state: JobState, before: int
) -> bool:
    view = await own.admin.get(ref.id)
    return view.state is state and (view.last_seq or 0) > before


async def _keys(own: ConsoleInstallation, keyboard: Keyboard) -> None:
    """The key is held by a job that runs, so the admin runtime refuses, and says so."""
    holder = own.jobs["holding a key"].id
    [path] = own.filled("/keys/{service}/{type}/{key:path}")
    await keyboard.open(path)
    assert await keyboard.in_dialog(f"#release-{holder}", reason=WHY) == 409
    assert "lease" in await keyboard.tab.page.inner_text("main")


async def _schedules(own: ConsoleInstallation, keyboard: Keyboard) -> None:
    address = ScheduleAddress("shop", "brief", "walked")
    page = "/schedules/shop/brief/walked"
    await keyboard.open("/schedules/new")
    fields = {"service": "shop", "type": "brief", "name": "walked", "every": "1h"}
    for name, text in {**fields, "payload": '{"text": "tick"}'}.items():
        await keyboard.write(f"[name={name}]", text)
    await keyboard.tab.page.keyboard.press("Escape")  # a list of suggestions
    assert await keyboard.follow("form.stack .actions button") == 200
    assert (await own.admin.schedules.get(address)).paused is None
    await keyboard.open(page)
    assert await keyboard.in_dialog("[data-dialog=trigger]", reason=WHY) == 200
    await keyboard.open(page)
    assert await keyboard.in_dialog("[data-dialog=pause]", reason=WHY) == 200
    assert (await own.admin.schedules.get(address)).paused is not None
    await keyboard.open(page)
    assert await keyboard.in_dialog("[data-dialog=resume]", reason=WHY) == 200
    await keyboard.open(page)
    assert await keyboard.in_dialog("[data-dialog=delete]", reason=WHY) == 200
    with pytest.raises(NotFound):
        await own.admin.schedules.get(address)


async def _workers(own: ConsoleInstallation, keyboard: Keyboard) -> None:
    async def has_state(wanted: WorkerState) -> bool:
        return (await own.admin.list_workers()).entries[0].state is wanted

    for opener, state in (("quiet", WorkerState.QUIET), ("running", WorkerState.RUNNING)):
        await keyboard.open("/workers")
        assert await keyboard.in_dialog(f"#{opener}-{own.instance}", reason=WHY) == 200
        await until(lambda: has_state(state), f"the worker is {state}")  # noqa: B023


async def _new_job(own: ConsoleInstallation, keyboard: Keyboard) -> None:
    await keyboard.open("/queues/shop/work/new")
    await keyboard.write("[name=reason]", WHY)
    assert await keyboard.follow("button[value=preview]") == 200
    assert "Preview" in await keyboard.tab.page.inner_text("main")
    assert await keyboard.follow("button[value=create]") == 200
    assert keyboard.path.startswith("/jobs/shop/work/")
    made = keyboard.path.rpartition("/")[2]

    async def is_completed() -> bool:
        return (await own.admin.get(made)).state is JobState.COMPLETED

    await until(is_completed, "the new job is completed")


async def _dead_letters(own: ConsoleInstallation, keyboard: Keyboard) -> None:
    """Replay one of a group, then all at a rate that leaves time to stop."""
    for number in range(5):
        await own.queues.brief.create(Task(do="always fail", text=f"{number}"))

    async def all_are_dead() -> bool:
        return (await own.admin.stats(service="shop", type="brief")).states.get("dead", 0) >= 5

    await until(all_are_dead, "five jobs are dead")
    await keyboard.open("/dead")
    assert await keyboard.follow("[id^=one-]") == 200
    await until(all_are_dead, "the replayed job died again")
    await keyboard.open("/jobs?q=state:dead")
    for key in ("j", "x"):
        await keyboard.tab.page.keyboard.press(key)
    await keyboard.to("#select-matching")
    await keyboard.tab.page.keyboard.press("Space")
    assert await keyboard.follow("#selection button[value=replay]") == 200
    assert "Replay 5 jobs" in await keyboard.tab.page.inner_text("h1")
    await keyboard.write("[name=reason]", WHY)
    await keyboard.write("[name=rate]", "0.1")
    assert await keyboard.follow("form.change .actions button") == 200
    operation = keyboard.path.rpartition("/")[2]
    assert await keyboard.in_dialog(f"#stop-{operation}", reason=WHY) == 200

    async def has_stopped() -> bool:
        found = await own.admin.get_operation(operation)
        return found.is_over and found.done < 5

    await until(has_stopped, "the operation was stopped before its end")
