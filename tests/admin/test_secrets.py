"""What is secret in a payload or a result is in the log, and in no answer but one."""

from __future__ import annotations

import gzip
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import orjson
import pytest
from pydantic import BaseModel, SecretStr

from jobs_admin.api.client import AdminClient
from jobs_admin.api.contract import RPCS, Capability
from jobs_admin.api.job_filter import JobFilter
from jobs_admin.maintenance.retention.archive import FolderArchive
from tests.admin.admin_lab import Stranger, daemon_at, stranger_at, until_shown
from tests.support.lab import probe
from trellis_jobs import (
    ActiveJob,
    Fail,
    JobRef,
    Jobs,
    JobState,
    PayloadInvalid,
    Secret,
    Service,
    job,
)
from trellis_jobs.embedded import HOST, EmbeddedServer
from trellis_jobs.errors import NotPermitted
from trellis_jobs.model import subjects
from trellis_jobs.model.job import fold
from trellis_jobs.model.redaction import REDACTED
from trellis_jobs.testing import assert_enqueued

NUMBER, PIN, RECEIPT = "4000-0000-1234", "pin-98765", "receipt-55555"
EVERY_SECRET = (NUMBER, PIN, RECEIPT)


class Card(BaseModel):
    number: SecretStr
    holder: str


class Charge(BaseModel):
    card: Card
    pin: Annotated[str, Secret()] = PIN
    fails: bool = False


class Receipt(BaseModel):
    token: SecretStr
    cents: int


class ShopJobs(Jobs, service="shop"):
    charge = job(Charge, Receipt)


CHARGE = Charge(card=Card(number=SecretStr(NUMBER), holder="ann"))


@dataclass
class Shop:
    jobs: ShopJobs
    admin: AdminClient
    stranger: Stranger
    seen: list[Charge]
    file: Path

    async def done(self, *, fails: bool = False) -> JobRef[Receipt]:
        ref = await self.jobs.charge.create(CHARGE.model_copy(update={"fails": fails}))
        state = JobState.FAILED if fails else JobState.COMPLETED
        await until_shown(self.admin, [ref.id], state)
        return ref


@asynccontextmanager
async def shop(url: str, folder: Path) -> AsyncIterator[Shop]:
    service, seen = Service(ShopJobs), list[Charge]()

    @service.jobs.charge.handle
    async def charge(job: ActiveJob[Charge]) -> Receipt:
        seen.append(job.payload)
        if job.payload.fails:
            raise Fail("declined")
        return Receipt(token=SecretStr(RECEIPT), cents=7)

    file = folder / "jobs.sqlite"
    async with (
        service.connect(url),
        daemon_at(url, file),
        AdminClient.connect(url) as admin,
        stranger_at(url) as stranger,
    ):
        yield Shop(service.jobs, admin, stranger, seen, file)


@pytest.fixture
async def there(server: EmbeddedServer, tmp_path: Path) -> AsyncIterator[Shop]:
    async with shop(server.url, tmp_path) as made:
        yield made


def assert_hidden(told: object) -> None:
    text = told if isinstance(told, str) else json.dumps(told)
    assert not [secret for secret in EVERY_SECRET if secret in text]


async def test_the_handler_and_a_caller_that_waits_get_what_was_given(there: Shop) -> None:
    ref = await there.done()
    assert there.seen == [CHARGE]
    assert (await ref.wait(timeout=5)).token.get_secret_value() == RECEIPT


async def test_no_answer_has_them_but_the_one_that_is_for_them(there: Shop) -> None:
    done, failed = await there.done(), await there.done(fails=True)
    asked: dict[str, dict[str, Any]] = {
        "Jobs.List": {"limit": 10},
        "Jobs.Get": {"id": done.id},
        "Jobs.Events": {"id": done.id},
        "Jobs.Explain": {"id": failed.id},
        "Jobs.Retry": {"id": failed.id},
    }
    for method, body in asked.items():
        answer = await there.stranger.ask(method, body)
        assert_hidden(answer)
        assert method == "Jobs.Explain" or REDACTED in json.dumps(answer), method
    got = await there.admin.get(done.id)
    assert got.payload == {
        "card": {"number": REDACTED, "holder": "ann"},
        "pin": REDACTED,
        "fails": False,
    }
    assert got.result == {"token": REDACTED, "cents": 7}
    assert (got.secrets, got.result_secrets) == (("/card/number", "/pin"), ("/token",))

    told = await there.admin.secrets(done.id)
    assert told.payload == {
        "card": {"number": NUMBER, "holder": "ann"},
        "pin": PIN,
        "fails": False,
    }
    assert told.result == {"token": RECEIPT, "cents": 7}


async def test_a_retried_job_has_its_secrets_again_and_hides_them_again(there: Shop) -> None:
    ref = await there.done(fails=True)
    seq = (await there.admin.retry(ref.id)).seq
    await until_shown(there.admin, [ref.id], JobState.FAILED)
    assert [charge.card.number.get_secret_value() for charge in there.seen] == [NUMBER] * 2
    assert_hidden((await there.admin.get(ref.id, min_seq=seq)).model_dump(mode="json"))


async def test_they_are_not_found_and_not_in_the_file(there: Shop) -> None:
    ref = await there.done()

    async def found(**payload: Any) -> list[str]:
        page = await there.admin.list_jobs(JobFilter(payload=payload))
        return [job.id for job in page.entries]

    assert await found(**{"card.holder": "ann"}) == [ref.id]
    assert await found(**{"card.number": NUMBER}) == []
    for part in there.file.parent.glob("jobs.sqlite*"):
        assert not [secret for secret in EVERY_SECRET if secret.encode() in part.read_bytes()]


async def test_they_do_not_outlive_the_log_in_the_archive(
    there: Shop, server: EmbeddedServer, tmp_path: Path
) -> None:
    ref = await there.done()
    async with probe(server.url) as raw:
        history = await raw.events.history(ref.address)
    gone = fold(history)
    assert gone is not None
    await FolderArchive(tmp_path / "archive").keep([(gone, history)], gone.created_at.date())
    [file] = (tmp_path / "archive").iterdir()
    kept = gzip.decompress(file.read_bytes()).decode()
    assert_hidden(kept)
    assert orjson.loads(kept)["job"]["payload"]["card"]["holder"] == "ann"


async def test_what_we_log_and_complain_about_has_none(
    there: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    ref = await there.done(fails=True)
    with pytest.raises(AssertionError) as refuted:
        await assert_enqueued(there.jobs.charge, {"pin": "another"})
    assert_hidden(str(refuted.value))
    with pytest.raises(PayloadInvalid) as refused:
        await there.jobs.charge.create({"card": {"number": [NUMBER]}, "pin": PIN})  # type: ignore[arg-type]
    assert_hidden(str(refused.value))
    assert_hidden(repr(await there.admin.explain(ref.id)))
    assert_hidden(
        "\n".join(f"{record.getMessage()} {record.__dict__}" for record in caplog.records)
    )


def waiting_pulls(*capabilities: Capability) -> str:
    allowed = [subjects.rpc(name) for name, rpc in RPCS.items() if rpc.needs in capabilities]
    return json.dumps({"publish": allowed, "subscribe": ["_INBOX.>"]})


async def test_to_be_told_them_is_a_right_of_its_own(tmp_path: Path) -> None:
    both = waiting_pulls(Capability.READ, Capability.MUTATE)
    config = f"""authorization {{ users: [
        {{ user: owner, password: owner }}
        {{ user: steward, password: steward, permissions: {both} }}
        {{ user: keeper, password: keeper, permissions: {waiting_pulls(Capability.SECRETS)} }}
    ] }}"""
    with EmbeddedServer.start(config=config) as server:

        def url(user: str) -> str:
            return f"nats://{user}:{user}@{HOST}:{server.port}"

        async with shop(url("owner"), tmp_path) as there:
            ref = await there.done()
            async with AdminClient.connect(url("steward")) as steward:
                assert_hidden((await steward.get(ref.id)).model_dump(mode="json"))
                with pytest.raises(NotPermitted, match=r"Jobs\.GetSecrets"):
                    await steward.secrets(ref.id)
            async with AdminClient.connect(url("keeper")) as keeper:
                told = await keeper.secrets(ref.id)
                assert told.result == {"token": RECEIPT, "cents": 7}
