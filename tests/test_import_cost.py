"""What `import trellis_jobs` loads, and above all what it does not.

A web application that only creates jobs paid 0.4 s for it, part of that for libraries which only
the command line, the admin runtime, exporters or workers use.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Final

import pytest

PRODUCER: Final = """
import sys
from pydantic import BaseModel
from trellis_jobs import Jobs, Service, job

class Order(BaseModel):
    number: int

class ShopJobs(Jobs, service="shop"):
    ship = job(Order, str)

service = Service(ShopJobs)
print("\\n".join(sys.modules))
"""
NOT_FOR_PRODUCERS: Final = (
    "aiosqlite",
    "click",
    "cronsim",
    "jobs_admin",
    "jsonschema",
    "nacl",
    "nkeys",
    "opentelemetry",
    "referencing",
    "rich",
    "sqlite3",
    "jobs_admin.cli",
    "trellis_jobs.contract.manifest",
    "trellis_jobs.contract.schedule_entry",
    "trellis_jobs.embedded",
    "trellis_jobs.model.schedules",
    "trellis_jobs.testing",
    "trellis_jobs.worker.host",
    "typer",
    "uvloop",
)


@pytest.fixture(scope="module")
def loaded() -> frozenset[str]:
    ran = subprocess.run(
        (sys.executable, "-c", PRODUCER), check=True, capture_output=True, text=True
    )
    return frozenset(ran.stdout.split())


@pytest.mark.parametrize("module", NOT_FOR_PRODUCERS)
def test_a_producer_does_not_load(loaded: frozenset[str], module: str) -> None:
    assert module not in loaded


def test_the_modules_of_a_producer_are_seen_at_all(loaded: frozenset[str]) -> None:
    assert {"trellis_jobs", "trellis_jobs.service.service", "nats"} <= loaded
