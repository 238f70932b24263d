"""The screens for operators over HTTP, on a real server with real jobs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlencode

import pytest

from jobs_admin.api.client import AdminClient
from jobs_admin.api.views.audit import AuditTarget
from tests.console.lab import SAME_ORIGIN, ConsoleLab, Seen, console_lab
from tests.support.example_service import Report, Task, TaskWorker, example_jobs, task_worker
from tests.support.facts import until
from tests.support.lab import until_state
from trellis_jobs import KeyConcurrency, QueueDepth, Service, Workers
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.model.states import JobState

SHOP = example_jobs(
    "shop",
    Task,
    Report,
    charge={"backoff": [0.05], "max_deliver": 2},
    keyed={"key": KeyConcurrency(["/key"]), "queue": QueueDepth(max_queued_per_key=5)},
)
HOSTILE = "<img src=x onerror=alert(1)>/../ключ"
HTML_LIMIT = 100_000


@dataclass
class Shop:
    console: ConsoleLab
    admin: AdminClient
    worker: TaskWorker


@asynccontextmanager
async def a_shop(url: str, folder: Path) -> AsyncIterator[Shop]:
    made = task_worker(Service(SHOP, grace=1.0))
    async with (
        console_lab(url, folder) as console,
        AdminClient.connect(url, by="ann") as admin,
        made.service.connect(url, workers=Workers()),
    ):
        yield Shop(console, admin, made)
        made.go.set()


@pytest.fixture
async def shop(server: EmbeddedServer, tmp_path: Path) -> AsyncIterator[Shop]:
    async with a_shop(server.url, tmp_path) as made:
        yield made


async def a_dead_job(shop: Shop) -> str:
    ref = await shop.worker.jobs.charge.create(Task(do="always fail", text=HOSTILE))
    await until_state(ref, JobState.DEAD)

    async def is_known() -> bool:
        return (await shop.admin.stats()).states.get("dead") == 1

    await until(is_known, "the projection has the dead job")
    return ref.id


async def until_seen(console: ConsoleLab, path: str, text: str) -> Seen:
    async def there() -> Seen | None:
        seen = await console.see(path)
        return seen if text in seen.text else None

    return await until(there, f"{path} shows {text}")


async def until_not_seen(console: ConsoleLab, path: str, text: str) -> None:
    """A queue is resumed some milliseconds after the server has said so."""

    async def gone() -> bool:
        return text not in (await console.see(path)).text

    await until(gone, f"{path} shows {text} no more")


async def test_every_screen_is_shown_to_its_reader_and_is_small(shop: Shop) -> None:
    await a_dead_job(shop)
    paths = ("/", "/?span=day", "/queues", "/queues/shop/charge", "/keys", "/schedules")
    for path in (*paths, "/schedules/new", "/workers", "/system", "/queues/shop/charge?span=week"):
        seen = await shop.console.see(path)
        assert seen.status == 200, (path, seen.text)
        assert len(seen.html.encode()) < HTML_LIMIT
        assert " style=" not in seen.html
        assert "<img" not in seen.html


async def test_the_overview_shows_counts_queues_and_errors(shop: Shop) -> None:
    await a_dead_job(shop)
    seen = await until_seen(shop.console, "/", "RuntimeError")
    assert "shop/charge" in seen.text
    assert "Top errors" in seen.text
    assert "/jobs?q=state%3Adead" in seen.html


async def test_a_queue_is_paused_with_a_reason_and_resumed(shop: Shop) -> None:
    form = {"reason": "the bank is down", "duration": "20m"}
    paused = await shop.console.send("/queues/shop/charge/pause", **form)
    assert (paused.status_code, paused.headers["location"]) == (303, "/queues/shop/charge")
    seen = await shop.console.see("/queues/shop/charge")
    assert "the bank is down" in seen.text
    await until_seen(shop.console, "/", "shop/charge: paused by console")
    resumed = await shop.console.send("/queues/shop/charge/resume", reason="the bank is back")
    assert resumed.status_code == 303
    await until_not_seen(shop.console, "/queues/shop/charge", "the bank is down")
    assert "the bank is back" in (await shop.console.see("/audit?target=queue")).text


async def test_a_pause_without_a_reason_or_with_an_odd_length_changes_nothing(shop: Shop) -> None:
    without = await shop.console.send("/queues/shop/charge/pause", reason=" ")
    odd = await shop.console.send("/queues/shop/charge/pause", reason="why", duration="soon")
    assert (without.status_code, odd.status_code) == (422, 422)
    assert "a reason is needed" in without.text
    [queue] = (await shop.admin.list_queues(type="charge", limit=1)).entries
    assert not queue.paused


async def test_a_queue_that_never_was_is_not_found(shop: Shop) -> None:
    seen = await shop.console.see("/queues/shop/unknown")
    assert (seen.status, "there is no queue shop/unknown" in seen.text) == (404, True)


async def test_a_queue_is_shown_as_of_a_moment_before_its_jobs(shop: Shop) -> None:
    job_id = await a_dead_job(shop)
    then = datetime.now(UTC) - timedelta(hours=1)
    query = urlencode({"at": then.strftime("%Y-%m-%dT%H:%M")})
    seen = await shop.console.see(f"/queues/shop/charge?{query}")
    assert (seen.status, "There were no jobs." in seen.text) == (200, True)
    assert job_id not in seen.html
    moved = await shop.console.http.get(f"/queues/shop/charge?{query}&step=10")
    assert moved.status_code == 303
    assert "step" not in moved.headers["location"]
    assert (await shop.console.see("/queues/shop/charge?at=whenever")).status == 422


async def test_a_key_of_any_text_is_listed_opened_and_not_released_while_it_is_held(
    shop: Shop,
) -> None:
    holder = await shop.worker.jobs.keyed.create(Task(do="wait", key=HOSTILE))
    await shop.worker.until_running(holder)
    waiting = await shop.worker.jobs.keyed.create(Task(key=HOSTILE))
    listed = await until_seen(shop.console, "/keys?service=shop&type=keyed", HOSTILE)
    assert "left" in listed.text
    seen = await until_seen(
        shop.console, f"/keys/shop/keyed?{urlencode({'key': HOSTILE})}", waiting.id
    )
    assert holder.id in seen.text
    form = {"key": seen.fields["key"], "job_id": holder.id, "reason": "the host is gone"}
    refused = await shop.console.send("/keys/shop/keyed/release", **form)
    assert (refused.status_code, "cancel it" in refused.text) == (409, True)


async def test_a_schedule_is_made_paused_resumed_triggered_and_deleted(shop: Shop) -> None:
    form = {
        "service": "shop",
        "type": "charge",
        "name": "nightly",
        "cron": "0 9 * * MON-FRI",
        "time_zone": "Europe/Berlin",
        "catch_up": "once",
        "max_catch_up": "10",
        "overlap": "skip",
        "payload": '{"do": "answer"}',
        "reason": "reports for Acme",
    }
    path = "/schedules/shop/charge/nightly"
    made = await shop.console.send("/schedules", **form)
    assert (made.status_code, made.headers["location"]) == (303, path)
    seen = await shop.console.see(path)
    assert "Europe/Berlin" in seen.text
    assert seen.html.count("CET") + seen.html.count("CEST") >= 10
    assert "shop/charge/nightly" in (await shop.console.see("/schedules")).text
    assert (await shop.console.send(f"{path}/pause", reason="a wrong report")).status_code == 303
    assert "a wrong report" in (await shop.console.see(path)).text
    assert (await shop.console.send(f"{path}/resume", reason="it is right")).status_code == 303
    assert (
        await shop.console.send(f"{path}/trigger", reason="today is missing")
    ).status_code == 303
    await until_seen(shop.console, path, "triggered by console")
    like = await shop.console.see("/schedules/new?like=shop/charge/nightly")
    assert (like.fields["cron"], like.fields["name"]) == ("0 9 * * MON-FRI", "nightly")
    assert (await shop.console.send(f"{path}/delete", reason="Acme left")).status_code == 303
    assert (await shop.console.see(path)).status == 404
    audit = await shop.admin.audit.list(target=AuditTarget.SCHEDULE)
    assert [(each.verb, each.reason) for each in audit.entries] == [
        ("delete", "Acme left"),
        ("trigger", "today is missing"),
        ("resume", "it is right"),
        ("pause", "a wrong report"),
        ("put", "reports for Acme"),
    ]
    assert "today is missing" in (await shop.console.see("/audit?target=schedule")).text


async def test_a_refused_schedule_shows_the_form_again_with_what_was_entered(shop: Shop) -> None:
    form = {"service": "shop", "type": "charge", "name": "odd", "cron": "never", "payload": "{}"}
    rest = {"catch_up": "once", "max_catch_up": "10", "overlap": "allow", "reason": "for Acme"}
    reply = await shop.console.send("/schedules", **form, **rest)
    seen = Seen.of(reply)
    assert (seen.status, seen.fields["cron"], seen.fields["name"]) == (422, "never", "odd")
    assert seen.fields["reason"] == "for Acme"


async def test_a_worker_is_made_quiet_with_a_reason_and_takes_jobs_again(shop: Shop) -> None:
    await until_seen(shop.console, "/workers", "running")
    [process] = (await shop.admin.list_workers(limit=10)).entries
    named = {"service": "shop", "instance_id": process.instance_id, "reason": "deploy"}
    quiet = await shop.console.send("/workers/direct", state="quiet", **named)
    assert quiet.status_code == 303
    await until_seen(shop.console, "/workers?service=shop", "by console: deploy")
    by_filter = {"service": "shop", "reason": "deployed"}
    assert (
        await shop.console.send("/workers/direct", state="running", **by_filter)
    ).status_code == 303
    await until_seen(shop.console, "/workers", "▶ running")


async def test_numbers_of_workers_say_when_they_are_of_one_page(
    shop: Shop, server: EmbeddedServer
) -> None:
    other = task_worker(Service(SHOP, grace=1.0))
    async with other.service.connect(server.url, workers=Workers()):
        await until_seen(shop.console, "/workers", "2 alive")
        assert "on this page" not in (await shop.console.see("/workers")).text
        assert "on this page: 1 alive" in (await shop.console.see("/workers?offset=1")).text


async def test_a_directive_to_all_workers_or_to_none_is_refused(shop: Shop) -> None:
    every = await shop.console.send("/workers/direct", state="terminate", reason="why")
    unmatched = await shop.console.send(
        "/workers/direct", state="quiet", service="nowhere", reason="why"
    )
    odd = await shop.console.send("/workers/direct", state="dance", service="shop", reason="why")
    assert (every.status_code, unmatched.status_code, odd.status_code) == (422, 422, 422)


async def test_the_system_shows_streams_loops_and_versions(shop: Shop) -> None:
    seen = await shop.console.see("/system")
    for text in ("JOBS_WORK", "projector", "nats-server", "position in the log"):
        assert text in seen.text


async def test_an_open_page_gets_only_its_changing_part(shop: Shop) -> None:
    headers = {**SAME_ORIGIN, "hx-request": "true"}
    reply = await shop.console.http.get("/queues", headers=headers)
    assert "<!doctype" not in reply.text
    assert "shop/charge" in reply.text
