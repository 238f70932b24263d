"""The service: `trellis-jobs worker examples.webhooks.app:service`."""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, datetime

from pydantic import BaseModel, HttpUrl, JsonValue

from examples.webhooks.http_post import Answer, post
from examples.webhooks.retry_after import seconds_to_wait
from examples.webhooks.signature import sign
from trellis_jobs import ActiveJob, Fail, Jobs, Retry, Service, job

SECRET = os.environ.get("WEBHOOK_SECRET", "not-a-secret")
GONE = 410
LONGEST_WAIT = 3600.0


class Delivery(BaseModel):
    url: HttpUrl
    event: str
    data: JsonValue = None


class Refused(Exception):
    """The receiver answered with an error, and may accept the next try."""


class WebhookJobs(Jobs, service="webhooks"):
    # Short delays for the demo. Use hours and days in production.
    deliver = job(Delivery, int, concurrency=20, max_deliver=4, backoff=[0.2, 0.4, 0.8], timeout=15)


service = Service(WebhookJobs)


@service.jobs.deliver.handle
def deliver(job: ActiveJob[Delivery]) -> int:
    """A plain function runs in a thread, so it may block. Returns the receiver's status."""
    body = json.dumps({"type": job.payload.event, "data": job.payload.data}).encode()
    # Every try has the same id, so that the receiver can detect a repetition.
    headers = sign(body, message_id=job.id, at=int(time.time()), secret=SECRET)
    answer = post(str(job.payload.url), body, headers)
    raise_for_status(answer, datetime.now(UTC))
    return answer.status


def raise_for_status(answer: Answer, now: datetime) -> None:
    """Raises Fail, Retry or Refused if the delivery was not accepted."""
    if answer.is_good:
        return
    if answer.status == GONE:
        raise Fail("the receiver wants no more of them (410)")
    wait = seconds_to_wait(answer.retry_after, now)
    if wait is not None:
        raise Retry(f"the receiver asks for {wait:g} s", after=min(wait, LONGEST_WAIT))
    raise Refused(f"the receiver answered {answer.status}")
