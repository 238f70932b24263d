"""Follow a long job from outside while it runs, and cancel it."""

from __future__ import annotations

import asyncio

from example_server import a_server

from trellis_jobs import ActiveJob, JobCancelled, Jobs, Service, job


class ReportJobs(Jobs, service="reports"):
    yearly_report = job(int, str)


service = Service(ReportJobs)


@service.jobs.yearly_report.handle
async def report(job: ActiveJob[int]) -> str:
    job.log(f"reading the orders of {job.payload}")
    try:
        for month in range(1, 13):
            await asyncio.sleep(0.2)
            job.progress(current=month, total=12, step=f"month {month}")
    except asyncio.CancelledError:
        print(f"handler: told to stop, because the job is over: {job.cancelled}")
        raise  # clean up, then let it pass
    return f"report of {job.payload}"


async def main(url: str) -> None:
    async with service.connect(url):
        ref = await service.jobs.yearly_report.create(2025)
        async for seen in ref.watch():  # the job after each of its events
            done = seen.progress.current if seen.progress else None
            print(f"watcher: {seen.state}, {done or 0} of 12 months")
            if done is not None and done >= 3 and not seen.is_over:
                await ref.cancel("nobody reads it")
        try:
            await ref.wait(timeout=30)
        except JobCancelled as ended:
            print(f"waiter: {ended.why}")
        print(f"log: {(await ref.get()).logs[0].message}")


if __name__ == "__main__":
    with a_server() as url:
        asyncio.run(main(url))
