"""Schedules that a service declares: checked where they are written, and part of the contract."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any, Final

import pytest
from pydantic import BaseModel, SecretStr

from trellis_jobs import Cron, DeclarationError, Every, Jobs, KeyConcurrency, Secret, job
from trellis_jobs.contract.consumer_metadata import MAX_CONTRACT_LENGTH, metadata_of, read_contract
from trellis_jobs.contract.manifest import from_manifest, normalized, to_manifest
from trellis_jobs.contract.payload_types import PayloadType
from trellis_jobs.contract.schedules import resolve
from trellis_jobs.model.schedules.definition import (
    CatchUp,
    CronTiming,
    IntervalTiming,
    Overlap,
    ScheduleDefinition,
)
from trellis_jobs.wire.schedules import definition_from_json, definition_to_json


class Report(BaseModel):
    customer: str
    pages: int | None = None


class ReportJobs(Jobs, service="reports"):
    render = job(
        Report,
        version=3,
        key=KeyConcurrency(["/customer"]),
        schedules={
            "nightly": Cron(
                "30  2 * * *",
                tz="America/New_York",
                payload=Report(customer="acme"),
                jitter=90,
                start=datetime(2026, 1, 1, tzinfo=UTC),
                end="2027-01-01T09:00+01:00",
                catch_up="all",
                max_catch_up=7,
                overlap="cancel-running",
            ),
            "pulse": Every(300, payload={"customer": "all", "pages": 3}),
        },
    )
    plain = job(int)


def declare(payload: Any, **options: Any) -> Any:
    class SomeJobs(Jobs, service="some"):
        work = job(payload, **options)

    return SomeJobs.work


NIGHTLY: Final = ScheduleDefinition(
    timing=CronTiming("30 2 * * *", "America/New_York"),
    payload={"customer": "acme", "pages": None},
    version=3,
    jitter=timedelta(seconds=90),
    start=datetime(2026, 1, 1, tzinfo=UTC),
    end=datetime(2027, 1, 1, 8, tzinfo=UTC),
    catch_up=CatchUp.ALL,
    max_catch_up=7,
    overlap=Overlap.CANCEL_RUNNING,
)
PULSE: Final = ScheduleDefinition(
    timing=IntervalTiming(timedelta(seconds=300)),
    payload={"customer": "all", "pages": 3},
    version=3,
)


def test_a_declared_schedule_is_its_definition() -> None:
    assert ReportJobs.render.schedules == {"nightly": NIGHTLY, "pulse": PULSE}
    assert ReportJobs.plain.schedules == {}


def test_an_option_that_is_left_out_has_the_default_of_the_definition() -> None:
    for declared, timing in (
        (Cron("@daily", payload=None), CronTiming("@daily")),
        (Every(timedelta(hours=1), payload=None), IntervalTiming(timedelta(hours=1))),
    ):
        expected = ScheduleDefinition(timing=timing, payload=None)
        assert resolve(declared, PayloadType(type(None)), 1) == expected


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: Cron("61 2 * * *", payload=1), "the minute field '61' is not valid: use 0-59"),
        (lambda: Cron("0 9 * *", payload=1), "it has 4 fields; use 5"),
        (lambda: Cron("@dayly", payload=1), "the aliases are @hourly, @daily"),
        (lambda: Cron(9, payload=1), "a cron expression is text such as"),  # type: ignore[arg-type]
        (lambda: Cron("@daily", tz="Europe/Berlim", payload=1), "not known: Europe/Berlin"),
        (lambda: Cron("@daily", tz="new york", payload=1), r"not known: America/New_York\?"),
        (lambda: Cron("@daily", tz="kolkata", payload=1), r"not known: Asia/Kolkata\?"),
        (lambda: Cron("@daily", tz="Qqq/Xyzzy", payload=1), "use a name such as Europe/Berlin"),
        (lambda: Cron("@daily", tz=UTC, payload=1), "tz must be the name"),  # type: ignore[arg-type]
        (lambda: Every(0.5, payload=1), "at least 1 s"),
        (lambda: Every("5m", payload=1), "the interval must be seconds"),  # type: ignore[arg-type]
        (lambda: Every(True, payload=1), "the interval must be seconds"),
        (lambda: Every(60, payload=1, jitter=61), "at most the interval"),
        (lambda: Every(60, payload=1, jitter=-1), "jitter is between"),
        (
            lambda: Every(60, payload=1, start=datetime(2026, 1, 1)),  # noqa: DTZ001
            "start needs a time zone: write datetime",
        ),
        (lambda: Every(60, payload=1, end="2026-01-01T00:00"), "end needs a time zone"),
        (lambda: Every(60, payload=1, end="tomorrow"), "end must be a datetime or a text"),
        (
            lambda: Every(60, payload=1, end=date(2026, 1, 1)),  # type: ignore[arg-type]
            "end must be a datetime",
        ),
        (lambda: Every(60, payload=1, start="0001-01-01T00:00+14:00"), "start must be a datetime"),
        (
            lambda: Every(60, payload=1, start="2027-01-01T00:00Z", end="2026-01-01T00:00Z"),
            "is before start",
        ),
        (
            lambda: Every(60, payload=1, catch_up="twice"),  # type: ignore[arg-type]
            "catch_up must be one of 'skip', 'once', 'all', is 'twice'",
        ),
        (
            lambda: Every(60, payload=1, overlap=None),  # type: ignore[arg-type]
            "overlap must be one of 'allow', 'skip', 'replace', 'cancel-running'",
        ),
        (lambda: Every(60, payload=1, max_catch_up=0), "max_catch_up is between 1 and 1000"),
        (
            lambda: Every(60, payload=1, max_catch_up=1.5),  # type: ignore[arg-type]
            "max_catch_up must be a whole number",
        ),
    ],
)
def test_a_wrong_schedule_says_where_it_is_wrong(
    make: Callable[[], object], complaint: str
) -> None:
    with pytest.raises(DeclarationError, match=complaint):
        make()


class Card(BaseModel):
    number: SecretStr | None = None
    note: str = ""


@pytest.mark.parametrize(
    ("payload", "options", "complaint"),
    [
        (
            int,
            {"schedules": {"a": Every(60, payload="x")}},
            r"work: schedule 'a': its payload is n",
        ),
        (int, {"schedules": {"a.b": Every(60, payload=1)}}, "schedule 'a.b' is not a valid"),
        (int, {"schedules": {7: Every(60, payload=1)}}, "schedule 7 is not a valid"),
        (int, {"schedules": [Every(60, payload=1)]}, "schedules must be a dictionary of names"),
        (int, {"schedules": {"a": "@daily"}}, r"schedules\['a'\] must be Cron\(...\) or Every"),
        (
            Card,
            {"schedules": {"a": Every(60, payload=Card(number=SecretStr("4111")))}},
            "its payload has a secret, and contracts are shown",
        ),
        (
            Annotated[str, Secret()],
            {"schedules": {"a": Every(60, payload="4111")}},
            "its payload has a secret",
        ),
        (
            dict[str, Any],
            {
                "key": KeyConcurrency(["/customer"]),
                "schedules": {"a": Every(60, payload={"customer": None})},
            },
            "schedule 'a': cannot compute the job's key",
        ),
        (
            str,
            {"schedules": {f"s{n}": Every(60, payload="x" * 100) for n in range(50)}},
            "schedules would have .* bytes as JSON, and 8,192 are possible: make schedules at run",
        ),
    ],
)
def test_a_schedule_that_does_not_fit_its_queue_is_refused(
    payload: Any, options: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(DeclarationError, match=complaint):
        declare(payload, **options)


def test_a_payload_without_its_secret_may_be_declared() -> None:
    queue = declare(Card, schedules={"a": Every(60, payload=Card(note="n"))})
    assert queue.schedules["a"].payload == {"number": None, "note": "n"}


def test_a_schedule_that_is_made_at_run_time_may_have_secrets() -> None:
    declared = Every(60, payload=Card(number=SecretStr("4111")))
    definition = resolve(declared, PayloadType(Card), 2)
    assert definition.payload == {"number": "4111", "note": ""}
    assert (definition.secrets, definition.version) == (("/number",), 2)


# --- Manifests


MANIFEST: Final = to_manifest(ReportJobs.contract)


def test_the_manifest_has_the_schedules() -> None:
    assert MANIFEST["jobs"]["render"]["schedules"] == {
        "nightly": {
            "cron": "30 2 * * *",
            "timeZone": "America/New_York",
            "payload": {"customer": "acme", "pages": None},
            "jitterMs": 90_000,
            "start": "2026-01-01T00:00:00Z",
            "end": "2027-01-01T08:00:00Z",
            "catchUp": "all",
            "maxCatchUp": 7,
            "overlap": "cancel-running",
        },
        "pulse": {
            "everyMs": 300_000,
            "payload": {"customer": "all", "pages": 3},
            "catchUp": "once",
            "overlap": "allow",
        },
    }


def test_a_queue_without_schedules_has_the_same_manifest_and_metadata_as_before() -> None:
    assert "schedules" not in MANIFEST["jobs"]["plain"]
    assert "schedules" not in json.dumps(metadata_of("reports", ReportJobs.plain))


def test_a_manifest_is_read_back_as_it_was() -> None:
    document = json.loads(json.dumps(MANIFEST))
    read = from_manifest(document)
    assert read.queues["render"].schedules == ReportJobs.render.schedules
    assert to_manifest(read) == MANIFEST


def test_a_schedule_is_written_alike_in_manifests_and_records() -> None:
    """People compare the two, and code generators read either."""
    for name, definition in ReportJobs.render.schedules.items():
        entry = MANIFEST["jobs"]["render"]["schedules"][name]
        record = json.loads(json.dumps(definition_to_json(definition), default=_rfc3339))
        assert {**entry, "payloadVersion": 3} == record
        assert definition_from_json({**entry, "payloadVersion": 3}) == definition


def _rfc3339(time: datetime) -> str:
    return time.isoformat().replace("+00:00", "Z")


def test_the_consumer_of_a_queue_tells_its_schedules() -> None:
    metadata = metadata_of("reports", ReportJobs.render)
    read = read_contract(metadata, "reports", "render")
    assert read is not None
    assert read.schedules == ReportJobs.render.schedules


def test_the_metadata_of_many_schedules_stays_small() -> None:
    queue = declare(str, schedules={f"s{n}": Every(60, payload="x" * 100) for n in range(40)})
    assert len(metadata_of("a", queue)["trellis.contract"]) < MAX_CONTRACT_LENGTH


def test_a_field_of_a_later_version_is_kept() -> None:
    document = json.loads(json.dumps(MANIFEST))
    document["jobs"]["render"]["schedules"]["pulse"]["calendar"] = {"skip": ["2026-12-25"]}
    document["jobs"]["plain"]["region"] = "north"
    assert normalized(document) == document


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        ({}, "jobs.plain: schedules.a: it has neither cron nor everyMs"),
        ({"cron": "@daily", "everyMs": 1000}, "it has both cron and everyMs"),
        ({"everyMs": 1000, "timeZone": "UTC"}, "timeZone needs cron"),
        ({"everyMs": 10}, "an interval is at least 1 s"),
        ({"cron": "* * *"}, "it has 3 fields"),
        ({"cron": "@daily", "timeZone": "../../etc/passwd"}, "is not known"),
        ({"cron": "@daily", "payload": "text"}, "its payload is not valid for the queue"),
        ({"cron": "@daily", "start": "soon"}, "start must be a datetime"),
        ({"cron": "@daily", "catchUp": "twice"}, "catchUp"),
        ({"cron": "@daily", "jitterMs": -1}, "jitterMs"),
        ({"cron": 5}, "cron"),
        (7, "schedules"),
    ],
)
def test_a_manifest_with_a_wrong_schedule_is_refused(entry: Any, complaint: str) -> None:
    valid = {"payload": 1, **entry} if isinstance(entry, dict) else entry
    plain = {**MANIFEST["jobs"]["plain"], "schedules": {"a": valid}}
    with pytest.raises(DeclarationError, match=complaint):
        from_manifest({**MANIFEST, "jobs": {"plain": plain}})


def test_the_name_of_a_schedule_in_a_manifest_is_a_token() -> None:
    plain = {**MANIFEST["jobs"]["plain"], "schedules": {"a.b": {"everyMs": 1000, "payload": 1}}}
    with pytest.raises(DeclarationError, match=r"schedules\.a\.b"):
        from_manifest({**MANIFEST, "jobs": {"plain": plain}})


@pytest.mark.parametrize(
    ("schedule", "gap"),
    [
        (Cron("*/5 * * * *", payload={"customer": "a"}, jitter=3600), "1 h.*5 min"),
        (Cron("0 9,10 * * 1-5", payload={"customer": "a"}, jitter=7200), "2 h.*1 h"),
        (Cron("* * * * * *", payload={"customer": "a"}, jitter=1.5), "1.5 s.*1 s"),
    ],
)
def test_jitter_longer_than_the_time_between_ticks_is_refused(schedule: Cron, gap: str) -> None:
    """The ticks that a delayed one holds back would be treated as missed."""
    with pytest.raises(DeclarationError, match=f"'often'.*{gap}"):
        declare(Report, schedules={"often": schedule})


@pytest.mark.parametrize(
    "schedule",
    [
        Cron("*/5 * * * *", payload={"customer": "a"}, jitter=300),
        Cron("0 9 * * *", tz="Europe/Berlin", payload={"customer": "a"}, jitter=24 * 3600),
        Cron("0 9 * * *", tz="Australia/Sydney", payload={"customer": "a"}, jitter=24 * 3600),
        Cron("0 0 29 2 *", payload={"customer": "a"}, jitter=24 * 3600),
        Cron("* * * * *", payload={"customer": "a"}, jitter=3600, end="2020-01-01T00:00Z"),
    ],
)
def test_jitter_up_to_the_time_between_ticks_is_allowed(schedule: Cron) -> None:
    assert list(declare(Report, schedules={"often": schedule}).schedules) == ["often"]


def test_a_published_contract_with_longer_jitter_can_be_read() -> None:
    declared = declare(Report, schedules={"often": Cron("0 9 * * *", payload={"customer": "a"})})
    published = {
        name: text.replace('"0 9 * * *"', '"0 * * * *","jitterMs":7200000')
        for name, text in metadata_of("some", declared).items()
    }
    read = read_contract(published, "some", "work")
    assert read is not None
    assert read.schedules["often"].jitter == timedelta(hours=2)
