"""The Sentry example, with a transport that keeps events here: nothing leaves the machine."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
import sentry_sdk
from sentry_sdk.envelope import Envelope
from sentry_sdk.integrations.logging import LoggingIntegration
from sentry_sdk.transport import Transport

from examples.sentry_shop.app import JobOfLine, Order, sentry, service
from trellis_jobs.testing import ConnectService, drain, inline


class Recorded(Transport):
    def __init__(self) -> None:
        super().__init__()
        self.events: list[Any] = []

    def capture_envelope(self, envelope: Envelope) -> None:
        if (event := envelope.get_event()) is not None:
            self.events.append(event)


@pytest.fixture
def sent() -> Iterator[list[Any]]:
    transport = Recorded()
    sentry_sdk.init(
        dsn="https://key@sentry.invalid/1",
        transport=transport,
        integrations=[LoggingIntegration(event_level=None)],
    )
    with sentry.override(None):
        yield transport.events
    sentry_sdk.get_client().close()
    sentry_sdk.get_global_scope().set_client(None)


async def test_what_ends_a_job_is_reported_once_with_its_job(
    connected_service: ConnectService, sent: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with connected_service(service):
        failed = await service.jobs.ship.create(Order(number=13))
        dead = await service.jobs.ship.create(Order(number=0))
        await service.jobs.ship.create(Order(number=1))
        await drain(service)
    reports = {event["tags"]["job"]: event for event in sent}
    assert len(sent) == 2
    assert reports.keys() == {failed.id, dead.id}
    last = reports[dead.id]
    assert last["exception"]["values"][-1]["type"] == "ConnectionError"
    assert (last["contexts"]["job"]["try"], last["contexts"]["job"]["of"]) == (3, 3)
    crumbs = [crumb["message"] for crumb in last["breadcrumbs"]["values"]]
    assert "shipping order 0" in crumbs


async def test_lines_below_a_handler_name_their_job(
    sent: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    caplog.handler.addFilter(JobOfLine())
    async with inline(service):
        ref = await service.jobs.ship.create(Order(number=1))
    logging.getLogger("elsewhere").info("no job here")
    jobs = {record.getMessage(): getattr(record, "job", None) for record in caplog.records}
    assert jobs["shipping order 1"] == ref.id
    assert jobs["no job here"] == "-"
    assert jobs[f"job {ref.id} of shop/ship completed on try 1"] == ref.id


async def test_the_lifespan_sets_sentry_up_without_an_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("SENTRY_DSN", raising=False)
    async with inline(service):
        assert await (await service.jobs.ship.create(Order(number=1))).wait() == "shipped"
