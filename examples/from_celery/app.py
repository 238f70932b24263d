"""The tasks of a Celery application as jobs."""

from __future__ import annotations

from pydantic import BaseModel

from trellis_jobs import ActiveJob, Fail, Jobs, KeyConcurrency, Retry, Service, job


class ProviderBusy(Exception):
    """The provider's answer was 429 or 503."""


class Signup(BaseModel):
    user_id: int
    email: str


class AccountJobs(Jobs, service="accounts"):
    send_welcome = job(Signup, str, max_deliver=5, backoff=[1, 2, 4, 8], timeout=30)
    sync_user = job(Signup, concurrency=10, key=KeyConcurrency(["users", "/user_id"]))


service = Service(AccountJobs)


@service.jobs.send_welcome.handle
async def send_welcome(job: ActiveJob[Signup]) -> str:
    if "@" not in job.payload.email:
        raise Fail(f"{job.payload.email} is not an email address")
    try:
        message = deliver(job.payload.email)
    except ProviderBusy as busy:
        raise Retry("the provider is busy", after=60) from busy
    await service.jobs.sync_user.create(job.payload, job_id=f"sync-after-{job.id}")
    return message


@service.jobs.sync_user.handle
def sync_user(job: ActiveJob[Signup]) -> None:
    job.log(f"user {job.payload.user_id} is in sync")


def deliver(email: str) -> str:
    if email.startswith("busy@"):
        raise ProviderBusy
    return f"welcome sent to {email}"
