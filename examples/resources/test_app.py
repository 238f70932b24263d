"""The service with a database in memory, and with a fake."""

from __future__ import annotations

from examples.resources.app import Ledger, Payment, ledger, service
from trellis_jobs.testing import inline, run_handler


class FullLedger(Ledger):
    def add(self, cents: int) -> int:
        return 1_000_000 + cents


async def test_payments_are_added_up() -> None:
    with ledger.override(Ledger(":memory:")) as opened:
        async with inline(service):
            for cents in (100, 250):
                ref = await service.jobs.book.create(Payment(customer="acme", cents=cents))
            assert await ref.wait() == 350
        opened.close()


async def test_a_fake_takes_the_place_of_the_database() -> None:
    with ledger.override(FullLedger(":memory:")) as fake:
        paid = Payment(customer="acme", cents=5)
        assert await run_handler(service.jobs.book, paid) == 1_000_005
        fake.close()
