"""The Flask example under gunicorn, whose workers are forked after the application was loaded."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from examples.flask_shop.app import app
from examples.shop.jobs import service
from tests.examples.web import serving
from trellis_jobs.testing import drain, inline

GUNICORN = (
    *("gunicorn", "--bind", "fd://{fd}", "--workers", "2", "--threads", "4", "--preload"),
    *("--no-control-socket", "--log-level", "warning", "examples.flask_shop.app:app"),
)


def order(number: int) -> dict[str, object]:
    return {"number": number, "email": "ada@example.com"}


async def test_forked_workers_of_gunicorn_create_jobs(jobs_server: str) -> None:
    with serving(*GUNICORN, NATS_URL=jobs_server) as web:
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda n: web.post("/orders", order(n)), range(20)))
        assert {status for status, _ in answers} == {202}
        assert web.post("/orders", order(7)) == (200, {"job": "receipt-7"})
        assert web.post("/orders", {"number": 1})[0] == 400
        assert web.get("/orders/7/receipt") == (200, {"state": "pending", "result": None})
        assert web.get("/orders/99/receipt")[0] == 404
        async with service.connect(jobs_server, workers=False):
            assert len((await drain(service)).in_state("completed")) == 20
        receipt = "receipt of order 7 sent to ada@example.com"
        assert web.get("/orders/7/receipt") == (200, {"state": "completed", "result": receipt})


async def test_the_application_is_tested_inline() -> None:
    """As the guide shows it: Flask's own test client, and neither server nor worker."""
    web = app.test_client()
    async with inline(service):
        taken = await asyncio.to_thread(web.post, "/orders", json=order(1))
        assert taken.status_code == 202
        shown = await asyncio.to_thread(web.get, "/orders/1/receipt")
        assert shown.get_json()["state"] == "completed"
