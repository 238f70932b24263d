"""`python -m examples.webhooks`: one delivery to each kind of receiver."""

from __future__ import annotations

import asyncio

from pydantic import HttpUrl

from examples.running import running_example
from examples.webhooks.app import Delivery, service
from examples.webhooks.receiver import ANSWERS, receiving
from trellis_jobs import JobEnded, JobRef


async def outcome(ref: JobRef[int]) -> str:
    try:
        return f"delivered ({await ref.wait(timeout=60)})"
    except JobEnded as ended:  # JobFailed, JobDead, …
        return f"{ended.state}: {ended.why}"


async def main() -> None:
    with receiving() as receiver:
        async with running_example(service):
            refs = {
                path: await service.jobs.deliver.create(
                    Delivery(
                        url=HttpUrl(f"{receiver}{path}"), event="order.paid", data={"order": 7}
                    )
                )
                for path in ANSWERS
            }
            for path, ref in refs.items():
                result = await outcome(ref)
                job = await ref.get()
                print(f"{path:<8} {result}")
                for error in job.errors:
                    print(f"           try {error.tries}: {error.message}")


if __name__ == "__main__":
    asyncio.run(main())
