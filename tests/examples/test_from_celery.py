"""What the guide for users of Celery promises of its code."""

from __future__ import annotations

import pytest

from examples.from_celery.app import Signup, service
from trellis_jobs import Fail, Retry
from trellis_jobs.testing import assert_enqueued, inline, run_handler


async def test_a_task_that_starts_another() -> None:
    async with inline(service):
        ref = await service.jobs.send_welcome.create(Signup(user_id=7, email="ada@example.com"))
        assert await ref.wait() == "welcome sent to ada@example.com"
        (synced,) = await assert_enqueued(service.jobs.sync_user, {"user_id": 7})
        assert synced.ref.id == f"sync-after-{ref.id}"
        assert synced.job.state == "completed"


async def test_retries_and_errors_that_are_final() -> None:
    with pytest.raises(Retry) as again:
        await run_handler(service.jobs.send_welcome, Signup(user_id=7, email="busy@example.com"))
    assert again.value.after is not None
    assert again.value.after.total_seconds() == 60
    with pytest.raises(Fail, match="not an email address"):
        await run_handler(service.jobs.send_welcome, Signup(user_id=7, email="ada"))
