"""The resources example: its own tests, and a real worker."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from examples.resources.app import Payment, service
from examples.resources.test_app import (  # noqa: F401 - they are collected here
    test_a_fake_takes_the_place_of_the_database,
    test_payments_are_added_up,
)
from trellis_jobs.testing import ConnectService


async def test_a_worker_opens_the_ledger_and_times_every_attempt(
    connected_service: ConnectService,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("LEDGER", str(tmp_path / "ledger.db"))
    caplog.set_level(logging.INFO, "examples.resources.app")
    async with connected_service(service, workers=True):
        ref = await service.jobs.book.create(Payment(customer="acme", cents=100))
        assert await ref.wait(10) == 100
    assert f"job {ref.id} ran for" in caplog.text
