"""The screen of a job: everything that its log has, also from strangers, and what can be done."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from html.parser import HTMLParser
from pathlib import Path

import orjson
import pytest

from jobs_admin.api.client import AdminClient
from jobs_admin.api.errors import RequestFailed
from jobs_admin.bundle.bundle_file import read_bundle
from jobs_admin.console.job.job_log import MAX_CHANGES
from tests.console.job_histories import (
    HOSTILE,
    hostile_history,
    note_often,
    path_of,
    write,
    write_rubbish,
)
from tests.console.lab import ConsoleLab, console_lab
from tests.given import (
    FIRST,
    SECOND,
    after,
    completed,
    created,
    dead,
    error,
    failed,
    logged,
    progressed,
    retried,
    retry_scheduled,
    scheduled,
    snoozed,
    stale_completion_ignored,
    started,
)
from tests.support.example_service import Task
from tests.support.facts import until
from tests.support.lab import Probe, probe, until_state, worker
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.environment import utc_now
from trellis_jobs.model.concurrency import Concurrency
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.job import LOGS_KEPT
from trellis_jobs.model.job_status import Head
from trellis_jobs.model.states import JobState
from trellis_jobs.model.values import replace

JOB = JobAddress("lab", "work", "01M7EXAMPLE00000000000000A")
OTHER = JobAddress("lab", "work", "01M7EXAMPLE00000000000000B")
MAX_HTML = 100_000
NOTES = 3_000


@dataclass
class JobLab:
    console: ConsoleLab
    raw: Probe
    admin: AdminClient

    async def shown(self, job: JobAddress, state: JobState) -> None:
        """Wait until the projection has it; before that, requests may be refused."""

        async def there() -> bool:
            try:
                return (await self.admin.get(job)).state is state
            except RequestFailed:
                return False

        await until(there, f"{job.job_id} is shown as {state}")


@pytest.fixture
async def lab(server: EmbeddedServer, tmp_path: Path) -> AsyncIterator[JobLab]:
    async with (
        console_lab(server.url, tmp_path) as console,
        worker(server.url, "mute"),  # It makes the stream of alarms, and runs none of these jobs.
        probe(server.url) as raw,
        AdminClient.connect(server.url, by="test", timeout=20) as admin,
    ):
        yield JobLab(console, raw, admin)


async def test_a_job_shows_its_state_its_reason_its_runs_and_its_events(
    lab: JobLab, server: EmbeddedServer
) -> None:
    async with worker(server.url, "work") as made:
        ref = await made.jobs.work.create(Task(do="fail once", text="the bank is closed"))
        await until_state(ref, JobState.COMPLETED)
    await lab.shown(ref.address, JobState.COMPLETED)
    page = await lab.console.see(path_of(ref.address))
    assert page.status == 200
    assert "It completed on try 2 of 3" in page.text
    assert "RuntimeError: the bank is closed" in page.text
    for words in ("waited for a worker", "ran ", "waited for the retry", "run 1, attempt 2"):
        assert words in page.text, words
    assert page.html.count("<rect") >= 4
    for kind in ("created", "started", "retry", "completed"):
        assert f"<td>{kind}</td>" in page.html
    assert f"trellis-jobs jobs get lab/work/{ref.id}" in page.html
    assert f'data-topics="job:lab/work/{ref.id}"' in page.html


def attributes(html: str) -> set[str]:
    found: set[str] = set()

    class Attributes(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            found.update(name for name, _ in attrs)

    Attributes().feed(html)
    return found


async def test_markup_in_any_field_is_shown_as_text(lab: JobLab) -> None:
    await write(lab.raw, JOB, *hostile_history())
    await write_rubbish(lab.raw, JOB, EventKind.PROGRESS, HOSTILE.encode())
    await lab.shown(JOB, JobState.COMPLETED)
    for path in (path_of(JOB), f"{path_of(JOB)}?notes=1", f"/diff?a={JOB.job_id}&b={JOB.job_id}"):
        page = await lab.console.see(path)
        assert page.status == 200
        assert HOSTILE[:60] in page.text
        assert "<script>alert" not in page.html
        assert "<img" not in page.html
        assert not [name for name in attributes(page.html) if name.startswith("on")]
        assert "{{ 7777 * 7777 }}" in page.text
        assert "60481729" not in page.text


async def test_the_page_shows_the_job_as_of_any_event(lab: JobLab) -> None:
    await write(lab.raw, JOB, created(), started(), progressed(), completed())
    await lab.shown(JOB, JobState.COMPLETED)
    entries = (await lab.admin.list_events(JOB)).entries
    progress = await lab.console.see(f"{path_of(JOB)}?seq={entries[2].seq}")
    assert f"This is the job as of event {entries[2].seq}" in progress.text
    assert "state-active" in progress.html.split("</h1>")[0]
    assert "2/9 draw page 2" in progress.text
    assert "There is no result yet" in progress.text
    assert 'class="mark"' in progress.html
    assert f'?seq={entries[1].seq}">◀ previous' in progress.html
    assert f'?seq={entries[3].seq}">next ▶' in progress.html
    begin = await lab.console.see(f"{path_of(JOB)}?seq={entries[0].seq}")
    assert "No worker has started it by then" in begin.text
    assert f'<tr id="event-{entries[0].seq}" data-row class=" shown" aria-current="true">' in (
        begin.html
    )
    now = await lab.console.see(f"{path_of(JOB)}?seq={entries[3].seq}")
    assert "This is the job as of" not in now.text


async def test_the_slider_works_without_scripts(lab: JobLab) -> None:
    await write(lab.raw, JOB, created(), started(), completed())
    await lab.shown(JOB, JobState.COMPLETED)
    entries = (await lab.admin.list_events(JOB)).entries
    reply = await lab.console.http.get(f"{path_of(JOB)}?at=2")
    assert (reply.status_code, reply.headers["location"]) == (
        303,
        f"{path_of(JOB)}?seq={entries[1].seq}",
    )


@pytest.mark.parametrize(
    ("history", "action", "state"),
    [
        ((created(),), "cancel", JobState.CANCELLED),
        ((created(), started(), failed()), "retry", JobState.PENDING),
        ((created(), started(), dead()), "replay", JobState.PENDING),
        ((created(), started(), dead()), "dismiss", JobState.DISMISSED),
        ((scheduled(run_at=utc_now() + timedelta(days=1)),), "run-now", JobState.PENDING),
    ],
)
async def test_an_action_is_offered_in_its_states_and_records_who_and_why(
    lab: JobLab, history: tuple[object, ...], action: str, state: JobState
) -> None:
    await write(lab.raw, JOB, *history)  # type: ignore[arg-type]
    page = await lab.console.see(path_of(JOB))
    assert f'<dialog id="do-{action}"' in page.html
    reply = await lab.console.send(path_of(JOB), action=action, reason="the bank is back")
    assert (reply.status_code, reply.headers["location"]) == (303, path_of(JOB))
    await lab.shown(JOB, state)
    events = [entry.event for entry in (await lab.admin.list_events(JOB)).entries]
    (recorded,) = [event for event in events if event and event.get("by")]
    assert recorded["by"] == "console"
    assert "the bank is back" in recorded.values()
    again = await lab.console.see(path_of(JOB))
    assert f'<dialog id="do-{action}"' not in again.html
    assert "the bank is back" in again.text


async def test_a_job_is_moved_by_a_delay_or_to_a_time(lab: JobLab) -> None:
    await write(lab.raw, JOB, scheduled(run_at=utc_now() + timedelta(days=1)))
    await lab.shown(JOB, JobState.SCHEDULED)
    soon = utc_now() + timedelta(minutes=5)
    reply = await lab.console.send(path_of(JOB), action="reschedule", delay="in 5m", reason="soon")
    assert reply.status_code == 303
    moved = (await lab.admin.get(JOB)).next_attempt_at
    assert moved is not None
    assert soon <= moved < soon + timedelta(minutes=1)
    await lab.console.send(path_of(JOB), action="reschedule", time="2099-01-02T03:04", reason="x")
    at = (await lab.admin.get(JOB)).next_attempt_at
    assert at is not None
    assert at.isoformat() == "2099-01-02T03:04:00+00:00"
    wrong = await lab.console.send(path_of(JOB), action="reschedule", delay="soon", reason="x")
    assert wrong.status_code == 409
    assert "neither a duration" in wrong.text


async def test_an_action_that_came_too_late_says_what_happened(lab: JobLab) -> None:
    await write(lab.raw, JOB, created(), started(), completed())
    await lab.shown(JOB, JobState.COMPLETED)
    reply = await lab.console.send(path_of(JOB), action="cancel", reason="not needed")
    assert reply.status_code == 409
    assert "completed at" in reply.text
    without = await lab.console.send(path_of(JOB), action="retry", reason=" ")
    assert (without.status_code, "a reason is needed" in without.text) == (422, True)
    unknown = await lab.console.send(path_of(JOB), action="explode", reason="x")
    assert unknown.status_code == 409


async def test_secrets_are_hidden_counted_and_shown_once_for_a_reason(lab: JobLab) -> None:
    card = "4000-0000-1234"
    secret = created(payload={"card": card, "pin": "98765", "x": 1}, secrets=("/card", "/pin"))
    await write(lab.raw, JOB, secret)
    await lab.shown(JOB, JobState.PENDING)
    page = await lab.console.see(path_of(JOB))
    assert card not in page.html
    assert "2 secrets hidden" in page.text
    refused = await lab.console.send(path_of(JOB), action="reveal", reason=" ")
    assert refused.status_code == 409
    revealed = await lab.console.send(path_of(JOB), action="reveal", reason="a refund")
    assert revealed.status_code == 200
    assert card in revealed.text
    assert revealed.headers["cache-control"] == "no-store"
    assert card not in (await lab.console.see(path_of(JOB))).html
    raw = await lab.console.http.get(f"{path_of(JOB)}/raw/payload")
    assert card not in raw.text


async def test_a_large_payload_is_cut_and_can_be_downloaded(lab: JobLab) -> None:
    payload = {"text": "x" * 800_000}
    await write(lab.raw, JOB, created(payload=payload), started(), completed(result=payload))
    await lab.shown(JOB, JobState.COMPLETED)
    page = await lab.console.see(path_of(JOB))
    assert len(page.html) < MAX_HTML
    assert "of 800,016 characters" in page.text
    raw = await lab.console.http.get(f"{path_of(JOB)}/raw/payload")
    assert raw.headers["content-type"].startswith("text/plain")
    assert raw.headers["content-disposition"].startswith("attachment")
    assert orjson.loads(raw.text) == payload


async def test_a_job_with_thousands_of_notes_shows_its_changes_and_pages_of_notes(
    lab: JobLab,
) -> None:
    began = await write(lab.raw, JOB, created(), started())
    note = progressed(job=JOB, at=utc_now())
    await note_often(lab.raw, began, note, NOTES)
    latest = await lab.raw.events.head(JOB)
    assert isinstance(latest, Head)
    await lab.raw.events.try_append(latest, completed(job=JOB, at=utc_now()))
    await lab.shown(JOB, JobState.COMPLETED)
    page = await lab.console.see(path_of(JOB))
    assert len(page.html) < MAX_HTML
    assert f"{NOTES + 3:,} events, {NOTES:,} notes" in page.text
    assert page.html.count("<td>progress</td>") == 0
    assert "<td>completed</td>" in page.html
    notes = await lab.console.see(f"{path_of(JOB)}?notes=1&after={began.sequence}")
    assert len(notes.html) < MAX_HTML
    assert notes.html.count("<td>progress</td>") == 100
    assert "Next events" in notes.text
    middle = await lab.console.see(f"{path_of(JOB)}?seq={began.sequence + 500}")
    assert "2/9 draw page 2" in middle.text
    assert "state-active" in middle.html.split("</h1>")[0]


async def test_a_job_with_thousands_of_state_changes_has_its_newest_state_and_says_what_is_missing(
    lab: JobLab,
) -> None:
    """It polls by snoozing. Its page has the oldest changes only."""
    polls = [event for _ in range(MAX_CHANGES // 2) for event in (started(), snoozed())]
    await write(lab.raw, JOB, created(), *polls, started(), completed())
    await lab.shown(JOB, JobState.COMPLETED)
    page = await lab.console.see(path_of(JOB))
    assert len(page.html) < MAX_HTML
    assert f"This job has {MAX_CHANGES + 3:,} changes of state." in page.text
    assert f"the oldest {MAX_CHANGES:,} changes" in page.text
    assert "state-completed" in page.html.split("</h1>")[0]
    assert 'id="open-' not in page.html, "a completed job cannot be changed"
    assert "0 notes" not in page.text


async def test_a_job_that_has_written_more_lines_than_are_kept_says_how_many(lab: JobLab) -> None:
    began = await write(lab.raw, JOB, created(), started())
    page = await lab.console.see(path_of(JOB))
    assert "All log lines" in page.text
    await note_often(lab.raw, began, logged(job=JOB, at=utc_now()), LOGS_KEPT + 1)

    async def kept() -> bool:
        return len((await lab.admin.get(JOB)).logs) == LOGS_KEPT

    await until(kept, "the projection has the lines")
    page = await lab.console.see(path_of(JOB))
    assert "The newest 1,000 log lines" in page.text


async def test_ignored_and_undecodable_messages_are_shown_with_the_reason(lab: JobLab) -> None:
    head = await write(lab.raw, JOB, created(), started())
    zombie = completed(job=JOB, at=utc_now(), attempt=SECOND)
    ended = replace(head, status=replace(head.status, state=JobState.COMPLETED))
    await note_often(lab.raw, ended, zombie, 1)
    await write_rubbish(lab.raw, JOB, EventKind.COMPLETED)
    latest = await lab.raw.events.head(JOB)
    assert isinstance(latest, Head)
    await lab.raw.events.try_append(latest, stale_completion_ignored(job=JOB, at=utc_now()))
    await lab.shown(JOB, JobState.ACTIVE)
    page = await lab.console.see(path_of(JOB))
    assert "ignored: completed comes from an attempt that does not own the job" in page.text
    assert page.text.count("⊘ ignored") == 2
    assert "state-active" in page.html.split("</h1>")[0]


async def test_a_job_of_rubbish_alone_still_has_a_page(lab: JobLab) -> None:
    await write_rubbish(lab.raw, JOB, EventKind.CREATED)
    await note_often(
        lab.raw, await write(lab.raw, OTHER, created()), started(job=JOB, at=utc_now()), 1
    )
    page = await lab.console.see(path_of(JOB))
    assert page.status == 200
    assert "No message in the log of this job is an event that counts" in page.text
    assert page.text.count("⊘ ignored") == 2


async def test_waiting_delayed_snoozed_and_keyed_jobs_name_what_they_wait_for(lab: JobLab) -> None:
    held = Concurrency(key="acme", key_hash="f13b")
    waited = replace(started(concurrency=held), waited_for_key=timedelta(milliseconds=1))
    later = {"next_attempt_at": utc_now() + timedelta(hours=1)}
    lost = error(type="worker_death", message="the worker is gone")
    histories = {
        "is delayed": (scheduled(run_at=utc_now() + timedelta(hours=1)),),
        "is snoozed": (created(), started(), snoozed(at=after(2), **later)),
        "waited for its key": (created(concurrency=held), waited),
        "waits for a worker or its key": (created(concurrency=held),),
        "interrupted: the worker died": (created(), started(), retry_scheduled(error=lost)),
    }
    for number, (words, history) in enumerate(histories.items()):
        job = JobAddress("lab", "work", f"job-{number}")
        await write(lab.raw, job, *history)
        page = await lab.console.see(path_of(job))
        assert page.status == 200
        assert words in page.text, words


async def test_a_job_of_another_runtime_has_attempts_without_workers(lab: JobLab) -> None:
    foreign = started(attempt=None)
    await write(lab.raw, JOB, created(), foreign, replace(foreign, tries=2))
    page = await lab.console.see(path_of(JOB))
    assert "given up: it was started again" in page.text
    assert "worker unknown" in page.text


async def test_jobs_of_the_same_request_and_key_are_related(lab: JobLab) -> None:
    held = Concurrency(key="acme", key_hash="f13b")
    for job in (JOB, OTHER):
        await write(lab.raw, job, created(concurrency=held))
        await lab.shown(job, JobState.PENDING)
    page = await lab.console.see(path_of(JOB))
    assert "same key acme (2)" in page.text
    assert "same request (2)" in page.text
    assert "same trace (2)" in page.text
    assert f"b=lab/work/{OTHER.job_id}" in page.html


async def test_what_does_not_exist_is_not_found(lab: JobLab) -> None:
    for path in ("/jobs/lab/work/none", "/jobs/lab/work/a%20b", "/jobs/lab/work/none/raw/payload"):
        assert (await lab.console.see(path)).status == 404
    await write(lab.raw, JOB, created())
    assert (await lab.console.see(f"{path_of(JOB)}/raw/nothing")).status == 404
    assert (await lab.console.see(f"{path_of(JOB)}/raw/event?seq=999")).status == 404


async def test_log_lines_errors_and_events_can_be_downloaded(lab: JobLab) -> None:
    why = error(traceback="Traceback: line 7")
    await write(lab.raw, JOB, created(), started(), progressed(), dead(error=why))
    await lab.shown(JOB, JobState.DEAD)
    sequence = (await lab.admin.list_events(JOB)).entries[1].seq
    event = await lab.console.http.get(f"{path_of(JOB)}/raw/event?seq={sequence}")
    assert orjson.loads(event.text)["event"]["eventType"] == "started"
    assert "Traceback: line 7" in (await lab.console.http.get(f"{path_of(JOB)}/raw/errors")).text
    assert (await lab.console.http.get(f"{path_of(JOB)}/raw/log")).status_code == 200


async def test_two_runs_of_a_job_are_compared(lab: JobLab) -> None:
    newer = replace(FIRST, instance="pod-9")
    await write(
        lab.raw,
        JOB,
        created(payload={"customer": "c-9", "cents": 5}),
        started(app_version="1.4.2"),
        dead(),
        retried(payload={"customer": "c-9", "cents": 7}),
        started(app_version="1.4.3", attempt=newer),
        completed(attempt=newer),
    )
    await lab.shown(JOB, JobState.COMPLETED)
    page = await lab.console.see(path_of(JOB))
    assert "compare with run 1" in page.text
    diff = await lab.console.see(f"/diff?a=lab/work/{JOB.job_id}@1&b={JOB.job_id}")
    assert diff.status == 200
    for words in ("1.4.2", "1.4.3", "cents", "pod-7", "pod-9", "1× HTTPError: 503 from upstream"):
        assert words in diff.text, words
    assert diff.html.count("<svg") == 2
    assert (await lab.console.see(f"/diff?a={JOB.job_id}@9&b={JOB.job_id}")).status == 404
    assert (await lab.console.see(f"/diff?a={JOB.job_id}@x&b={JOB.job_id}")).status == 409
    assert "Nothing to compare yet" in (await lab.console.see("/diff")).text


async def test_secrets_are_not_compared_and_the_page_says_so(lab: JobLab) -> None:
    secret = created(payload={"card": "4000-0000-1234"}, secrets=("/card",))
    await write(lab.raw, JOB, secret, started(), completed())
    other = created(job=OTHER, payload={"card": "4000-0000-9999"}, secrets=("/card",))
    await write(lab.raw, OTHER, other)
    await lab.shown(JOB, JobState.COMPLETED)
    await lab.shown(OTHER, JobState.PENDING)
    diff = await lab.console.see(f"/diff?a={JOB.job_id}&b={OTHER.job_id}")
    assert "Payload The same. Secrets are not compared. Result" in diff.text


async def test_an_exported_job_is_a_bundle_without_secrets(lab: JobLab) -> None:
    secret = created(payload={"card": "4000-0000-1234"}, secrets=("/card",))
    await write(lab.raw, JOB, secret, started(), completed())
    await lab.shown(JOB, JobState.COMPLETED)
    reply = await lab.console.http.get(f"{path_of(JOB)}/bundle")
    assert "4000" not in reply.text
    assert reply.headers["content-disposition"] == f'attachment; filename="{JOB.job_id}.bundle"'
    bundle = read_bundle(reply.content)
    assert (bundle.address, bundle.exported_by, len(bundle.entries)) == (JOB, "console", 3)
    assert bundle.job.state is JobState.COMPLETED


async def test_an_event_as_large_as_a_message_does_not_hide_the_job(lab: JobLab) -> None:
    """A reply has less room than the log, so that the payload of such an event is left out."""
    largest = {"text": "x" * (1_048_576 - 700)}
    await write(lab.raw, JOB, created(payload=largest), started(), completed())
    await lab.shown(JOB, JobState.COMPLETED)
    page = await lab.console.see(path_of(JOB))
    assert page.status == 200
    assert "state-completed" in page.html.split("</h1>")[0]
    assert "run 1, attempt 1" in page.text
    assert "too large" in page.text
