"""Secrets of payloads and results: which calls return them, and that nothing else contains them.

Reproduction: a card number declared `SecretStr` was in clear in what `await ref.get()` returned, so
the obvious status endpoint told it; `Annotated[str, Secret()] = "hunter2"` was told by the schema.
"""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from tests.support import planted
from tests.support.planted import (
    CVC,
    DOINGS,
    EVERY_SECRET,
    NUMBER,
    RECEIPT,
    Count,
    PlantedJobs,
    Receipt,
    charge_that,
    everything_logged,
    found_in,
    planted_service,
)
from trellis_jobs import JobEnded, JobRef, PayloadInvalid, ResultInvalid
from trellis_jobs.contract.consumer_metadata import contract_json
from trellis_jobs.contract.manifest import to_manifest
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.model.events import Completed, Created
from trellis_jobs.model.redaction import REDACTED


@pytest.fixture
def logged() -> Iterator[io.StringIO]:
    with everything_logged() as stream:
        yield stream


@pytest.fixture
async def jobs(server: EmbeddedServer) -> AsyncIterator[PlantedJobs]:
    async with planted_service().connect(server.url) as service:
        yield service.jobs


async def ended(jobs: PlantedJobs, does: str) -> tuple[JobRef[Receipt], str]:
    """Returns a job that is over, and the error that wait() raises for it."""
    ref = await jobs.charge.create(charge_that(does))
    try:
        await ref.wait(timeout=20)
    except JobEnded as end:
        return ref, f"{end} {end!r} {end.why}"
    return ref, ""


async def test_wait_and_reveal_return_secrets(jobs: PlantedJobs) -> None:
    ref = await jobs.charge.create(charge_that("answer"))
    assert (await ref.wait(timeout=20)).token.get_secret_value() == RECEIPT
    job = await ref.get(reveal=True)
    assert job.result == await ref.wait()
    assert isinstance(job.payload, dict)
    assert job.payload["card"] == {"number": NUMBER, "holder": "ann"}
    created, completed = (await ref.events(reveal=True))[:: len(await ref.events()) - 1]
    assert isinstance(created, Created)
    assert created.payload == job.payload
    assert isinstance(completed, Completed)
    assert completed.result == {"token": RECEIPT, "code": RECEIPT, "cents": 7}
    *_, last = [each async for each in ref.watch(reveal=True)]
    assert last.result == job.result


async def test_get_has_the_result_in_its_type_without_its_secrets(jobs: PlantedJobs) -> None:
    ref, _ = await ended(jobs, "answer")
    job = await ref.get()
    assert job.result is not None
    assert (job.result.cents, job.result.code) == (7, REDACTED)
    assert job.result.token.get_secret_value() == REDACTED
    assert isinstance(job.payload, dict)
    assert job.payload["card"] == {"number": REDACTED, "holder": "ann"}
    assert (job.payload["pin"], job.payload["cvc"]) == (REDACTED, REDACTED)
    assert (await (await jobs.charge.create(charge_that("fail"))).get()).result is None


async def test_a_secret_that_no_placeholder_fits_is_read_with_reveal_only(
    jobs: PlantedJobs,
) -> None:
    ref = await jobs.count.create(charge_that("answer"))
    assert (await ref.wait(timeout=20)).code == CVC
    job = await ref.get()
    assert job.state == "completed"
    with pytest.raises(ResultInvalid, match=r"read it with get\(reveal=True\)"):
        assert job.result
    assert (await ref.get(reveal=True)).result == Count(code=CVC)


@pytest.mark.parametrize("does", DOINGS)
async def test_no_output_about_a_job_contains_its_secrets(
    jobs: PlantedJobs, does: str, logged: io.StringIO
) -> None:
    ref, end = await ended(jobs, does)
    seen: list[Any] = [ref, await ref.get(), (await ref.get()).job, *await ref.events()]
    async for job in ref.watch():
        seen += [job, job.job, job.payload, job.errors, job.logs, job.progress, job.why]
    assert found_in(repr(seen)) == []
    assert found_in(end) == []
    revealed = [(await ref.get(reveal=True)).job, *await ref.events(reveal=True)]
    assert found_in(repr(revealed)) == [], "a repr tells none, whatever it is of"
    assert ref.id in logged.getvalue()
    assert found_in(logged.getvalue()) == []


async def test_texts_keep_what_is_not_secret_in_them(jobs: PlantedJobs) -> None:
    ref, end = await ended(jobs, "die")
    job = await ref.get()
    assert job.last_error is not None
    words = f"{4 * f'{REDACTED} '}'{REDACTED}' {REDACTED}"
    assert job.last_error.message == f"cannot charge {words}"
    assert "DeclinedBy" in str(job.last_error.traceback)
    assert "cannot charge" in end
    assert [line.message for line in job.logs] == 2 * [f"charging {words}"]


async def test_refused_payloads_are_not_quoted(jobs: PlantedJobs) -> None:
    whole = charge_that("answer").model_dump()
    for wrong in (
        {**whole, "card": NUMBER},
        {**whole, "card": {"number": [NUMBER], "holder": "ann"}},
        {**whole, "cvc": NUMBER},
        {**whole, "cvc": 2**70 + CVC},
        {**whole, "phrases": {NUMBER: 7}},
        {"pin": planted.PIN},
        NUMBER,
    ):
        with pytest.raises(PayloadInvalid) as refused:
            await jobs.charge.create(wrong)  # type: ignore[arg-type]
        assert found_in(f"{refused.value} {refused.value!r} {refused.value.problem}") == []
        with pytest.raises(PayloadInvalid) as refused:
            await jobs.charge.create_many([charge_that("answer"), wrong])  # type: ignore[list-item]
        assert found_in(f"{refused.value} {refused.value!r}") == []


def test_the_schema_of_a_type_has_no_default_and_no_example_of_secrets() -> None:
    queue = PlantedJobs.charge
    for shown in (
        to_manifest(PlantedJobs.contract),
        queue.payload.schema(),
        contract_json("planted", queue),
    ):
        assert found_in(json.dumps(shown, default=str)) == []
    schema = queue.payload.schema()
    assert "default" not in schema["properties"]["pin"]
    assert schema["properties"]["do"]["default"] == "answer"
    assert "pin" not in schema["required"]
    assert [place for place in queue.payload.secrets if "pin" in place] == ["/pin"]


def test_the_tests_search_for_every_secret() -> None:
    words = planted.secrets_text(charge_that("answer"))
    missing = {RECEIPT, planted.HUNTER}
    assert set(found_in(words)) == set(EVERY_SECRET) - missing
