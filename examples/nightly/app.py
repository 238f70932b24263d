"""A report every night, and a reminder some days after it."""

from __future__ import annotations

from datetime import timedelta

from pydantic import BaseModel

from trellis_jobs import ActiveJob, Cron, Jobs, Service, Snooze, job


class Region(BaseModel):
    region: str


class Reminder(BaseModel):
    about: str


class ReportsJobs(Jobs, service="reports"):
    report = job(
        Region,
        str,
        deadline=12 * 3600,
        schedules={
            "europe": Cron(
                "0 3 * * *", tz="Europe/Berlin", payload=Region(region="eu"), overlap="skip"
            ),
        },
    )
    reminder = job(Reminder)


service = Service(ReportsJobs)
READY = {"eu"}


@service.jobs.report.handle
async def report(job: ActiveJob[Region]) -> str:
    if job.payload.region not in READY:
        raise Snooze("the sales figures are not there yet", for_=timedelta(minutes=10))
    day = job.scheduled_for
    title = f"report of {job.payload.region}" + (f" for {day:%Y-%m-%d}" if day else "")
    await service.jobs.reminder.create(Reminder(about=title), delay=timedelta(days=3))
    return title


@service.jobs.reminder.handle
async def remind(job: ActiveJob[Reminder]) -> None:
    job.log(f"has anyone read the {job.payload.about}?")
