"""`python -m examples.reports`: one job is cancelled, one expires, one completes."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from examples.reports.app import Request, folder, service
from examples.reports.report_file import ReportFile
from examples.running import running_example
from trellis_jobs import JobEnded, JobRef


async def main() -> None:
    async with running_example(service):
        build = service.jobs.build
        endless = await build.create(Request(title="everything", months=1200))
        urgent = await build.create(Request(title="urgent", months=3), deadline=0.5)
        sales = await build.create(Request(title="sales", months=6))
        await until_late(urgent)
        await endless.cancel("no longer needed")
        await follow(sales)
        for title, ref in (("everything", endless), ("urgent", urgent), ("sales", sales)):
            print(f"{title}: {await outcome(ref)}")
        print(f"unfinished files: {len(list(folder().glob('*.part')))}")


async def until_late(ref: JobRef[ReportFile]) -> None:
    deadline = (await ref.get()).deadline
    if deadline is not None:
        await asyncio.sleep((deadline - datetime.now(UTC)).total_seconds())


async def follow(ref: JobRef[ReportFile]) -> None:
    """Prints the progress of the job."""
    async for job in ref.watch():
        if job.progress is not None and not job.is_over:
            print(f"sales: {job.progress.current} of {job.progress.total}")


async def outcome(ref: JobRef[ReportFile]) -> str:
    try:
        report = await ref.wait(timeout=60)
    except JobEnded as ended:
        return f"{ended.state}: {ended.why}"
    return f"{report.lines} lines in {report.path}, sha256 {report.sha256[:12]}"


if __name__ == "__main__":
    asyncio.run(main())
