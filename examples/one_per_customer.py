"""At most one job per customer at a time, over all workers: python examples/one_per_customer.py."""

from __future__ import annotations

import asyncio

from example_server import a_server
from pydantic import BaseModel

from trellis_jobs import (
    Accepted,
    ActiveJob,
    Jobs,
    KeyConcurrency,
    QueueDepth,
    Rejected,
    Service,
    job,
)


class SyncMailbox(BaseModel):
    customer: str
    folder: str


class MailJobs(Jobs, service="mail"):
    sync_mailbox = job(
        SyncMailbox,
        concurrency=20,
        key=KeyConcurrency(["mailbox", "/customer"]),
        queue=QueueDepth(max_queued_per_key=2),
    )


service = Service(MailJobs)


@service.jobs.sync_mailbox.handle
async def sync(active: ActiveJob[SyncMailbox]) -> None:
    print(f"{active.key} begins with {active.payload.folder}")
    await asyncio.sleep(0.2)
    print(f"{active.key} is done with {active.payload.folder}")


async def main(url: str) -> None:
    async with service.connect(url):
        refs, refusals = [], []
        for folder in ("inbox", "sent", "spam", "drafts"):
            match await service.jobs.sync_mailbox.submit(
                SyncMailbox(customer="acme", folder=folder)
            ):
                case Accepted(ref):
                    refs.append(ref)
                case Rejected(reason=reason, active=active, queued=queued):
                    refusals.append(f"no room for {folder}: {reason}, {active + queued} before it")
        for ref in refs:
            await ref.wait(timeout=30)
        print(*refusals)


if __name__ == "__main__":
    with a_server() as url:
        asyncio.run(main(url))
