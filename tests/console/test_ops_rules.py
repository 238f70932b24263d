"""What the screens for operators compute, with values."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit

import pytest

from jobs_admin.api.queue_rates import queue_rates
from jobs_admin.api.views.doctor import About, Subject
from jobs_admin.api.views.history import PastCursor, PastPart
from jobs_admin.api.views.keys import HolderView
from jobs_admin.api.views.queues import QueueView
from jobs_admin.api.views.schedules import ScheduleDefinitionView, ScheduleDetailView
from jobs_admin.api.views.services import ServiceView, WorkerView
from jobs_admin.api.views.workers import WorkerProcessView, WorkerQueueView
from jobs_admin.console import form_values, links
from jobs_admin.console.activity import shown_series, span_of, version_marks
from jobs_admin.console.charts.meter import meter
from jobs_admin.console.charts.percentile_bars import Percentiles, percentile_bars, positions
from jobs_admin.console.charts.sparkline import HEIGHT, WIDTH, sparkline, sparkline_points
from jobs_admin.console.charts.stacked_bars import Mark, bar_chart, stacked_bars
from jobs_admin.console.form_values import FormInvalid
from jobs_admin.console.leases import lease_of
from jobs_admin.console.pages.queue import cursor_text, moved_by, past_cursor
from jobs_admin.console.queue_rows import drain_words, queue_rows
from jobs_admin.console.schedule_form import address_of, arguments_of, blank_form, form_of
from jobs_admin.console.shared_reads import SharedReads
from jobs_admin.console.words import number, share, size
from jobs_admin.console.worker_groups import worker_groups
from jobs_admin.console.zone_words import zone_time
from trellis_jobs.model.schedules.definition import CatchUp, Overlap
from trellis_jobs.model.worker_states import WorkerState

NOW = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


# Charts


def test_a_sparkline_reaches_from_edge_to_edge_and_its_largest_value_is_at_the_top() -> None:
    points = sparkline_points([0, 5, 10])
    assert [x for x, _ in points] == [0, WIDTH / 2, WIDTH]
    ys = [y for _, y in points]
    assert ys == sorted(ys, reverse=True)
    assert 0 < min(ys) < max(ys) < HEIGHT


def test_a_sparkline_of_zeros_is_not_drawn() -> None:
    assert sparkline([0, 0], "nothing") == ""
    assert 'aria-label="3 jobs &lt;b&gt;"' in sparkline([1], "3 jobs <b>")


def test_bars_are_stacked_without_gaps_and_the_highest_fills_the_chart() -> None:
    chart = bar_chart({"completed": [3, 0], "dead": [1, 2]}, NOW, MINUTE)
    first, second = chart.bars
    assert (chart.largest, first.total, second.total) == (4, 4, 2)
    done, dead = first.segments
    assert (done.y, done.height, dead.y, dead.height) == (25, 75, 0, 25)
    [only] = second.segments
    assert (only.kind, only.y, only.height) == ("dead", 50, 50)


def test_marks_outside_of_a_chart_are_left_out() -> None:
    marks = [Mark(NOW - MINUTE, "before"), Mark(NOW + MINUTE, "within"), Mark(NOW + 5 * MINUTE, "")]
    chart = bar_chart({"completed": [1, 1]}, NOW, MINUTE, marks)
    assert [(x, mark.label) for x, mark in chart.marks] == [(10, "within")]
    assert "<title>within</title>" in stacked_bars(chart, "what happened")


def test_a_chart_without_events_is_empty() -> None:
    assert bar_chart({}, NOW, MINUTE).is_empty
    assert bar_chart({"completed": [0, 0]}, NOW, MINUTE).is_empty


def test_percentiles_share_a_scale_on_which_the_slowest_is_at_the_end() -> None:
    rows = [Percentiles("wait", 1, 10, 100), Percentiles("run", 10, 100, 10_000)]
    (wait, run) = positions(rows)
    assert (wait[0], run[2]) == (0, 300)
    assert wait[2] < run[2]
    drawn = percentile_bars(rows)
    assert len(drawn) == len(rows)
    assert "half of the attempts within 10 ms" in drawn[1]


@pytest.mark.parametrize(("given", "width"), [(-1, 0.0), (0.5, 30.0), (7, 60.0)])
def test_a_meter_stays_within_its_frame(given: float, width: float) -> None:
    assert f'<rect class="filled" width="{width}"' in meter(given, "slots")


def test_ends_that_no_try_causes_are_shown_together() -> None:
    events = {"completed": (1, 2), "cancelled": (1, 0), "expired": (0, 3), "started": (9, 9)}
    assert shown_series(events) == {"completed": (1, 2), "other": [1, 3]}


def test_an_unknown_span_is_the_last_hour() -> None:
    assert span_of("eternity").name == span_of(None).name == "hour"
    assert span_of("week").length == timedelta(days=7)


# Words


def test_numbers_are_short() -> None:
    assert (number(None), number(3), number(3.25), number(1234.5)) == ("–", "3", "3.2", "1,234")
    assert (share(None), share(0.921)) == ("–", "92 %")
    assert (size(999), size(1_234_567), size(20_000)) == ("999 B", "1.2 MB", "20 kB")


def test_a_time_is_shown_in_the_zone_of_its_schedule() -> None:
    assert zone_time(NOW, "Europe/Berlin") == "Mon 2026-05-04 14:00:00 CEST"
    assert zone_time(NOW, None) == "Mon 2026-05-04 12:00:00 UTC"
    assert zone_time(NOW, "Mars/Olympus") == ""


@pytest.mark.parametrize(
    ("jobs", "arriving", "leaving", "words"),
    [
        (0, 5, 5, "now"),
        (9, 0, 0, "–"),
        (9, 100, 97, "steady"),
        (9, 100, 50, "never"),
        (50, 0, 10, "5 min"),
    ],
)
def test_how_long_a_backlog_lasts_is_said_in_a_word(
    jobs: int, arriving: float, leaving: float, words: str
) -> None:
    rates = queue_rates({"created": arriving, "completed": leaving})
    assert drain_words(rates, jobs) == words


def test_failed_tries_are_a_share_of_all_tries() -> None:
    rates = queue_rates({"started": 10, "retry": 6, "dead": 2, "completed": 2, "dismissed": 5})
    assert (rates.error_share, rates.leaving) == (0.8, 4)
    assert queue_rates({}).error_share is None


# Rows


def test_queues_without_workers_come_first_then_paused_ones_then_busy_ones() -> None:
    idle = QueueView(service="shop", type="idle")
    busy = QueueView(service="shop", type="busy", depth=90, worker_slots=4, states={"active": 3})
    paused = QueueView(service="shop", type="paused", paused=True)
    lost = QueueView(service="shop", type="lost", unattended=True)
    rows = queue_rows([idle, busy, paused, lost], None)
    assert [row.queue.type for row in rows] == ["lost", "paused", "busy", "idle"]
    assert (rows[2].share_used, rows[3].share_used) == (0.75, None)


def a_worker(instance: str, *, version: str | None, hours: float = 1.0) -> WorkerProcessView:
    return WorkerProcessView(
        service="shop",
        instance_id=instance,
        hostname="host-1",
        pid=812,
        started_at=NOW - timedelta(hours=hours),
        queues=(WorkerQueueView(type="charge", concurrency=8),),
        concurrency=8,
        state=WorkerState.RUNNING,
        beat=3,
        active_jobs=1,
        active_job_ids={"charge": ("job-1",)},
        held_job_ids={"charge": ("job-2", "job-3")},
        labels=(),
        app_version=version,
        interval_ms=5_000,
        dead_after_ms=25_000,
        last_beat_at=NOW,
        silent_for_ms=400,
        silent=False,
    )


def test_workers_of_two_versions_are_a_rolling_deploy_and_the_newest_is_first() -> None:
    workers = [a_worker("a", version="1.4.2", hours=9), a_worker("b", version="1.4.3")]
    beat = WorkerView(
        service="shop",
        job_type="charge",
        instance_id="b",
        timestamp=NOW,
        loop_blocked_ms=700,
        clock_offset_ms=-2_000,
    )
    services = [ServiceView(name="shop", healthy=True, workers=(beat,), types=())]
    [group] = worker_groups(workers, services)
    assert group.is_rolling
    assert [version.version for version in group.versions] == ["1.4.3", "1.4.2"]
    assert (group.used, group.total) == (2, 16)
    newest = group.processes[0]
    assert (newest.loop_blocked_ms, newest.clock_offset_ms) == (700, -2_000)
    [slots] = newest.slots
    assert (slots.used, slots.total, slots.waiting_for_key) == (1, 8, 2)


def test_a_new_version_is_marked_where_its_first_worker_started_and_the_oldest_is_not() -> None:
    workers = [
        a_worker("a", version="1.4.2", hours=0.9),
        a_worker("b", version="1.4.3", hours=0.5),
        a_worker("c", version="1.4.3", hours=0.1),
        a_worker("d", version=None),
    ]
    [mark] = version_marks(workers, NOW - timedelta(hours=1))
    assert (mark.at, mark.label) == (NOW - timedelta(hours=0.5), "shop 1.4.3 appeared")


def test_the_rest_of_a_lease_is_measured_by_the_age_of_its_renewal() -> None:
    def lease(age_ms: int) -> HolderView:
        return HolderView(
            job_id="a",
            instance_id="w",
            started_at=NOW,
            heartbeat_at=NOW,
            heartbeat_age_ms=age_ms,
            lease_expires_at=NOW + timedelta(seconds=30),
        )

    fresh, old, gone = (lease_of(lease(age)) for age in (3_000, 25_000, 42_000))
    assert (fresh.share, fresh.kind, fresh.words) == (0.9, "good", "27 s left")
    assert (old.kind, gone.kind, gone.has_expired) == ("warn", "bad", True)
    assert (gone.share, gone.words) == (0, "expired 12 s ago")


# Addresses


@pytest.mark.parametrize("key", ["a/b", "../..", " ", "ключ & co", '"quoted"', "#?%2F"])
def test_any_key_survives_its_way_through_an_address(key: str) -> None:
    parts = urlsplit(links.key_path("shop", "charge", key))
    assert parts.path == "/keys/shop/charge"
    assert parse_qs(parts.query, keep_blank_values=True) == {"key": [key]}


def test_a_filter_quotes_values_with_spaces() -> None:
    assert links.jobs_path(state="dead", key='a "b" c').endswith(
        "q=state%3Adead+key%3A%22a+%5C%22b%5C%22+c%22"
    )


@pytest.mark.parametrize(
    ("about", "path"),
    [
        (None, "/system"),
        (About(subject=Subject.QUEUE, service="shop", type="charge"), "/queues/shop/charge"),
        (
            About(subject=Subject.KEY, service="shop", type="charge", name="a/b"),
            "/keys/shop/charge?key=a%2Fb",
        ),
        (
            About(subject=Subject.SCHEDULE, service="shop", type="charge", name="nightly"),
            "/schedules/shop/charge/nightly",
        ),
        (
            About(subject=Subject.WORKER, service="shop", name="01W"),
            "/workers?service=shop&id=01W",
        ),
        (
            About(subject=Subject.DEAD_JOBS, service="shop", type="charge"),
            "/dead?q=type%3Ashop%2Fcharge",
        ),
        (About(subject=Subject.QUEUE, service="shop"), "/system"),
    ],
)
def test_a_finding_leads_to_the_page_of_what_it_is_about(about: About | None, path: str) -> None:
    assert links.about_path(about) == path


# Forms


def test_a_form_with_a_bad_value_says_which_field_is_wrong() -> None:
    with pytest.raises(FormInvalid, match="duration: 'soon'"):
        form_values.duration({"duration": "soon"}, "duration")
    with pytest.raises(FormInvalid, match="reason"):
        form_values.reason({"reason": "  "})
    with pytest.raises(FormInvalid, match="at: 'then'"):
        form_values.moment("then", "at")
    with pytest.raises(FormInvalid, match="payload is not JSON"):
        form_values.json_value({"payload": "{"}, "payload")
    with pytest.raises(FormInvalid, match="step"):
        moved_by(NOW, "far")
    with pytest.raises(FormInvalid, match="after"):
        past_cursor("nowhere")


def test_a_time_without_a_zone_is_in_utc() -> None:
    assert form_values.moment("2026-05-04T12:00", "at") == NOW
    assert form_values.moment("2026-05-04T14:00+02:00", "at") == NOW


def test_the_place_in_a_list_of_past_jobs_survives_its_way_through_an_address() -> None:
    cursor = PastCursor(part=PastPart.MOVED, stored_at=NOW, first_seq=7)
    assert past_cursor(cursor_text(cursor)) == cursor
    assert past_cursor(None) is None


def test_the_form_of_a_schedule_makes_the_same_schedule() -> None:
    definition = ScheduleDefinitionView(
        cron="0 9 * * MON-FRI",
        time_zone="Europe/Berlin",
        jitter_ms=90_000,
        start=NOW,
        catch_up=CatchUp.ALL,
        max_catch_up=5,
        overlap=Overlap.SKIP,
    )
    shown = ScheduleDetailView(
        service="shop", type="charge", name="nightly", definition=definition, payload={"n": 1}
    )
    form = form_of(shown)
    address = address_of(form)
    assert (address.service, address.job_type, address.schedule) == ("shop", "charge", "nightly")
    assert arguments_of(form) == {
        "cron": "0 9 * * MON-FRI",
        "time_zone": "Europe/Berlin",
        "every": None,
        "jitter": timedelta(seconds=90),
        "start": NOW,
        "end": None,
        "catch_up": CatchUp.ALL,
        "max_catch_up": 5,
        "overlap": Overlap.SKIP,
    }
    assert form_values.json_value(form, "payload") == {"n": 1}


def test_a_schedule_needs_either_a_cron_expression_or_an_interval() -> None:
    with pytest.raises(FormInvalid, match="either a cron expression or an interval"):
        arguments_of(blank_form({}))
    with pytest.raises(FormInvalid):
        address_of({"service": "a b", "type": "", "name": ""})


# Reads that pages share


async def test_pages_share_a_read_until_it_is_too_old_or_older_than_a_hint() -> None:
    now, reads = 100.0, 0

    async def fetch() -> int:
        nonlocal reads
        reads += 1
        return reads

    shared = SharedReads(lambda: now)
    assert [await shared.get("overview", fetch) for _ in range(3)] == [1, 1, 1]
    assert await shared.get("overview", fetch, min_seq=5) == 2
    assert await shared.get("overview", fetch, min_seq=4) == 2
    now += 2
    assert await shared.get("overview", fetch) == 3
    assert await shared.get("another", fetch) == 4


async def test_shared_reads_do_not_pile_up() -> None:
    async def fetch() -> bytes:
        return bytes(100)

    now = 100.0
    shared = SharedReads(lambda: now)
    for page in range(1_000):
        now += 0.1
        await shared.get(f"/jobs?q={page}", fetch)
    assert len(shared) <= 101
