"""A part of a job's log is what the whole log has at that place, however many notes there are."""

from __future__ import annotations

from tests.admin.admin_lab import AdminLab
from tests.console.job_histories import note_often, write, write_rubbish
from tests.given import SECOND, completed, created, progressed, started
from tests.support.lab import probe
from trellis_jobs.environment import utc_now
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.job_status import Head
from trellis_jobs.model.states import JobState
from trellis_jobs.model.values import replace

JOB = JobAddress("lab", "work", "chatty")
NOTES = 600


async def chatty_job(lab: AdminLab) -> int:
    """With a completion by another attempt among its notes. Returns the sequence of its start."""
    async with probe(lab.url) as raw:
        head = await write(raw, JOB, created(), started())
        note = progressed(job=JOB, at=utc_now())
        await note_often(raw, head, note, NOTES // 2)
        ended = replace(head, status=replace(head.status, state=JobState.COMPLETED))
        await note_often(raw, ended, completed(job=JOB, at=utc_now(), attempt=SECOND), 1)
        await write_rubbish(raw, JOB, EventKind.PROGRESS)
        await note_often(raw, head, note, NOTES // 2)
        latest = await raw.events.head(JOB)
        assert isinstance(latest, Head)
        appended = await raw.events.try_append(latest, completed(job=JOB, at=utc_now()))
        assert isinstance(appended, Head)
        return head.sequence


async def test_any_part_after_a_sequence_is_as_in_the_whole_log(lab: AdminLab) -> None:
    began = await chatty_job(lab)
    whole = [entry async for entry in lab.client.events(JOB)]
    assert len(whole) == NOTES + 5
    for after in (0, began, began + NOTES // 2, whole[-2].seq, whole[-1].seq):
        expected = [entry for entry in whole if entry.seq > after]
        page = await lab.client.list_events(JOB, after_seq=after, limit=50)
        assert list(page.entries) == expected[:50]
        assert page.count == len(expected)


async def test_without_notes_the_state_changes_remain_with_those_that_were_ignored(
    lab: AdminLab,
) -> None:
    began = await chatty_job(lab)
    whole = [entry async for entry in lab.client.events(JOB)]
    changes = [entry for entry in whole if not entry.subject.endswith(".progress")]
    page = await lab.client.list_events(JOB, notes=False)
    assert list(page.entries) == changes
    assert [entry.ignored is not None for entry in page.entries] == [False, False, True, False]
    later = await lab.client.list_events(JOB, notes=False, after_seq=began)
    assert (list(later.entries), later.count) == (changes[2:], 2)


async def test_a_job_with_many_notes_is_explained_like_any_other(lab: AdminLab) -> None:
    await chatty_job(lab)
    explained = await lab.client.explain(JOB)
    assert (explained.state, explained.tries) == (JobState.COMPLETED, 1)
    assert "completed on try 1 of 3" in explained.sentence
