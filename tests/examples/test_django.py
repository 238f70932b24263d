"""The Django example under gunicorn."""

from __future__ import annotations

from examples.shop.jobs import service
from tests.examples.web import serving
from trellis_jobs.testing import drain

GUNICORN = (
    *("gunicorn", "--bind", "fd://{fd}", "--threads", "4", "--no-control-socket"),
    *("--log-level", "warning", "examples.django_shop.app:application"),
)


async def test_a_django_view_creates_jobs(jobs_server: str) -> None:
    order = {"number": 7, "email": "ada@example.com"}
    with serving(*GUNICORN, NATS_URL=jobs_server) as web:
        assert web.post("/orders", order) == (202, {"job": "receipt-7"})
        assert web.post("/orders", order) == (200, {"job": "receipt-7"})
    async with service.connect(jobs_server, workers=False):
        (done,) = (await drain(service)).in_state("completed")
        assert done.result == "receipt of order 7 sent to ada@example.com"
