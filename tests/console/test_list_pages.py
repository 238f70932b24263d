"""Jobs, dead letters, operations, audit and the live tail, as a browser gets them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from html import unescape
from pathlib import Path
from urllib.parse import urlencode

import httpx
import orjson
import pytest

from jobs_admin.api.client import AdminClient
from jobs_admin.console.config import ConsoleConfig
from jobs_admin.console.connections import open_connections
from jobs_admin.console.serving import console_serving
from jobs_admin.console.users import Role
from tests.admin.operations_lab import die, numbered, until_over, write
from tests.console.lab import SAME_ORIGIN, ConsoleLab, Seen, console_lab
from tests.given import NOON, created, dead, error, started
from tests.support.facts import until
from tests.support.lab import Probe, probe, producer
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.jetstream.client.connect_options import as_connect_options
from trellis_jobs.model.identity import JobAddress

HOSTILE = '"><img src=x onerror=alert(1)><script>alert(2)</script>'
# Its preview showed at most this many jobs.
REPLAY = {"verb": "replay", "q": "state:dead", "reason": "try again", "count": "30"}


@pytest.fixture
async def admin(server: EmbeddedServer) -> AsyncIterator[AdminClient]:
    async with AdminClient.connect(server.url, by="ann", timeout=20) as client:
        yield client


@pytest.fixture
async def lab(server: EmbeddedServer, tmp_path: Path) -> AsyncIterator[ConsoleLab]:
    async with producer(server.url), console_lab(server.url, tmp_path) as made:
        yield made


@pytest.fixture
async def raw(lab: ConsoleLab, server: EmbeddedServer) -> AsyncIterator[Probe]:
    async with probe(server.url) as made:
        yield made


def path_of(job: JobAddress) -> str:
    return f"/jobs/{job.service}/{job.job_type}/{job.job_id}"


def link(html: str, identity: str) -> str | None:
    """The address of the link with this id."""
    found = re.search(rf'id="{identity}"[^>]*href="([^"]*)"', html)
    return unescape(found[1]) if found else None


async def until_projected(admin: AdminClient) -> None:
    """The projection has what the log has now."""
    newest = await admin.tail(limit=1)
    await admin.list_jobs(limit=1, min_seq=newest.seq)


async def one_death(raw: Probe, job: JobAddress, message: str) -> None:
    of = {"job": job, "at": NOON}
    why = error(type="BankDown", message=message)
    await write(
        raw.events, created(**of), started(**of, app_version="1.4.2"), dead(**of, error=why)
    )


async def test_jobs_come_in_pages_that_link_back_and_forth(
    lab: ConsoleLab, raw: Probe, admin: AdminClient
) -> None:
    await die(raw, 120)
    await until_projected(admin)
    first = await lab.see("/jobs?q=state:dead")
    assert "120 jobs" in first.text
    assert "trellis-jobs jobs list state:dead" in first.text
    assert len(first.html.encode()) < 100_000
    ids: list[str] = []
    page, address = first, "/jobs?q=state:dead"
    while True:
        ids += re.findall(r'data-open="/jobs/lab/work/([^"]+)"', page.html)
        older = link(page.html, "older")
        if older is None:
            break
        back, page = address, await lab.see(older)
        newer = link(page.html, "newer")
        assert newer is not None
        assert (await lab.see(newer)).text == (await lab.see(back)).text
        address = older
    assert ids == [numbered(number).job_id for number in reversed(range(120))]


async def test_tabs_count_the_jobs_of_each_state(
    lab: ConsoleLab, raw: Probe, admin: AdminClient
) -> None:
    await die(raw, 3)
    await die(raw, 2, first=3, queue="single")
    await until_projected(admin)
    assert re.search(r"all 5\b.* dead 5\b", (await lab.see("/jobs")).text)
    assert re.search(r"all 2\b.* dead 2\b", (await lab.see("/jobs?q=type:lab/single")).text)


async def test_a_wrong_filter_is_explained_beside_the_bar_and_lists_nothing(
    lab: ConsoleLab, raw: Probe, admin: AdminClient
) -> None:
    await die(raw, 1)
    await until_projected(admin)
    page = await lab.see("/jobs?q=stat:dead")
    assert page.status == 200
    assert "there is no field 'stat'; the fields are state, service" in page.text
    assert page.fields["q"] == "stat:dead"
    assert numbered(0).job_id not in page.html


async def test_the_search_box_opens_the_only_job_with_an_id(
    lab: ConsoleLab, raw: Probe, admin: AdminClient
) -> None:
    await die(raw, 12)
    await until_projected(admin)
    one = await lab.http.get("/jobs?q=job-0011")
    assert (one.status_code, one.headers["location"]) == (303, path_of(numbered(11)))
    some = await lab.http.get("/jobs?q=job-001")
    assert some.headers["location"] == "/jobs?q=id%3Ajob-001"
    assert "2 jobs" in (await lab.see(some.headers["location"])).text
    none = await lab.see("/jobs?q=id:charge")
    assert "No job has an id that begins with charge." in none.text


async def test_selected_jobs_are_changed_after_a_preview_with_who_and_why(
    lab: ConsoleLab, raw: Probe, admin: AdminClient
) -> None:
    await die(raw, 3)
    await write(raw.events, created(job=JobAddress("lab", "work", "waiting"), at=NOON))
    await until_projected(admin)
    names = [f"lab/work/{name}" for name in ("job-0000", "job-0002", "waiting")]
    query = urlencode([("verb", "replay"), *(("job", name) for name in names)])
    preview = await lab.see(f"/jobs/change?{query}")
    assert "Replay 2 jobs" in preview.text
    assert "stay as they are: pending jobs cannot be replayed" in preview.text
    fields = {**preview.fields, "reason": "it is back", "rate": "50"}
    started_it = await lab.send("/jobs/change", **fields)
    assert started_it.status_code == 303
    address = started_it.headers["location"]
    operation = await admin.get_operation(address.removeprefix("/operations/"))
    assert (operation.by, operation.reason, operation.rate) == ("console", "it is back", 50.0)
    over = await until_over(admin, operation)
    assert (over.done, over.total) == (2, 2)
    page = await lab.see(address)
    assert "2 done of 2" in page.text
    assert "it is back" in page.text
    assert "it is back" in (await lab.see("/operations")).text
    assert (await admin.get("job-0001")).state == "dead"


async def test_a_change_of_more_jobs_than_its_preview_showed_is_previewed_again(
    lab: ConsoleLab, raw: Probe, admin: AdminClient
) -> None:
    await die(raw, 1)
    await until_projected(admin)
    preview = await lab.see("/jobs/change?verb=dismiss&q=state:dead")
    assert "Dismiss 1 job" in preview.text
    await die(raw, 5, first=1)
    await until_projected(admin)
    entered = {"reason": "a known outage", "rate": "50"}
    again = Seen.of(await lab.send("/jobs/change", **{**preview.fields, **entered}))
    assert again.status == 409
    assert "5 more jobs match now than when you looked" in again.text
    assert "Dismiss 6 jobs" in again.text
    assert again.fields.items() >= {**entered, "count": "6"}.items()
    assert (await admin.list_operations()).count == 0
    started_it = await lab.send("/jobs/change", **again.fields)
    name = started_it.headers["location"].rpartition("/")[2]
    assert (await until_over(admin, await admin.get_operation(name))).done == 6


async def test_a_change_of_fewer_jobs_than_its_preview_showed_is_started(
    lab: ConsoleLab, raw: Probe, admin: AdminClient
) -> None:
    await die(raw, 3)
    await until_projected(admin)
    preview = await lab.see("/jobs/change?verb=dismiss&q=state:dead")
    changed = await admin.replay(numbered(0))
    await admin.list_jobs(limit=1, min_seq=changed.seq)
    started_it = await lab.send("/jobs/change", **{**preview.fields, "reason": "known"})
    name = started_it.headers["location"].rpartition("/")[2]
    assert (await until_over(admin, await admin.get_operation(name))).total == 2


async def test_a_change_that_was_not_previewed_is_not_started(
    lab: ConsoleLab, raw: Probe, admin: AdminClient
) -> None:
    await die(raw, 1)
    await until_projected(admin)
    for count in ("", "many", "-1", "9" * 5_000):
        refused = await lab.send("/jobs/change", **{**REPLAY, "count": count})
        assert (refused.status_code, "count" in refused.text) == (422, True), count
    assert (await admin.list_operations()).count == 0


async def test_the_filter_of_a_change_is_fixed_when_it_is_previewed(
    lab: ConsoleLab, raw: Probe, admin: AdminClient
) -> None:
    await die(raw, 1)
    await until_projected(admin)
    preview = await lab.see("/jobs/change?verb=replay&all=1&q=since:1000d")
    assert re.fullmatch(r"since:20\d\d-\S+Z", preview.fields["q"])


async def test_a_change_that_cannot_be_is_refused_with_why(
    lab: ConsoleLab, raw: Probe, admin: AdminClient
) -> None:
    await die(raw, 1)
    await until_projected(admin)
    assert "no job that this could change" in (await lab.see("/jobs/change?verb=cancel")).text
    for query, why in (
        ("verb=cancel&q=state:dead", "only scheduled or pending or retry or active"),
        ("verb=burn", "there is no change 'burn'"),
        ("verb=cancel&q=x:y", "there is no field 'x'"),
    ):
        page = await lab.see(f"/jobs/change?{query}")
        assert page.status == 409, page.text
        assert why.split(" or ")[0] in page.text
    wrong = await lab.send("/jobs/change", **REPLAY, rate="many")
    assert wrong.status_code == 409


async def test_the_list_can_be_saved_as_csv_and_json_lines(
    lab: ConsoleLab, raw: Probe, admin: AdminClient
) -> None:
    await die(raw, 3)
    await until_projected(admin)
    csv = await lab.http.get("/jobs.csv?q=state:dead")
    assert csv.headers["content-disposition"] == 'attachment; filename="jobs.csv"'
    assert len(csv.text.splitlines()) == 4
    lines = (await lab.http.get("/jobs.jsonl?q=id:job-0001")).text.splitlines()
    assert [orjson.loads(line)["id"] for line in lines] == ["job-0001"]
    assert (await lab.http.get("/jobs.xml")).status_code == 409
    assert (await lab.http.get("/jobs.csv?q=x:y")).status_code == 409


async def test_dead_letters_are_grouped_and_a_group_is_replayed_alone(
    lab: ConsoleLab, raw: Probe, admin: AdminClient
) -> None:
    for number in range(3):
        await one_death(raw, numbered(number), f"503 for order {number}")
    await one_death(raw, numbered(3), "card declined")
    await until_projected(admin)
    page = await lab.see("/dead?q=state:dead+type:lab/work")
    assert "4 dead jobs in 2 groups" in page.text
    assert "trellis-jobs dlq list --group type:lab/work" in page.text
    assert "BankDown: 503 for order *" in page.text
    assert "1.4.2" in page.text
    found = re.search(r'id="(all-[0-9a-f]{16})"', page.html)
    assert found is not None
    change = link(page.html, found[1])
    assert change is not None
    preview = await lab.see(change)
    assert "Replay 3 jobs" in preview.text
    done = await lab.send("/jobs/change", **{**preview.fields, "reason": "the bank is back"})
    await until_over(admin, await admin.get_operation(done.headers["location"].rpartition("/")[2]))
    assert [job.id for job in (await admin.list_dead()).entries] == [numbered(3).job_id]


async def test_one_job_of_a_group_is_tried_first(
    lab: ConsoleLab, raw: Probe, admin: AdminClient
) -> None:
    await one_death(raw, numbered(0), "503")
    await until_projected(admin)
    form = {"service": "lab", "type": "work", "id": numbered(0).job_id}
    tried = await lab.send("/dead/one", **form)
    assert (tried.status_code, tried.headers["location"]) == (303, path_of(numbered(0)))
    assert (await admin.get(numbered(0))).state == "pending"
    again = await lab.send("/dead/one", **form)
    assert again.status_code == 409


async def test_an_operation_is_stopped(lab: ConsoleLab, raw: Probe, admin: AdminClient) -> None:
    await die(raw, 30)
    await until_projected(admin)
    started_it = await lab.send("/jobs/change", **REPLAY, rate="1")
    address = started_it.headers["location"]
    for path in (address, "/dead", "/operations"):
        assert f'action="{address}/stop"' in (await lab.see(path)).html
    stopped = await lab.send(f"{address}/stop", reason="wrong bank")
    assert stopped.headers["location"] == address
    over = await until_over(admin, await admin.get_operation(address.rpartition("/")[2]))
    assert (over.state, over.stopped_by) == ("stopped", "console")
    page = await lab.see(address)
    assert "Stopped by console" in page.text
    assert f"{address}/stop" not in page.html
    assert (await lab.send(f"{address}/stop")).status_code == 409
    assert (await lab.see("/operations/op-unknown")).status == 404
    [entry] = (await admin.audit.list(verb="stop")).entries
    assert (entry.by, entry.reason) == ("console", "wrong bank")
    assert "wrong bank" in (await lab.see("/audit?verb=stop")).text


async def test_a_change_of_many_jobs_without_a_reason_changes_nothing(
    lab: ConsoleLab, raw: Probe, admin: AdminClient
) -> None:
    await die(raw, 1)
    await until_projected(admin)
    refused = await lab.send("/jobs/change", **{**REPLAY, "reason": " "})
    assert (refused.status_code, "a reason is needed" in refused.text) == (422, True)
    assert (await admin.list_operations()).count == 0


async def test_the_audit_says_who_did_what_and_leads_there(
    lab: ConsoleLab, raw: Probe, admin: AdminClient
) -> None:
    await die(raw, 2)
    await until_projected(admin)
    await admin.dismiss(numbered(0), reason="a known outage")
    done = await lab.send("/jobs/change", **REPLAY)

    async def recorded() -> bool:
        return "replay" in (await lab.see("/audit?target=operation")).html.partition("<tbody>")[2]

    await until(recorded, "the operation is in the audit")
    page = await lab.see("/audit?by=ann")
    assert "a known outage" in page.text
    assert f'href="{path_of(numbered(0))}"' in page.html
    assert "try again" not in page.text
    whole = await lab.see("/audit")
    assert f'href="{done.headers["location"]}"' in whole.html
    assert "No operator did this." in (await lab.see("/audit?by=bob")).text
    assert (await lab.see("/audit?since=yesterday")).status == 409


@pytest.mark.usefixtures("in_tokyo")
async def test_the_times_of_the_audit_are_in_utc_wherever_the_console_runs(
    lab: ConsoleLab, raw: Probe, admin: AdminClient
) -> None:
    await die(raw, 1)
    await until_projected(admin)
    await admin.dismiss(numbered(0), reason="a known outage")

    async def recorded() -> bool:
        return "a known outage" in (await lab.see("/audit")).text

    await until(recorded, "the change is in the audit")
    soon = (datetime.now(UTC) + timedelta(minutes=5)).strftime("%Y-%m-%dT%H:%M")
    page = await lab.see(f"/audit?until={soon}")
    assert "a known outage" in page.text
    assert "until (UTC)" in page.text


async def test_hostile_text_is_only_text(lab: ConsoleLab, raw: Probe, admin: AdminClient) -> None:
    await one_death(raw, numbered(0), HOSTILE)
    await until_projected(admin)
    await admin.replay(numbered(0), reason=HOSTILE)
    query = urlencode({"q": f"error:{orjson.dumps(HOSTILE).decode()}"})
    for path in ("/jobs", f"/jobs?{query}", "/dead", "/audit", "/live", f"/dead?{query}"):
        html = (await lab.see(path)).html
        assert "<img" not in html, path
        assert "<script>" not in html, path
        assert "style=" not in html, path


@asynccontextmanager
async def following(lab: ConsoleLab, query: str, after: int) -> AsyncIterator[AsyncIterator[str]]:
    """The lines of server-sent events after a position."""
    async with lab.http.stream(
        "GET", f"/live/events?{query}", headers={"last-event-id": str(after)}, timeout=20
    ) as reply:
        assert reply.status_code == 200
        yield reply.aiter_lines()


async def read_until(lines: AsyncIterator[str], sequence: int) -> list[int]:
    """The sequences of the rows, up to the message that has one of them: its newest come first."""
    rows: list[int] = []
    async for line in lines:
        rows += map(int, re.findall(r'<tr id="event-(\d+)"', line))
        if not line and sequence in rows:
            break
    return rows


async def test_the_live_tail_continues_without_gap_or_repeat_after_a_reconnect(
    lab: ConsoleLab, raw: Probe
) -> None:
    await die(raw, 2)
    page = await lab.see("/live")
    assert [*map(int, re.findall(r'<tr id="event-(\d+)"', page.html))] == [6, 5, 4, 3, 2, 1]
    assert 'data-after="6"' in page.html
    async with following(lab, "", 6) as lines:
        await die(raw, 1, first=2)
        assert sorted(await read_until(lines, 9)) == [7, 8, 9]
    await die(raw, 2, first=3)
    async with following(lab, "", 9) as lines:
        reading = asyncio.create_task(read_until(lines, 18))
        await die(raw, 1, first=5)
        assert sorted(await reading) == [*range(10, 19)]


async def test_the_live_tail_shows_a_queue_or_a_kind(lab: ConsoleLab, raw: Probe) -> None:
    await die(raw, 1)
    await die(raw, 1, first=1, queue="single")
    page = await lab.see("/live?service=lab&type=single&kind=dead")
    assert re.findall(r'<tr id="event-(\d+)"', page.html) == ["6"]
    async with following(lab, "service=lab&type=single&kind=dead", 6) as lines:
        await die(raw, 1, first=2)
        await die(raw, 1, first=3, queue="single")
        assert await read_until(lines, 12) == [12]
    assert (await lab.see("/live?kind=exploded")).status == 409
    assert (await lab.see("/live/events?after=x")).status == 409


async def test_a_live_tail_that_shows_little_does_not_search_the_same_events_again(
    lab: ConsoleLab, raw: Probe
) -> None:
    """Otherwise each change would make it read from where it found something last."""
    asked: list[int] = []

    def has_read_more_than(reads: int) -> bool:
        return len(asked) > reads

    await raw.connection.subscribe(
        "rpc.v1.Jobs.Tail", lambda message: asked.append(orjson.loads(message.data)["afterSeq"])
    )
    async with following(lab, "kind=expired", 0):
        await until(lambda: asked == [0], "the log is read from its beginning")
        for number, reads in enumerate((1, 2, 3)):
            await die(raw, 1, first=number)
            await until(partial(has_read_more_than, reads), "the log is read again")
        assert asked[-1] > 0


async def test_too_many_events_at_once_are_counted_not_shown(lab: ConsoleLab, raw: Probe) -> None:
    await die(raw, 100)
    async with following(lab, "", 10) as lines:
        text = ""
        async for line in lines:
            text += line
            if "more event" in text:
                break
    assert "240 more events" in text
    assert len(re.findall(r'<tr id="event-', text)) == 50


@pytest.fixture
async def viewer(lab: ConsoleLab, server: EmbeddedServer) -> AsyncIterator[httpx.AsyncClient]:
    """A console that has only the credentials to read."""
    access = as_connect_options(server.url)
    async with (
        open_connections({Role.VIEWER: access}) as connections,
        console_serving(ConsoleConfig(port=0), connections) as address,
        httpx.AsyncClient(base_url=address, trust_env=False, timeout=20) as http,
    ):
        yield http


async def test_a_viewer_sees_everything_and_no_button(
    viewer: httpx.AsyncClient, lab: ConsoleLab, raw: Probe, admin: AdminClient
) -> None:
    await die(raw, 30)
    await until_projected(admin)
    running = (await lab.send("/jobs/change", **REPLAY, rate="1")).headers
    for path in ("/jobs", "/dead", "/operations", running["location"], "/audit", "/live"):
        page = await viewer.get(path)
        assert page.status_code == 200
        assert 'method="post"' not in page.text, path
        assert 'name="verb" value' not in page.text, path
        assert "/jobs/change" not in page.text.replace('action="/jobs/change"', ""), path


async def test_a_forged_change_of_a_viewer_is_refused(
    viewer: httpx.AsyncClient, lab: ConsoleLab, raw: Probe, admin: AdminClient
) -> None:
    await die(raw, 1)
    await until_projected(admin)
    forged = {
        "/jobs/change": {"verb": "dismiss", "q": "state:dead", "reason": "x"},
        "/dead/one": {"service": "lab", "type": "work", "id": numbered(0).job_id},
        "/operations/op-1/stop": {},
    }
    for path, form in forged.items():
        refused = await viewer.post(path, data=form, headers=SAME_ORIGIN)
        assert refused.status_code == 403, path
        assert (await lab.http.post(path, data=form)).status_code == 403, "from another site"
    assert (await viewer.get("/jobs/change?verb=dismiss&q=state:dead")).status_code == 403
    assert (await admin.get(numbered(0))).state == "dead"
