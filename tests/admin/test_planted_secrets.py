"""Handlers quote their secrets wherever they can; no answer, file or log of the admin has them."""

from __future__ import annotations

import gzip
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

from jobs_admin.api.client import AdminClient
from jobs_admin.api.contract import RPCS
from jobs_admin.maintenance.retention.archive import FolderArchive
from tests.admin.admin_lab import daemon_at, stranger_at, until_shown
from tests.support.lab import probe
from tests.support.planted import (
    DOINGS,
    PlantedJobs,
    charge_that,
    everything_logged,
    found_in,
    planted_service,
)
from trellis_jobs import JobEnded, JobRef
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.environment import utc_now
from trellis_jobs.model.job import fold

FOR_SECRETS = "Jobs.GetSecrets"
PAGE = {"limit": 50}
KEY = {"service": "planted", "type": "charge", "key": "none"}


def request(method: str, job_id: str) -> dict[str, Any]:
    """A body that the method takes; a method that is not here is asked with nothing."""
    asked = RPCS[method].input.model_fields
    if "id" in asked:
        return {"id": job_id}
    past = (utc_now() - timedelta(minutes=1)).isoformat()
    if "at" in asked or method == "Jobs.History":
        return {"at" if "at" in asked else "since": past}
    if "key" in asked and asked["key"].is_required():
        return {**KEY, "jobId": job_id} if "job_id" in asked else KEY
    return PAGE if "limit" in asked and asked["limit"].is_required() else {}


async def ended(jobs: PlantedJobs) -> list[JobRef[Any]]:
    refs = [await jobs.charge.create(charge_that(does)) for does in DOINGS]
    for ref in refs:
        try:
            await ref.wait(timeout=20)
        except JobEnded:
            continue
    return refs


async def test_they_are_nowhere(server: EmbeddedServer, tmp_path: Path) -> None:
    file = tmp_path / "jobs.sqlite"
    with everything_logged() as logged:
        async with (
            planted_service().connect(server.url) as service,
            daemon_at(server.url, file),
            AdminClient.connect(server.url) as admin,
            stranger_at(server.url) as stranger,
        ):
            refs = await ended(service.jobs)
            for ref in refs:
                await until_shown(admin, [ref.id], (await ref.get()).state)
            for ref in refs:
                for method in RPCS.keys() - {FOR_SECRETS}:
                    answer = await stranger.ask(method, request(method, ref.id))
                    assert found_in(json.dumps(answer)) == [], method
            told = await stranger.ask(FOR_SECRETS, {"id": refs[0].id})
            assert found_in(json.dumps(told)), "they are there for those who may ask"
            async with probe(server.url) as raw:
                histories = [await raw.events.history(ref.address) for ref in refs]
            jobs = [job for job in map(fold, histories) if job is not None]
            for at in (job.run.started_at for job in jobs if job.run.started_at):
                answer = await stranger.ask("Jobs.ListAt", {"at": at.isoformat()})
                assert answer["entries"]
                assert found_in(json.dumps(answer)) == []
            archive = FolderArchive(tmp_path / "archive")
            await archive.keep(list(zip(jobs, histories, strict=True)), jobs[0].created_at.date())
            assert_not_in_files(tmp_path)
    assert found_in(logged.getvalue()) == []


def assert_not_in_files(folder: Path) -> None:
    files = [*folder.glob("jobs.sqlite*"), *folder.glob("archive/*")]
    assert {"jobs.sqlite", "jobs.sqlite-wal"} <= {file.name for file in files}
    for file in files:
        assert found_in(content(file)) == [], file


def content(file: Path) -> str:
    data = file.read_bytes()
    return (gzip.decompress(data) if file.suffix == ".gz" else data).decode(errors="replace")
