"""The FastAPI example under uvicorn, and in a test as the guide shows it."""

from __future__ import annotations

from fastapi import Response

from examples.fastapi_shop.app import receipt, take_order
from examples.shop.jobs import Order, service
from tests.examples.web import serving
from trellis_jobs import JobState
from trellis_jobs.testing import drain, inline

UVICORN = ("uvicorn", "--fd", "{fd}", "--log-level", "warning", "examples.fastapi_shop.app:app")
ORDER = {"number": 7, "email": "ada@example.com"}
SENT = "receipt of order 7 sent to ada@example.com"


async def test_endpoints_create_jobs_and_show_them(jobs_server: str) -> None:
    with serving(*UVICORN, NATS_URL=jobs_server) as web:
        assert web.post("/orders", ORDER) == (202, {"job": "receipt-7"})
        assert web.post("/orders", ORDER) == (200, {"job": "receipt-7"})
        assert web.post("/orders", {"number": 1})[0] == 422
        assert web.get("/orders/7/receipt") == (200, {"state": "pending", "result": None})
        assert web.get("/orders/99/receipt")[0] == 404
        async with service.connect(jobs_server, workers=False):
            await drain(service)
        assert web.get("/orders/7/receipt") == (200, {"state": "completed", "result": SENT})


async def test_endpoints_are_tested_inline() -> None:
    async with inline(service):
        await take_order(Order.model_validate(ORDER), Response())
        shown = await receipt(7)
    assert (shown.state, shown.result) == (JobState.COMPLETED, SENT)
