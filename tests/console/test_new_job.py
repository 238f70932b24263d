"""A job that a person creates with the form of the console."""

from __future__ import annotations

import re
import shlex
from collections.abc import AsyncIterator
from datetime import timedelta
from html import unescape
from pathlib import Path

import orjson
import pytest
from pydantic import BaseModel, SecretStr

from jobs_admin.api.client import AdminClient
from tests.console.job_histories import write
from tests.console.lab import ConsoleLab, Seen, console_lab
from tests.given import created
from tests.support.lab import probe
from trellis_jobs import ActiveJob, Jobs, KeyConcurrency, Service, job
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.schedules.address import ScheduleAddress


class Charge(BaseModel):
    customer: str
    cents: int
    card: SecretStr | None = None
    backups: list[SecretStr] = []


class Refund(BaseModel):
    order: str


class ShopJobs(Jobs, service="shop"):
    charge = job(Charge, str, key=KeyConcurrency(["customer", "/customer"]), version=2)
    refund = job(Refund, str)


@pytest.fixture
async def console(server: EmbeddedServer, tmp_path: Path) -> AsyncIterator[ConsoleLab]:
    service = Service(ShopJobs)

    @service.jobs.charge.handle
    async def charge(job: ActiveJob[Charge]) -> str:
        return f"{job.payload.cents} from {job.payload.customer}"

    @service.jobs.refund.handle
    async def refund(job: ActiveJob[Refund]) -> str:
        return job.payload.order

    async with console_lab(server.url, tmp_path) as lab, service.connect(server.url):
        yield lab


@pytest.fixture
async def admin(server: EmbeddedServer) -> AsyncIterator[AdminClient]:
    async with AdminClient.connect(server.url, by="ann", timeout=20) as client:
        yield client


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
    page = await console.see("/queues/shop/nothing/new")
    assert page.status == 404
    assert "Not found" in page.text


async def test_a_changed_schedule_does_not_lose_its_secret(
    console: ConsoleLab, admin: AdminClient
) -> None:
    address = ScheduleAddress("shop", "charge", "nightly")
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


SECRETS = {"customer": "acme", "cents": 5, "card": "4242", "backups": ["1111", "2222"]}


async def test_a_clone_has_its_secrets_blank_and_asks_for_them(
    console: ConsoleLab, admin: AdminClient
) -> None:
    await admin.creation.create("shop", "charge", SECRETS, id="order-1")
    for query in ("?like=order-1", "?like=order-1&as=json"):
        page = await console.see(FORM + query)
        form, recent = page.html.split("Recent payloads")
        assert "acme" in form
        assert "[secret]" in recent
        assert "[secret]" not in form
        assert "/backups/0, /backups/1" in page.text
    hidden = {"payload": '{"customer": "acme", "cents": 5, "card": "[secret]"}', "as": "json"}
    refused = Seen.of(await console.send(FORM, **hidden, id="never", action="create"))
    assert "/card: the secret is hidden ([secret]): enter it again" in refused.text


async def test_a_preview_asks_for_its_secrets_again_and_has_no_command_without_them(
    console: ConsoleLab,
) -> None:
    given = {"payload/customer": "acme", "payload/cents": "1", "payload/backups": "1111"}
    page = Seen.of(await console.send(FORM, **given, **{"payload/card": "4242"}, action="preview"))
    assert "It is hidden: enter it again." in page.text
    assert "Secrets are hidden: enter them again (/backups/0)" in page.text
    assert "1111" not in page.html
    assert "There is no command line to copy" in page.text
    assert "Copy as command line" not in page.text


async def test_the_copied_command_creates_the_same_job_at_the_same_time(
    console: ConsoleLab,
) -> None:
    given = {"payload/customer": "it's", "payload/cents": "1", "id": "order-7", "reason": "a call"}
    commands = []
    for when in ({"delay": "2h"}, {"run_at": "2050-01-31T09:00"}):
        page = await console.send(FORM, **given, **when, action="preview")
        found = re.search(r'data-copy="(trellis-jobs jobs create [^"]*)"', page.text)
        assert found is not None
        commands.append(shlex.split(unescape(found[1])))
    assert commands[0][3] == "shop/charge"
    payload = orjson.loads(commands[0][4])
    assert (payload["customer"], payload["cents"]) == ("it's", 1)
    assert commands[0][5:] == ["--id=order-7", "--in=2h", "--reason=a call"]
    assert commands[1][5:] == ["--id=order-7", "--at=2050-01-31T09:00:00+00:00", "--reason=a call"]


async def test_a_clone_is_of_the_job_of_this_queue(console: ConsoleLab, admin: AdminClient) -> None:
    await admin.creation.create("shop", "charge", SECRETS, id="order-1")
    await admin.creation.create("shop", "refund", {"order": "the other"}, id="order-1")
    assert (await console.see(f"{FORM}?like=order-1")).fields["payload/customer"] == "acme"
    other = await console.see("/queues/shop/refund/new?like=order-1")
    assert other.fields["payload/order"] == "the other"
    unknown = await console.see(f"{FORM}?like=order-9")
    assert "This queue has no job order-9: the form is empty." in unknown.text


async def test_a_payload_of_another_version_is_no_template(
    console: ConsoleLab, server: EmbeddedServer
) -> None:
    older = created(job=JobAddress("shop", "charge", "old"), payload={"customer": "of old"})
    async with probe(server.url) as raw:
        await write(raw, older.job, older)
    page = await console.see(f"{FORM}?like=old")
    assert "The payload of job old has version 1, and the queue takes version 2" in page.text
    assert page.fields["payload/customer"] == ""


@pytest.mark.parametrize("delay", ["99999999999999d", "99999999d", "0s"])
async def test_a_delay_that_is_too_long_is_refused_beside_the_form(
    console: ConsoleLab, delay: str
) -> None:
    given = {"payload/customer": "acme", "payload/cents": "1", "delay": delay}
    page = Seen.of(await console.send(FORM, **given, action="preview"))
    assert page.status == 200
    assert "It would" not in page.text
    assert 'class="problem"' in page.html
