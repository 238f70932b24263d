"""docker-compose.yml's three servers, and all that runs on them, with the rights of each."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import pytest

from examples.tenant_sync.app import Sync, TenantJobs
from jobs_admin.api.client import AdminClient
from jobs_admin.api.errors import Invalid
from tests.deploy.installation import Installation, installed
from tests.support.facts import until
from trellis_jobs import JobRef, JobState, Service
from trellis_jobs.errors import JobsError
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.client.connection import Connection
from trellis_jobs.jetstream.setup.features import jetstream_report, syncs_every_write

STREAMS = ("JOBS", "JOBS_WORK", "JOBS_ADVISORIES", "KV_JOBS_KEYS", "JOBS_CONTROL")
FAILOVER = 40.0


@pytest.fixture
def there(tmp_path: Path) -> Iterator[Installation]:
    with installed(tmp_path) as made:
        yield made


@asynccontextmanager
async def tenants(there: Installation) -> AsyncIterator[TenantJobs]:
    """Beside the example service, with its key: creates jobs whose fate we want to know."""
    service = Service(TenantJobs)
    async with service.connect(there.access("service"), workers=False):
        yield service.jobs


async def leaders(there: Installation) -> dict[str, str]:
    """Of each stream; each has three replicas, all of them there."""
    connection = await Connection.open(there.access("provision"), name="test")
    try:
        found = {}
        for stream in STREAMS:
            told = await api.request(connection, f"STREAM.INFO.{stream}")
            assert told["config"]["num_replicas"] == 3
            assert len(told["cluster"]["replicas"]) == 2
            found[stream] = told["cluster"]["leader"]
        return found
    finally:
        await connection.close()


@pytest.mark.timeout(150)
async def test_jobs_are_done_and_go_on_when_a_node_is_killed(there: Installation) -> None:
    await there.until_healthy()
    assert there.greets_another_node("nats-1", certificate="server")
    assert not there.greets_another_node("nats-1", certificate=None)
    assert "JOBS_WORK" in there.run("provision")
    leads = await leaders(there)
    provisioner = there.access("provision")
    seed = str(there.folder / "deploy/secrets/sys.nk")
    assert syncs_every_write(await jetstream_report(provisioner, seed))
    with ExitStack() as stack:
        worker = stack.enter_context(there.running("worker"))
        for replica in ("admin-1", "admin-2"):
            admin = stack.enter_context(there.running(replica))
            await admin.until_prints("admin runtime started")
        service = stack.enter_context(there.running("service", SYNC_EVERY="1"))
        await worker.until_prints("completed on try")
        await service.until_prints("sync initech: Accepted")
        assert "tenants" in there.run("operator")

        async with (
            tenants(there) as jobs,
            AdminClient.connect(there.access("operator"), by="ann", timeout=FAILOVER) as ann,
        ):
            await work_is_done_and_steered(jobs, ann)
            there.nodes[leads["JOBS"]].kill()
            await work_is_done_and_steered(jobs, ann)
            before = service.printed.count("Accepted")
            await until(
                lambda: service.printed.count("Accepted") > before,
                "the service goes on creating jobs",
            )
        assert [each.process.poll() for each in (worker, service)] == [None, None]


async def work_is_done_and_steered(jobs: TenantJobs, ann: AdminClient) -> None:
    done = await jobs.sync.create(Sync(tenant="umbrella", because="we ask"))
    assert await done.wait(timeout=FAILOVER) == len("umbrella")

    async def is_shown() -> bool:
        try:
            return (await ann.get(done.id)).state is JobState.COMPLETED
        except JobsError:  # until the projection knows it
            return False

    await until(is_shown, "the operator sees it done", deadline=FAILOVER)
    stopped = await until(lambda: cancelled_one(jobs, ann), "ann cancels one", deadline=FAILOVER)
    assert (await stopped.get()).state is JobState.CANCELLED


async def cancelled_one(jobs: TenantJobs, ann: AdminClient) -> JobRef[int] | None:
    """Or none, if it was done first: that takes it a second."""
    ref = await jobs.sync.create(Sync(tenant="hooli", because="unknown"))
    try:
        await ann.cancel(ref.address, reason="for a reason")
    except Invalid:
        return None
    return ref
