"""What our writers write, our readers read, whatever users put into it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from hypothesis import given as forall
from hypothesis import settings
from hypothesis import strategies as st

from tests.fuzz.quantity import INPUTS
from tests.given import (
    KEY,
    LEADING_TO,
    OF_KIND,
    REPORT,
    error,
    key_state,
    notes,
    slot,
    waiting,
)
from trellis_jobs.model import events as e
from trellis_jobs.model.context import JobContext
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.job import Entry
from trellis_jobs.model.job_status import JobStatus
from trellis_jobs.model.notes import Progress
from trellis_jobs.model.presence import WorkerHeartbeat
from trellis_jobs.model.reducer import advance
from trellis_jobs.model.subjects import PresenceSubject
from trellis_jobs.model.values import replace
from trellis_jobs.wire import events, keys, presence

TRIED = settings(max_examples=INPUTS // 4, derandomize=True, database=None)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
TOKEN = st.text("abcXYZ019_-", min_size=1, max_size=20)
NUMBER = st.integers(-(2**63) + 1, 2**63 - 1)
MOMENT = st.datetimes(timezones=st.just(UTC))
JSON = st.recursive(
    st.none() | st.booleans() | NUMBER | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
CONTEXTS = st.builds(
    JobContext,
    TEXT,
    st.from_regex(r"00-[1-9a-f]{32}-[1-9a-f]{16}-0[01]", fullmatch=True),
    st.none() | TEXT.filter(bool),
)


def said(draw: st.DrawFn, event: e.Event) -> dict[str, Any]:
    """What the writer of this kind of event is free to say."""
    match event:
        case e.Described():
            secrets = tuple(draw(st.lists(TEXT, max_size=3)))
            return {"payload": draw(JSON), "secrets": secrets, "deadline": draw(MOMENT)}
        case e.Completed():
            return {"result": draw(JSON)}
        case e.RetryScheduled() | e.Failed() | e.Dead() | e.Stale():
            told = error(type=draw(TEXT), message=draw(TEXT), traceback=draw(st.none() | TEXT))
            progress = Progress(step=draw(TEXT), current=draw(NUMBER))
            return {"error": told, "notes": notes(draw(TEXT), progress=progress)}
        case e.Decided():
            return {"by": draw(TEXT), "reason": draw(TEXT), "request": draw(TEXT)}
        case _:
            return {}


@st.composite
def written(draw: st.DrawFn) -> tuple[e.Event, JobStatus]:
    """An event and where it leaves its job, after the shortest way to where it is legal."""
    event = OF_KIND[draw(st.sampled_from(EventKind))]
    told = replace(event, context=draw(CONTEXTS), at=draw(MOMENT), **said(draw, event))
    for history in ((), *LEADING_TO.values()):
        stands: JobStatus | None = None
        for past in history:
            moved = advance(stands, past)
            stands = moved.recorded_at(17) if isinstance(moved, JobStatus) else stands
        moved = advance(stands, told)
        if isinstance(moved, JobStatus):
            return replace(told, tries=moved.tries), moved
    raise AssertionError(f"{told} is legal nowhere")


@TRIED
@forall(written())
def test_every_event_is_read_as_it_was_written(written: tuple[e.Event, JobStatus]) -> None:
    event, status = written
    data = events.encode(event, status, None)
    entry = events.decode(data, expected=REPORT, sequence=7)
    assert isinstance(entry, Entry)
    assert entry.event == event
    assert entry.status == (status.recorded_at(7) if not status.run else status)


@TRIED
@forall(TOKEN, TEXT, MOMENT, st.lists(TOKEN, max_size=4, unique=True), CONTEXTS)
def test_every_key_state_is_read_as_it_was_written(
    job_id: str, display: str, at: datetime, queued: list[str], context: JobContext
) -> None:
    state = key_state(
        display=display,
        active=(slot(job_id, started_at=at, context=context),),
        queued=tuple(waiting(each, created_at=at, context=context) for each in queued),
        updated_at=at,
        unknown={"theirs": display},
    )
    assert keys.decode(keys.encode(state), expected=KEY) == state


@TRIED
@forall(TOKEN, MOMENT, st.none() | NUMBER, st.none() | TEXT, st.booleans())
def test_every_heartbeat_is_read_as_it_was_written(
    token: str, at: datetime, concurrency: int | None, version: str | None, stopping: bool
) -> None:
    beat = WorkerHeartbeat(
        service=token,
        job_type=token,
        instance=token,
        at=at,
        concurrency=concurrency,
        version=version,
        stopping=stopping,
    )
    assert presence.decode(presence.encode(beat), expected=PresenceSubject(*[token] * 3)) == beat
