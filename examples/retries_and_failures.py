"""What happens when a handler raises: another try, an end, or a death that explains itself."""

from __future__ import annotations

import asyncio

from example_server import a_server
from pydantic import BaseModel

from trellis_jobs import ActiveJob, Fail, JobEnded, JobRef, Jobs, Retry, Service, job


class Charge(BaseModel):
    order: int
    card: str


class OutOfMoney(Exception):
    pass


class ShopJobs(Jobs, service="shop"):
    # Three tries in all, 0.1 s and then 0.2 s apart; OutOfMoney is not worth a second one.
    charge = job(
        Charge, str, concurrency=4, max_deliver=3, backoff=[0.1, 0.2], permanent=[OutOfMoney]
    )


service = Service(ShopJobs)


@service.jobs.charge.handle
async def charge(job: ActiveJob[Charge]) -> str:
    match job.payload.card:
        case "flaky" if job.tries == 1:
            raise ConnectionError("the bank hung up")  # any exception: tried again
        case "busy" if job.tries == 1:
            raise Retry("the bank asks for patience", after=0.5)  # again, when the handler says
        case "stolen":
            raise Fail("the card is blocked")  # never again
        case "empty":
            raise OutOfMoney("0.12 left")  # never again: the queue says so
        case "cursed":
            raise TimeoutError("the bank is gone")  # every time, until the tries are used up
    return f"receipt {job.payload.order}"


async def outcome(ref: JobRef[str]) -> str:
    try:
        return await ref.wait(timeout=30)
    except JobEnded as ended:  # JobFailed, JobDead, JobCancelled, …
        return f"{ended.state}: {ended.why}"


async def main(url: str) -> None:
    async with service.connect(url):
        for order, card in enumerate(("good", "flaky", "busy", "stolen", "empty", "cursed"), 1):
            ref = await service.jobs.charge.create(Charge(order=order, card=card))
            said = await outcome(ref)
            tries = (await ref.get()).tries
            print(f"{card:<7} {said}  (tries: {tries})")


if __name__ == "__main__":
    with a_server() as url:
        asyncio.run(main(url))
