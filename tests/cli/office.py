"""A service with schedules, for commands."""

from __future__ import annotations

from pydantic import BaseModel

from trellis_jobs import ActiveJob, Cron, Every, Jobs, Service, job


class Report(BaseModel):
    customer: str


class OfficeJobs(Jobs, service="office"):
    report = job(
        Report,
        str,
        ack_wait=1,
        schedules={
            "nightly": Cron("30 2 * * *", tz="Europe/Berlin", payload=Report(customer="all")),
            "hourly": Every(3600, payload=Report(customer="acme")),
        },
    )


class ChangedJobs(Jobs, service="office"):
    """Later at night, no longer every hour, and a new one at noon."""

    report = job(
        Report,
        str,
        ack_wait=1,
        schedules={
            "nightly": Cron("30 3 * * *", tz="Europe/Berlin", payload=Report(customer="all")),
            "noon": Cron("0 12 * * *", payload=Report(customer="all"), overlap="skip"),
        },
    )


service = Service(OfficeJobs)
changed = Service(ChangedJobs)


@service.jobs.report.handle
async def report(job: ActiveJob[Report]) -> str:
    return job.payload.customer
