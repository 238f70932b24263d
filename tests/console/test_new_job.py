"""A job that a person creates with the form of the console."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import BaseModel, SecretStr

from jobs_admin.api.client import AdminClient
from tests.console.lab import ConsoleLab, Seen, console_lab
from trellis_jobs import ActiveJob, Jobs, KeyConcurrency, Service, job
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.model.schedules.address import ScheduleAddress


class Charge(BaseModel):
    customer: str
    cents: int
    card: SecretStr | None = None


class ShopJobs(Jobs, service="shop"):
    charge = job(Charge, str, key=KeyConcurrency(["customer", "/customer"]))


@pytest.fixture
async def console(server: EmbeddedServer, tmp_path: Path) -> AsyncIterator[ConsoleLab]:
    service = Service(ShopJobs)

    @service.jobs.charge.handle
    async def charge(job: ActiveJob[Charge]) -> str:
        return f"{job.payload.cents} from {job.payload.customer}"

    async with console_lab(server.url, tmp_path) as lab, service.connect(server.url):
        yield lab


FORM = "/queues/shop/charge/new"


async def test_every_queue_is_offered(console: ConsoleLab) -> None:
    page = await console.see("/new")
    assert page.status == 200
    assert "shop/charge" in page.text
    assert f'href="{FORM}"' in page.html


async def test_the_preview_says_what_would_happen_and_creates_nothing(console: ConsoleLab) -> None:
    given = {"payload/customer": "acme", "payload/cents": "250", "action": "preview"}
    reply = await console.send(FORM, **given)
    assert "It would run at once" in reply.text
    assert "acme" in reply.text
    assert "trellis-jobs jobs create shop/charge" in reply.text
    assert "There are no jobs yet" in (await console.see("/jobs")).text


async def test_a_form_that_is_sent_twice_creates_one_job(console: ConsoleLab) -> None:
    form = await console.see(FORM)
    given = {
        "payload/customer": "acme",
        "payload/cents": "250",
        "reason": "a complaint",
        "action": "create",
    }
    first = await console.send(FORM, id=form.fields["id"], **given)
    second = await console.send(FORM, id=form.fields["id"], **given)
    assert (first.status_code, second.status_code) == (303, 303)
    where = f"/jobs/shop/charge/{form.fields['id']}"
    assert first.headers["location"] == second.headers["location"] == where
    assert (await console.see("/jobs")).html.count("data-open=") == 1


async def test_what_is_wrong_is_said_beside_its_field_and_nothing_is_lost(
    console: ConsoleLab,
) -> None:
    given = {
        "payload/customer": "acme",
        "payload/cents": "many",
        "payload/card": "4242",
        "reason": "r <b>",
    }
    reply = await console.send(FORM, **given, action="create")
    assert reply.status_code == 200
    assert "&#39;many&#39; is not a whole number" in reply.text
    assert 'value="acme"' in reply.text
    assert 'value="r &lt;b&gt;"' in reply.text
    assert "4242" not in reply.text


async def test_the_contract_has_the_last_word(console: ConsoleLab) -> None:
    reply = await console.send(
        FORM, **{"payload": '{"customer": 1}', "as": "json", "action": "preview"}
    )
    assert "/customer: " in reply.text
    assert "/cents: " in reply.text


async def test_a_delay_that_cannot_be_read_is_explained(console: ConsoleLab) -> None:
    given = {"payload/customer": "acme", "payload/cents": "1", "delay": "soon", "action": "create"}
    reply = await console.send(FORM, **given)
    assert "is not a duration such as 90s, 10m, 2h or 3d" in reply.text


async def test_a_queue_that_does_not_exist_is_not_found(console: ConsoleLab) -> None:
    page = await console.see("/queues/shop/refund/new")
    assert page.status == 404
    assert "Not found" in page.text


async def test_a_changed_schedule_does_not_lose_its_secret(
    console: ConsoleLab, server: EmbeddedServer
) -> None:
    address = ScheduleAddress("shop", "charge", "nightly")
    async with AdminClient.connect(server.url, by="ann") as admin:
        payload = {"customer": "acme", "cents": 5, "card": "4242"}
        await admin.schedules.put(address, payload, every=timedelta(hours=1))
    form = await console.see("/schedules/new?like=shop/charge/nightly")
    assert "Secrets are hidden as [secret] . Enter them again" in form.text
    values = {name: form.fields[name] for name in ("service", "type", "name")}
    rest = {"catch_up": "once", "max_catch_up": "10", "overlap": "allow", "every": "2h"}
    hidden = '{"customer": "acme", "cents": 5, "card": "[secret]"}'
    refused = Seen.of(await console.send("/schedules", **values, **rest, payload=hidden))
    assert refused.status == 422
    assert "secrets are hidden ([secret]) and must be entered again: /card" in refused.text
    assert refused.fields["every"] == "2h"
    entered = hidden.replace("[secret]", "1111")
    assert (await console.send("/schedules", **values, **rest, payload=entered)).status_code == 303
