"""A bundle is read as it was written, and a file that is damaged is refused with a reason."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from jobs_admin.api.errors import BundleInvalid
from jobs_admin.api.views.jobs import JobSecrets, LogEntry
from jobs_admin.bundle.bundle_file import FORMAT, read_bundle, write_bundle
from jobs_admin.bundle.job_bundle import JobBundle
from jobs_admin.bundle.recorded_try import TryOutcome, differences, recorded_try
from jobs_admin.bundle.reveal import reveal
from jobs_admin.explain.explain import explain
from jobs_admin.explain.explanation import Facts
from jobs_admin.explain.views import explanation_view
from tests import given
from tests.fuzz.mutations import Mutator
from tests.fuzz.quantity import INPUTS, SEED
from trellis_jobs.model import events as e
from trellis_jobs.model import subjects
from trellis_jobs.model.job import Job, reduce
from trellis_jobs.model.redaction import REDACTED
from trellis_jobs.model.states import JobState
from trellis_jobs.wire import events as wire

NOW = datetime(2026, 5, 1, tzinfo=UTC)
PAYLOAD: dict[str, Any] = {"doc": "d-1", "token": "abc-secret"}
FIRST = given.created(payload={**PAYLOAD, "token": REDACTED}, secrets=("/token",))


def stored(*events: e.Event) -> tuple[LogEntry, ...]:
    """The events as the log has them."""
    entries, job = [], None
    for entry in given.log(*events):
        before: Job | None = job
        job = reduce(job, entry).job
        assert job is not None
        data = wire.encode(entry.event, job.status, before.state if before else None)
        subject = subjects.lifecycle(entry.event.job, entry.event.kind)
        entries.append(
            LogEntry(
                seq=entry.sequence,
                subject=subject,
                stored_at=entry.event.at,
                event=orjson.loads(data),
            )
        )
    return tuple(entries)


def bundle(*events: e.Event, **changes: Any) -> JobBundle:
    fields: dict[str, Any] = {
        "address": given.REPORT,
        "exported_at": NOW,
        "exported_by": "ann",
        "revealed": False,
        "entries": stored(*(events or (FIRST, given.started(), given.dead()))),
    }
    made = JobBundle(**{**fields, **changes})
    explained = explanation_view(made.job, explain(made.job, Facts(now=NOW)))
    return JobBundle(**{**fields, "explanation": explained, **changes})


def file_of(made: JobBundle) -> dict[str, Any]:
    content: dict[str, Any] = orjson.loads(orjson.dumps(write_bundle(made)))
    return content


def refusal(content: object) -> str:
    data = content if isinstance(content, bytes) else orjson.dumps(content)
    with pytest.raises(BundleInvalid) as refused:
        read_bundle(data)
    return str(refused.value)


def test_a_bundle_is_read_as_it_was_written() -> None:
    made = bundle()
    read = read_bundle(orjson.dumps(write_bundle(made)))
    assert (read.address, read.exported_at, read.exported_by) == (given.REPORT, NOW, "ann")
    assert read.view() == made.view()
    assert read.events() == made.events()
    assert read.explanation is not None
    assert made.explanation is not None
    assert read.explanation.sentence == made.explanation.sentence
    assert file_of(read) == file_of(made)


def test_its_views_have_the_state_after_each_event_and_what_was_ignored() -> None:
    read = read_bundle(orjson.dumps(file_of(bundle(FIRST, given.started(), given.created()))))
    assert [entry.state for entry in read.events()] == [JobState.PENDING, JobState.ACTIVE, None]
    assert read.events()[-1].ignored is not None
    page = read.events_page(offset=1, limit=1)
    assert (page.count, [entry.seq for entry in page.entries]) == (3, [read.entries[1].seq])


def test_its_pages_begin_after_a_sequence_and_may_leave_notes_out() -> None:
    read = bundle(FIRST, given.started(), given.progressed(), given.dead())
    first, started, note, dead = (entry.seq for entry in read.entries)
    assert [entry.seq for entry in read.events_page(after_seq=started).entries] == [note, dead]
    changes = read.events_page(notes=False)
    assert (changes.count, [entry.seq for entry in changes.entries]) == (3, [first, started, dead])


def test_what_the_file_says_of_states_is_not_believed() -> None:
    content = file_of(bundle())
    for entry in content["entries"]:
        entry["state"] = "completed"
    read = read_bundle(orjson.dumps(content))
    assert [entry.state for entry in read.events()] == [
        JobState.PENDING,
        JobState.ACTIVE,
        JobState.DEAD,
    ]


def test_a_message_that_is_no_event_is_kept_with_the_reason() -> None:
    content = file_of(bundle())
    content["entries"][1]["event"] = {"eventType": "started"}
    read = read_bundle(orjson.dumps(content))
    assert read.events()[1].event is None
    assert read.events()[1].undecodable


def test_revealed_secrets_are_in_the_file_and_in_no_view() -> None:
    made = bundle()
    address = given.REPORT
    secrets = JobSecrets(
        id=address.job_id, service=address.service, type=address.job_type, payload=PAYLOAD
    )
    entries = reveal(made.entries, secrets)
    revealed = bundle(entries=entries, revealed=True)
    read = read_bundle(orjson.dumps(write_bundle(revealed)))
    assert read.job.payload == PAYLOAD
    assert read.secrets().payload == PAYLOAD
    assert "abc-secret" not in read.view().encode().decode()
    assert "abc-secret" not in "".join(each.encode().decode() for each in read.events())
    other = secrets.model_copy(update={"payload": {"doc": "another", "token": "t"}})
    assert reveal(made.entries, other) == made.entries, "it is not that of these events"


def test_hidden_secrets_are_not_in_the_file() -> None:
    with pytest.raises(BundleInvalid, match="export the job with"):
        read_bundle(orjson.dumps(write_bundle(bundle()))).secrets()


def test_files_that_are_not_bundles_are_refused_with_a_reason() -> None:
    assert "not JSON" in refusal(b"")
    assert "not JSON" in refusal(orjson.dumps(file_of(bundle()))[:-20])
    assert "not a JSON object" in refusal([])
    assert f"its format is not {FORMAT}" in refusal({})
    assert "nested too deep" in refusal(b'{"a":' + b"[" * 1000 + b"]" * 1000 + b"}")
    newer = {**file_of(bundle()), "format": "trellis-jobs.bundle@v2"}
    assert "this version reads trellis-jobs.bundle@v1" in refusal(newer)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"entries": []}, "/entries"),
        ({"entries": [{}]}, "/entries/0/seq"),
        ({"exportedAt": "soon"}, "/exportedAt"),
        ({"exportedAt": "2026-05-01T00:00:00"}, "/exportedAt"),
        ({"exportedAt": "0001-01-01T00:00:00+14:00"}, "/exportedAt"),
        ({"service": "a.b"}, "names no job"),
        ({"id": "another"}, "belongs to another job"),
        ({"explanation": {"because": "?"}}, "/explanation"),
        ({"contract": []}, "/contract"),
    ],
)
def test_a_damaged_field_is_named(changes: dict[str, Any], words: str) -> None:
    assert words in refusal({**file_of(bundle()), **changes})


def test_entries_must_be_those_of_one_job_in_order() -> None:
    content = file_of(bundle())
    turned = {**content, "entries": content["entries"][::-1]}
    assert "does not follow" in refusal(turned)
    assert "no entry" in refusal({**content, "entries": content["entries"][1:]})
    explained = {**content["explanation"], "id": "another"}
    assert "that of another job" in refusal({**content, "explanation": explained})


@pytest.mark.timeout(600)
def test_however_a_file_is_damaged_it_is_read_or_refused() -> None:
    seeds = [orjson.dumps(write_bundle(bundle()))]
    mutator = Mutator(SEED)
    for number in range(INPUTS):
        data = mutator.message(seeds)
        try:
            read = read_bundle(data)
            read.view(), read.events(), recorded_try(read.history, 1)
        except BundleInvalid:
            continue
        except Exception as error:
            error.add_note(f"seed {SEED}, input {number}: {data!r}")
            raise


def test_the_last_try_of_a_number_is_compared() -> None:
    made = bundle(FIRST, given.started(), given.logged(), given.dead())
    found = recorded_try(made.history, 1)
    assert found is not None
    assert (found.instance, found.outcome.event) == ("pod-7", "dead")
    assert found.outcome.error is not None
    assert recorded_try(made.history, 2) is None
    assert differences(found.outcome, found.outcome) == []
    completed = TryOutcome(event="completed", result=1)
    assert differences(found.outcome, completed) == [
        "the recorded try failed, and this one completed"
    ]
    assert differences(completed, TryOutcome(event="completed", result=2)) == [
        "the result is another one"
    ]
    other = TryOutcome(event="retry", error=(found.outcome.error[0], "other words"))
    assert len(differences(found.outcome, other)) == 1
