"""Create jobs for the demo service: some of each kind, in rounds."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from itertools import count
from typing import TYPE_CHECKING, Final

from trellis_jobs import demo
from trellis_jobs.errors import JobIsOver, JobsError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from trellis_jobs.demo import DemoJobs

    Scenario = Callable[[DemoJobs, int], Awaitable[None]]

log = logging.getLogger(__name__)

_GOOD_CARD: Final = "4242 4242 4242 4242"
_CANCEL_AFTER: Final = 2.0
_REMIND_AFTER: Final = 5.0


async def keep_creating(jobs: DemoJobs, per_second: float) -> None:
    async with asyncio.TaskGroup() as scenarios:
        for round_number in count():
            for scenario in _SCENARIOS:
                scenarios.create_task(_create(scenario, jobs, round_number))
                await asyncio.sleep(1 / per_second)


async def _create(scenario: Scenario, jobs: DemoJobs, round_number: int) -> None:
    try:
        await scenario(jobs, round_number)
    except JobsError as error:
        log.warning("a demo job could not be created: %s", error, extra={"error": str(error)})


async def _image(jobs: DemoJobs, round_number: int) -> None:
    widths = [160, 320, 640, 1280][: 2 + round_number % 3]
    await jobs.resize_image.create(demo.Image(name=f"photo-{round_number}.jpg", widths=widths))


async def _tickets(jobs: DemoJobs, round_number: int) -> None:
    origin = ("acme", "globex", "initech")[round_number % 3]
    await jobs.sync_tickets.create(demo.Tickets(origin=origin, outages=round_number % 4))


async def _email(jobs: DemoJobs, round_number: int) -> None:
    to = ("ada@example.com", "grace@example.com", "no-at", "jürgen@example.com")[round_number % 4]
    await jobs.send_email.create(demo.Email(to=to, subject="Your order was shipped"))


async def _reminder(jobs: DemoJobs, _: int) -> None:
    """It is delayed, and the worker releases it when its time has come."""
    reminder = demo.Email(to="ada@example.com", subject="How do you like your order?")
    await jobs.send_email.create(reminder, delay=_REMIND_AFTER)


async def _charge(jobs: DemoJobs, round_number: int) -> None:
    card = (_GOOD_CARD, demo.BROKEN_GATEWAY_CARD, demo.DECLINED_CARD)[round_number % 3]
    await jobs.charge_card.create(demo.Charge(order=round_number, cents=995, card=card))


async def _good_charge(jobs: DemoJobs, round_number: int) -> None:
    await jobs.charge_card.create(demo.Charge(order=round_number, cents=2490, card=_GOOD_CARD))


async def _push(jobs: DemoJobs, round_number: int) -> None:
    """The queue runs one job at a time, so the last one misses its deadline."""
    devices = ("phone", "watch", "tablet", "desktop")[: 2 + round_number % 3]
    text = f"order {round_number} was shipped"
    await jobs.push_message.create_many(demo.Push(device=device, text=text) for device in devices)


async def _report(jobs: DemoJobs, round_number: int) -> None:
    """Every third report is cancelled while it runs."""
    regions = ["north", "east", "south", "west"]
    request = demo.ReportRequest(day=f"2025-11-{1 + round_number % 30:02}", regions=regions)
    ref = await jobs.nightly_report.create(request)
    if round_number % 3 == 1:
        await asyncio.sleep(_CANCEL_AFTER)
        with contextlib.suppress(JobIsOver):
            await ref.cancel("the report is not needed")


_SCENARIOS: Final[tuple[Scenario, ...]] = (
    _image,
    _tickets,
    _report,
    _email,
    _image,
    _charge,
    _push,
    _email,
    _tickets,
    _image,
    _good_charge,
    _reminder,
)
