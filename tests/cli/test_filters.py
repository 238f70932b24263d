"""Filters on the command line: times, payload fields, and what counts as narrowing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone

import pytest
import typer
from typer.testing import CliRunner

from jobs_admin.api.job_filter import JobFilter, Scalar
from jobs_admin.cli.app import command_line
from jobs_admin.cli.exit_codes import UsageError
from jobs_admin.cli.filters import Filters, combined, moment
from jobs_admin.cli.queue_names import parse_queue
from jobs_admin.cli.time_options import moment_ago, moment_ahead
from trellis_jobs.model.states import JobState

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("30s", NOON - timedelta(seconds=30)),
        ("10m", NOON - timedelta(minutes=10)),
        ("1.5h", NOON - timedelta(minutes=90)),
        ("3d", NOON - timedelta(days=3)),
        ("1w", NOON - timedelta(days=7)),
        ("2026-04-30T08:00:00Z", datetime(2026, 4, 30, 8, tzinfo=UTC)),
        ("2026-04-30T08:00+02:00", datetime(2026, 4, 30, 6, tzinfo=UTC)),
    ],
)
def test_a_time_is_an_age_or_a_moment(text: str, at: datetime) -> None:
    assert moment("--since", text, NOON) == at


@pytest.mark.parametrize(
    ("text", "ago"),
    [
        ("14:03:07.250", timedelta(0)),
        ("14:03", timedelta(seconds=7.25)),
        ("14:04", timedelta(days=1, seconds=-52.75)),
    ],
)
def test_a_time_of_the_clock_is_the_last_such_moment_here(text: str, ago: timedelta) -> None:
    now = datetime(2026, 5, 1, 14, 3, 7, 250_000).astimezone()
    assert moment("--at", text, now.astimezone(UTC)) == now - ago


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as there:
        there.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("berlin")
def test_a_time_of_the_clock_is_what_the_clock_shows_then_when_it_is_set_forward_between() -> None:
    evening = datetime(2026, 3, 28, 22, tzinfo=UTC)
    morning = datetime(2026, 3, 29, 5, tzinfo=UTC)
    assert moment_ahead("--at", "09:00", evening) == datetime(2026, 3, 29, 7, tzinfo=UTC)
    assert moment_ago("--since", "01:30", morning) == datetime(2026, 3, 29, 0, 30, tzinfo=UTC)
    assert moment_ago("--since", "22:00", morning) == datetime(2026, 3, 28, 21, tzinfo=UTC)


def test_a_moment_without_a_zone_is_in_that_of_the_machine() -> None:
    read = moment("--since", "2026-04-30T08:00", NOON)
    assert read is not None
    assert read.tzinfo is not None
    assert read == datetime(2026, 4, 30, 8).astimezone()
    assert moment("--since", "2026-04-30", NOON) is not None
    assert moment("--since", None, NOON) is None


@pytest.mark.parametrize("text", ["yesterday", "10", "10 m", "-5m", "", "1y", "99999999999d"])
def test_what_is_no_time_is_said_with_what_is(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="10m, 2h, 3d") as refused:
        moment("--until", text, NOON)
    assert refused.value.param_hint == "--until"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("customer.id=17", 17),
        ("customer.id=1.5", 1.5),
        ("customer.id=true", True),
        ('customer.id="17"', "17"),
        ("customer.id=c-17", "c-17"),
        ("customer.id=a=b", "a=b"),
        ("customer.id=", ""),
        ("customer.id=[1]", "[1]"),
        ("customer.id=null", "null"),
        ("customer.id=1.10", "1.10"),
        ("customer.id=1e3", "1e3"),
        ("customer.id=-0", "-0"),
        ("customer.id=12345678901234567890123", "12345678901234567890123"),
    ],
)
def test_a_payload_field_is_the_number_that_is_written_so_or_else_text(
    text: str, value: Scalar
) -> None:
    read = Filters(payload=[text]).query().payload
    assert read == {"customer.id": value}
    assert type(read["customer.id"]) is type(value)


@pytest.mark.parametrize("text", ["customer.id", "=17", ""])
def test_a_payload_field_without_a_name_or_value_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="FIELD=VALUE"):
        Filters(payload=[text]).query()


def test_every_filter_is_asked_for() -> None:
    filters = Filters(
        service="shop",
        type="charge",
        since="2026-04-30T08:00:00Z",
        until="2026-04-30T09:00:00Z",
        key="acme",
        id_prefix="01M7",
        error="503",
        app_version="1.4.2",
        request_id="req-1",
        trace_id="0" * 31 + "1",
        schedule="nightly",
        payload=["a=1", "b=x"],
    )
    at = datetime(2026, 4, 30, 8, tzinfo=UTC)
    assert filters.query([JobState.DEAD]) == JobFilter(
        service="shop",
        type="charge",
        state=[JobState.DEAD],
        since=at,
        until=at.astimezone(timezone(timedelta(hours=1))) + timedelta(hours=1),
        key="acme",
        id_prefix="01M7",
        error="503",
        app_version="1.4.2",
        request_id="req-1",
        trace_id="0" * 31 + "1",
        schedule="nightly",
        payload={"a": 1, "b": "x"},
    )


@pytest.mark.parametrize(
    "filters",
    [
        Filters(service="shop"),
        Filters(type="charge"),
        Filters(since="1h"),
        Filters(until="1h"),
        Filters(key="acme"),
        Filters(id_prefix="01"),
        Filters(error="x"),
        Filters(app_version="1.4.2"),
        Filters(request_id="req-1"),
        Filters(trace_id="0" * 32),
        Filters(schedule="nightly"),
        Filters(payload=["a=1"]),
        Filters(service=""),
    ],
)
def test_each_of_them_narrows(filters: Filters) -> None:
    assert filters.has_filters
    assert not Filters().has_filters


def test_a_filter_may_be_written_as_text_and_as_options_at_once() -> None:
    options = Filters(service="shop", payload=["a=1"]).query()
    words = ["type:charge", 'error:"503 from" payload.b:x']
    assert combined(options, words) == JobFilter(
        service="shop", type="charge", error="503 from", payload={"a": 1, "b": "x"}
    )
    assert combined(options, None) == options


@pytest.mark.parametrize("text", ["service:other", "type:other/charge", "payload.a:2"])
def test_a_field_that_is_given_as_text_and_as_an_option_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="remove one"):
        combined(Filters(service="shop", payload=["a=1"]).query(), [text])


@pytest.mark.parametrize("command", [["jobs", "list"], ["dlq", "list"]])
def test_a_wrong_word_of_a_filter_is_named_before_anything_is_sent(command: list[str]) -> None:
    ended = CliRunner().invoke(command_line(command[0]), [*command, "stat:dead"])
    assert isinstance(ended.exception, UsageError)
    assert str(ended.exception).startswith("stat:dead: there is no field 'stat'; the fields are")


@pytest.mark.parametrize("option", ["--service", "--type", "--id-prefix"])
def test_a_name_that_no_job_can_have_is_refused_with_its_option(option: str) -> None:
    """The admin runtime refused it as `/service: String should match pattern`."""
    ended = CliRunner().invoke(
        command_line("jobs"), ["jobs", "list", option, "x y"], env={"COLUMNS": "200"}
    )
    assert ended.exit_code == 2
    assert f"'{option}'" in ended.output
    assert "'x y' is not a valid subject token" in ended.output


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("greet", "'greet' is not of the form service/type"),
        (
            "shop/gr.eet",
            "'shop/gr.eet' is not of the form service/type: type 'gr.eet' is not a valid ",
        ),
    ],
)
def test_what_names_no_queue_is_refused_with_what_would(text: str, why: str) -> None:
    with pytest.raises(typer.BadParameter) as refused:
        parse_queue(text)
    assert refused.value.message.startswith(why)
    assert (refused.value.message == why) == ("/" not in text)
