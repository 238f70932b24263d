"""What the screens with lists decide, without a server."""

from __future__ import annotations

import asyncio
import csv
import io
import shlex
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs_admin.api.errors import Invalid
from jobs_admin.api.filter_text import parse_filter
from jobs_admin.api.job_filter import JobFilter
from jobs_admin.api.views.audit import AuditEntry, AuditSource
from jobs_admin.api.views.jobs import JobCursor, JobView
from jobs_admin.api.views.operations import OperationVerb, OperationView
from jobs_admin.api.views.suggestions import SuggestedField, SuggestionView
from jobs_admin.console.charts.hour_bars import HEIGHT, bar_heights, hour_bars, hours_label
from jobs_admin.console.completions import FieldWord, KnownWord, ValueWord, last_word
from jobs_admin.console.job_export import COLUMNS, csv_lines, json_lines
from jobs_admin.console.job_query import (
    ListPlace,
    bare_id,
    read_cursor,
    read_filter_text,
    with_state,
    write_cursor,
)
from jobs_admin.console.operation_progress import progress_of
from jobs_admin.console.pages.audit import target_href
from jobs_admin.console.pages.dead import group_command
from jobs_admin.console.pages.job_changes import read_change, read_rate, read_time
from jobs_admin.console.verbs import VERBS, applicable
from jobs_admin.operations.verbs import CHANGES
from trellis_jobs.model.states import JobState

NOW = datetime(2026, 11, 18, 12, tzinfo=UTC)


def test_the_words_on_buttons_agree_with_what_the_admin_runtime_does() -> None:
    assert set(VERBS) == set(CHANGES)
    for name, verb in VERBS.items():
        assert verb.legal_from == CHANGES[name].legal_from
        assert verb.done == CHANGES[name].participle


@pytest.mark.parametrize(
    ("states", "verbs"),
    [
        (None, list(OperationVerb)),
        ([JobState.DEAD], ["retry", "replay", "dismiss"]),
        ([JobState.DEAD, JobState.FAILED], ["retry"]),
        ([JobState.SCHEDULED], ["cancel", "reschedule", "run-now"]),
        ([JobState.COMPLETED], []),
    ],
)
def test_only_buttons_that_can_work_are_shown(
    states: list[JobState] | None, verbs: list[str]
) -> None:
    assert {verb.name for verb in applicable(states)} == set(verbs)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("01M7QRP63MFK919JNAC20XV2T5", "01M7QRP63MFK919JNAC20XV2T5"),
        (" order-17 ", "order-17"),
        ("state:dead", None),
        ("two words", None),
        ("", None),
        ("shop/charge", None),
    ],
)
def test_a_bare_word_may_be_an_id(text: str, found: str | None) -> None:
    assert bare_id(text) == found


def test_the_command_lists_the_same_jobs() -> None:
    written = read_filter_text('  error:"it\'s  gone" state:dead ', NOW)
    *_, text = shlex.split(written.command)
    assert parse_filter(text, NOW) == written.filter
    assert written.filter == JobFilter(error="it's  gone", state=[JobState.DEAD])
    assert read_filter_text("", NOW).command == "trellis-jobs jobs list"


def test_a_wrong_filter_says_what_is_allowed() -> None:
    written = read_filter_text("stat:dead", NOW)
    assert written.filter is None
    assert "the fields are state, service" in (written.error or "")


def test_a_tab_changes_only_the_state() -> None:
    text = 'type:shop/charge state:dead error:"a state:b"'
    assert with_state(text, JobState.RETRY) == 'state:retry type:shop/charge error:"a state:b"'
    assert with_state(text, None) == 'type:shop/charge error:"a state:b"'
    assert with_state("state:dead", None) == ""


def _cursor(number: int) -> JobCursor:
    return JobCursor(created_at=NOW + timedelta(microseconds=number), first_seq=number)


def _place(address: str) -> ListPlace:
    query = parse_qs(urlsplit(address).query)
    return ListPlace("/jobs", query.get("q", [""])[0], tuple(query.get("before", [])))


def test_the_way_back_from_an_older_page_leads_through_the_same_pages() -> None:
    place = ListPlace("/jobs", 'error:"a b"')
    assert (place.newer, place.cursor) == (None, None)
    addresses = [place.newest]
    for number in range(1, 4):
        older = place.older(_cursor(number))
        assert older is not None
        place = _place(older)
        assert (place.text, place.cursor) == ('error:"a b"', _cursor(number))
        addresses.append(older)
    assert place.older(None) is None
    for address in reversed(addresses[:-1]):
        assert place.newer == address
        place = _place(address)


@given(st.integers(0, 10**16), st.integers(0, 10**17))
def test_a_cursor_survives_being_in_an_address(micros: int, seq: int) -> None:
    at = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=micros)
    cursor = JobCursor(created_at=at, first_seq=seq)
    assert read_cursor(write_cursor(cursor)) == cursor


@given(st.text())
def test_any_text_is_a_cursor_or_the_first_page(text: str) -> None:
    read_cursor(text)
    ListPlace("/jobs", "", (text,)).older(_cursor(1))


def test_a_change_is_of_the_selected_jobs_or_of_all_that_match() -> None:
    one = read_change("cancel", "state:dead", ["shop/charge/A", "shop/greet/B"], NOW)
    assert one.filter == JobFilter(jobs=["shop/charge/A", "shop/greet/B"])
    every = read_change("retry", "state:dead since:1h", [], NOW)
    assert every.filter.since == NOW - timedelta(hours=1)
    for verb, text, jobs in (("burn", "", []), ("retry", "x:y", []), ("retry", "", ["../.."])):
        with pytest.raises(Invalid):
            read_change(verb, text, jobs, NOW)


@pytest.mark.usefixtures("in_tokyo")
def test_a_time_to_which_jobs_are_moved_is_in_utc_wherever_the_console_runs() -> None:
    assert read_time("14:30", NOW) == NOW.replace(hour=14, minute=30)
    assert read_time("2026-12-01T06:00", NOW) == datetime(2026, 12, 1, 6, tzinfo=UTC)


def test_the_command_beside_dead_letters_lists_the_same_groups() -> None:
    command = group_command('type:shop/charge state:dead error:"503 from"')
    *words, text = shlex.split(command)
    assert words == ["trellis-jobs", "dlq", "list", "--group"]
    assert parse_filter(text, NOW) == parse_filter('type:shop/charge error:"503 from"', NOW)
    assert group_command("state:dead") == "trellis-jobs dlq list --group"


def test_rates_and_times_are_read_as_people_write_them() -> None:
    assert (read_rate(""), read_rate(" 50 "), read_rate("0.5")) == (None, 50.0, 0.5)
    assert read_time("2h", NOW) == NOW + timedelta(hours=2)
    for text in ("0", "-1", "inf", "nan", "1e5", "many"):
        with pytest.raises(Invalid):
            read_rate(text)
    with pytest.raises(Invalid):
        read_time("soon", NOW)


def _operation(**changes: Any) -> OperationView:
    fields = {
        "id": "op-1",
        "verb": OperationVerb.REPLAY,
        "state": "running",
        "filter": {"service": "shop", "type": "charge", "state": ["dead"]},
        "by": "ann",
        "total": 100,
        "done": 40,
        "refused": {"another change came first": 10},
        "created_at": NOW - timedelta(seconds=10),
        "updated_at": NOW,
    }
    return OperationView.model_validate(fields | changes)


def test_the_progress_of_an_operation_says_when_it_will_be_done() -> None:
    progress = progress_of(_operation(), NOW)
    assert (progress.settled, progress.refused, progress.percent) == (50, 10, 50)
    assert (progress.rate, progress.left) == (5.0, timedelta(seconds=10))
    assert progress.text == "state:dead type:shop/charge"
    over = _operation(state="stopped", ended_at=NOW - timedelta(seconds=5))
    assert (progress_of(over, NOW).rate, progress_of(over, NOW).left) == (10.0, None)
    assert progress_of(_operation(total=0, done=0, refused={}), NOW).percent == 100


@pytest.mark.parametrize(
    ("fields", "href"),
    [
        ({"target": "job", "service": "s", "type": "t", "id": "J"}, "/jobs/s/t/J"),
        ({"target": "queue", "service": "s", "type": "t"}, "/queues/s/t"),
        ({"target": "key", "service": "s", "type": "t", "id": "a/b?"}, "/keys/s/t/a%2Fb%3F"),
        ({"target": "schedule", "service": "s", "type": "t", "id": "n"}, "/schedules/s/t/n"),
        ({"target": "worker", "service": "s"}, "/workers"),
        ({"target": "operation", "id": "op-1"}, "/operations/op-1"),
        ({"target": "job"}, None),
        ({"target": "something new", "service": "s", "type": "t", "id": "x"}, None),
    ],
)
def test_an_entry_of_the_audit_leads_to_what_was_changed(
    fields: dict[str, str], href: str | None
) -> None:
    known = {"verb": "cancel", "at": NOW, "source": AuditSource.EVENT}
    entry = AuditEntry.model_validate(known | fields)
    assert target_href(entry) == href


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", FieldWord("")),
        ("state:dead ty", FieldWord("ty")),
        ("state:d", ValueWord(SuggestedField.STATE, "d")),
        ("state:dead,f", ValueWord(SuggestedField.STATE, "f", "dead,")),
        ('error:"503 fr', ValueWord(SuggestedField.ERROR, "503 fr")),
        (
            "type:shop/charge payload.cus",
            ValueWord(
                SuggestedField.PAYLOAD, "cus", within=JobFilter(service="shop", type="charge")
            ),
        ),
        ("since:1", KnownWord(("since:10m", "since:1h", "since:1d"))),
        ("request:x", KnownWord(())),
        ("payload.customer:x", KnownWord(())),
    ],
)
def test_the_last_word_is_completed(text: str, expected: object) -> None:
    assert last_word(text, NOW) == expected


def test_completions_are_whole_words_of_a_filter() -> None:
    assert FieldWord("s").completions() == ["state:", "service:", "since:", "schedule:"]
    found = [SuggestionView(value="no route")]
    word = last_word("error:no", NOW)
    assert isinstance(word, ValueWord)
    assert word.completions(found) == ['error:"no route"']
    paths = last_word("payload.", NOW)
    assert isinstance(paths, ValueWord)
    assert paths.completions([SuggestionView(value="customer.id")]) == ["payload.customer.id:"]


@given(st.text())
def test_any_text_has_a_last_word(text: str) -> None:
    last_word(text, NOW)


def test_bars_show_the_hours_that_something_happened_in() -> None:
    assert bar_heights([0, 1, 100, 50]) == [0.0, 2.0, HEIGHT, HEIGHT / 2]
    assert bar_heights([0, 0]) == [0.0, 0.0]
    counts = [0, 3, 1]
    drawn = str(hour_bars(counts, hours_label(counts)))
    assert drawn.count("<rect") == 2
    assert "4 in the last 3 hours, 1 in the current hour" in drawn
    assert "style=" not in drawn


def _job(**changes: Any) -> JobView:
    fields = {
        "id": "A",
        "service": "shop",
        "type": "charge",
        "state": "dead",
        "context": {"request_id": "r", "trace_id": "0" * 32, "traceparent": "x"},
        "created_at": NOW,
        "updated_at": NOW,
        "began_at": NOW,
        "tries": 3,
        "max_tries": 3,
        "run_seq": 1,
    }
    return JobView.model_validate(fields | changes)


async def _each(*jobs: JobView) -> AsyncIterator[JobView]:
    for job in jobs:
        yield job


async def _joined(lines: AsyncIterator[bytes]) -> str:
    return b"".join([line async for line in lines]).decode()


def test_a_spreadsheet_does_not_take_an_error_for_a_formula() -> None:
    jobs = _each(_job(last_error='=HYPERLINK("http://x")'), _job(last_error='a, "b"\nc'))
    rows = list(csv.reader(io.StringIO(asyncio.run(_joined(csv_lines(jobs))))))
    assert tuple(rows[0]) == COLUMNS
    errors = [row[COLUMNS.index("error")] for row in rows[1:]]
    assert errors == ['\'=HYPERLINK("http://x")', 'a, "b"\nc']


def test_json_lines_have_the_whole_job() -> None:
    written = asyncio.run(_joined(json_lines(_each(_job(payload={"a": 1}), _job()))))
    first, second = written.splitlines()
    assert JobView.model_validate_json(first).payload == {"a": 1}
    assert JobView.model_validate_json(second) == _job()
