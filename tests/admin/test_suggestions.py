"""Jobs.Suggest: completions for a filter bar, without any value of a payload."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, SecretStr

from jobs_admin.api.client import AdminClient
from jobs_admin.api.views.suggestions import SuggestedField
from jobs_admin.projection.ingest import Ingest
from jobs_admin.projection.store import Projection
from jobs_admin.queues.payload_paths import payload_paths
from jobs_admin.reads.readers import Readers
from jobs_admin.reads.suggestions import distinct_values
from tests.admin.admin_lab import AdminLab, until_shown
from tests.admin.made_log import Scribe
from tests.given import created
from tests.support.example_service import Task
from tests.support.facts import until
from tests.support.lab import dead_jobs, worker
from trellis_jobs.jetstream.log.feed import LogPosition
from trellis_jobs.model.concurrency import Concurrency
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.states import JobState


async def values(
    client: AdminClient, field: SuggestedField, prefix: str = "", **of: str
) -> list[str]:
    return [each.value for each in await client.suggest(field, prefix, **of)]  # type: ignore[arg-type]


async def test_states_services_and_types_are_suggested_those_of_the_most_jobs_first(
    lab: AdminLab,
) -> None:
    refs = await lab.jobs.work.create_many([Task(), Task()])
    await lab.jobs.mute.create(Task())
    await lab.client.cancel(refs[0].id)

    async def are_counted() -> bool:
        return [each.jobs for each in await lab.client.suggest(SuggestedField.SERVICE)] == [3]

    await until(are_counted, "the projection has the jobs")
    states = await lab.client.suggest(SuggestedField.STATE)
    assert [(each.value, each.jobs) for each in states[:2]] == [("pending", 2), ("cancelled", 1)]
    assert {each.value for each in states} == set(JobState)
    assert await values(lab.client, SuggestedField.STATE, "de") == ["dead"]
    assert await values(lab.client, SuggestedField.SERVICE) == ["lab"]
    assert await values(lab.client, SuggestedField.TYPE) == ["lab/work", "lab/mute"]
    for prefix in ("mu", "lab/m"):
        assert await values(lab.client, SuggestedField.TYPE, prefix) == ["lab/mute"]
    assert await values(lab.client, SuggestedField.TYPE, service="other") == []
    of_mute = await lab.client.suggest(SuggestedField.STATE, service="lab", type="mute")
    assert [(each.value, each.jobs) for each in of_mute[:1]] == [("pending", 1)]


async def test_versions_keys_and_words_of_errors_are_suggested(lab: AdminLab) -> None:
    for version in ("1.4.2", "1.5.0", "2.0"):
        ids = await dead_jobs(lab.url, f"BankDown for order {version}", version=version)
        await until_shown(lab.client, ids, JobState.DEAD)
    assert await values(lab.client, SuggestedField.VERSION) == ["1.4.2", "1.5.0", "2.0"]
    assert await values(lab.client, SuggestedField.VERSION, "1.") == ["1.4.2", "1.5.0"]
    assert len(await lab.client.suggest(SuggestedField.VERSION, limit=1)) == 1
    [bank] = await lab.client.suggest(SuggestedField.ERROR, "Ban")
    assert (bank.value, bank.jobs) == ("bankdown", 3)
    assert await values(lab.client, SuggestedField.ERROR, "1") == []
    assert await values(lab.client, SuggestedField.KEY) == []


async def test_each_key_is_suggested_once_however_many_jobs_have_it(tmp_path: Path) -> None:
    scribe = Scribe()
    for number, key in enumerate(["bolt", "acorn", "acme", "acme", "acorn", None]):
        held = None if key is None else Concurrency(key=key, key_hash=key[0] * 64)
        scribe.write(created(job=JobAddress("shop", "ship", f"job-{number}"), concurrency=held))
    async with Projection.open(tmp_path / "jobs") as projection:
        await Ingest(projection, LogPosition()).apply(scribe.messages)
    async with Readers.open(tmp_path / "jobs") as readers:

        async def keys(prefix: str, limit: int = 9) -> list[str]:
            found = await distinct_values(readers, "key", prefix, limit)
            return [each.value for each in found]

        assert await keys("") == ["acme", "acorn", "bolt"]
        assert await keys("", 2) == ["acme", "acorn"]
        assert await keys("ac") == ["acme", "acorn"]
        assert await keys("acorn") == ["acorn"]
        assert await keys("acorns") == []


async def test_payload_fields_are_those_of_contracts_and_no_value_is_suggested(
    lab: AdminLab,
) -> None:
    await lab.jobs.work.create(Task(text="PLANTED"))
    async with worker(lab.url, "work"):
        pass
    assert await values(lab.client, SuggestedField.PAYLOAD) == ["do", "key", "seconds", "text"]
    assert await values(lab.client, SuggestedField.PAYLOAD, "se") == ["seconds"]
    assert await values(lab.client, SuggestedField.PAYLOAD, type="unknown") == []
    for field in SuggestedField:
        for prefix in ("", "P", "PLANTED", "text"):
            assert "PLANTED" not in await values(lab.client, field, prefix)


class Address(BaseModel):
    city: str
    lines: list[str] = []


class Order(BaseModel):
    id: int
    note: str | None = None
    token: SecretStr = SecretStr("")
    to: Address
    other: Address | None = None
    tags: dict[str, str] = {}


def test_the_fields_of_a_schema_are_followed_through_references() -> None:
    secrets = ("/token",)
    assert payload_paths(Order.model_json_schema(), secrets) == [
        "id",
        "note",
        "to.city",
        "other.city",
    ]


def test_fields_of_secret_objects_are_not_suggested() -> None:
    assert payload_paths(Order.model_json_schema(), ("/token", "/to", "/other")) == ["id", "note"]


ENDLESS: dict[str, Any] = {
    "$ref": "#/$defs/A",
    "$defs": {
        "A": {
            "anyOf": [{"$ref": "#/$defs/A"}] * 200,
            "properties": {f"p{n}": {"$ref": "#/$defs/A"} for n in range(200)},
        }
    },
}


@pytest.mark.parametrize(
    "schema",
    [
        True,
        None,
        [],
        {"properties": []},
        {"properties": {"a": 1}},
        {"$ref": 7},
        {"$ref": "#/$defs/x"},
        {"anyOf": {"a": 1}},
        ENDLESS,
    ],
)
def test_any_schema_is_read_in_bounded_time(schema: Any) -> None:
    assert len(payload_paths(schema)) <= 500
