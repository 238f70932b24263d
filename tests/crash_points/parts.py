"""What a process under test does: work, create, or look after jobs, until it is told to stop."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Final

from jobs_admin.config import AdminConfig
from jobs_admin.daemon import serving
from jobs_admin.retention_policy import RetentionPolicy
from tests.chaos.notebook import Notebook
from tests.crash_points.mill import MILL, QUEUES, mill
from tests.support.example_service import Report, Task, TaskJobs
from tests.support.facts import DEADLINE, until
from tests.support.lab import Probe, probe
from trellis_jobs import Accepted, JobRef, Queue, Replaced, Service, Workers
from trellis_jobs.contract.topology import LOG, TO_WORK, WORK, Config, Topology
from trellis_jobs.errors import JobEnded, JobExists
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.setup.provision import provision
from trellis_jobs.model.states import OVER

OFTEN: Final = {
    "janitor_interval": timedelta(seconds=0.1),
    "reconcile_interval": timedelta(seconds=0.15),
    "reconcile_grace": timedelta(seconds=0.4),
    "retention_interval": timedelta(seconds=0.2),
    "operation_lease": timedelta(seconds=1),
    "overdue_grace": timedelta(seconds=0.4),
}
AT_ONCE: Final = RetentionPolicy(dict.fromkeys(OVER, timedelta(0)), junk=timedelta(0))
FILE: Final = "jobs.sqlite"
# More than are under way at once.
IN_A_ROW: Final = 600
ARCHIVE: Final = "archive"
# What scenarios write that is no event. A daemon removes it after a week, unless told otherwise.
JUNK: Final = ("trellis.jobs.mill.plain.none.unknown", "trellis.jobs.workers.mill.x.created")
_TIMEOUT: Final = 300.0


def config(url: str, folder: Path, **changes: object) -> AdminConfig:
    told = {"provision": True, **OFTEN, **changes}
    return AdminConfig(nats=url, path=folder / FILE, connect_timeout=DEADLINE, **told)  # type: ignore[arg-type]


async def work(url: str, folder: Path) -> None:
    await _work(mill(folder), url, folder, QUEUES)


async def work_strictly(url: str, folder: Path) -> None:
    """On one queue only."""
    await _work(mill(folder), url, folder, ["strict"])


async def hold(url: str, folder: Path) -> None:
    """Begin whatever comes, and finish nothing."""
    await _work(mill(folder, holds=True), url, folder, QUEUES)


async def hold_for_long(url: str, folder: Path) -> None:
    """Begin jobs with a long lease, finish none, and count as dead a second after the last beat."""
    service = mill(folder, holds=True, dead_after=1)
    await _work(service, url, folder, ["lasting", "final"])


async def be_directed(url: str, folder: Path) -> None:
    """Work, and beat often."""
    await _work(mill(folder, dead_after=2), url, folder, ["plain"])


async def share_slots(url: str, folder: Path) -> None:
    """Work on several queues, the most important first, with two jobs at once at most."""
    await _work(mill(folder), url, folder, ["plain", "keyed", "single"], total=2)


async def _work(
    service: Service[TaskJobs],
    url: str,
    folder: Path,
    queues: Sequence[str],
    total: int | None = None,
) -> None:
    async with service.connect(
        url, workers=Workers(queues, total_concurrency=total), connect_timeout=DEADLINE
    ):
        ending = asyncio.create_task(service.wait())
        await asyncio.sleep(0)  # now it listens to signals
        (folder / "ready").touch()
        await ending


async def drain(url: str, folder: Path) -> None:
    """Work until nothing is left."""
    service = mill(folder)
    async with service.connect(url, connect_timeout=DEADLINE):
        await service.drain()
    (folder / "ready").touch()


async def serve(url: str, folder: Path) -> None:
    await _serve(config(url, folder), folder)


async def serve_as_provisioned(url: str, folder: Path) -> None:
    """The streams were provisioned by another process. With health probes."""
    await _serve(config(url, folder, provision=False, health_port=0), folder)


async def serve_and_forget(url: str, folder: Path) -> None:
    """Jobs leave as soon as they are over, and what is no event at once."""
    await _serve(config(url, folder, retention=AT_ONCE, archive=folder / ARCHIVE), folder)


async def provision_as_operator(url: str, folder: Path) -> None:
    """As `infra apply` does: it moves and repairs the source of the work queue."""
    async with probe(url) as raw:
        await provision(raw.connection, Topology(raw.features, by_operator=True))
    (folder / "ready").touch()


async def repair_the_source(url: str, folder: Path) -> None:
    """One fault after the other, each as soon as the one before is repaired."""
    async with probe(url) as raw:
        topology = Topology(raw.features, by_operator=True)
        await provision(raw.connection, topology)
        for cause_fault in FAULTS:
            await cause_fault(raw)
            await provision(raw.connection, topology)
    (folder / "ready").touch()


async def have_another_filter(raw: Probe) -> None:
    config = await _source_consumer(raw)
    filtered = {"filter_subjects": config["filter_subjects"][:1]}
    await _make_source_consumer(raw, "update", config | filtered)


async def have_another_ack_policy(raw: Probe) -> None:
    config = await _source_consumer(raw)
    await have_no_consumer(raw)
    kept = {key: config[key] for key in config if key != "max_ack_pending"}
    await _make_source_consumer(raw, "create", kept | {"ack_policy": "none"})


async def have_no_consumer(raw: Probe) -> None:
    await api.request(raw.connection, f"CONSUMER.DELETE.{LOG}.{TO_WORK}")


async def have_no_source(raw: Probe) -> None:
    config = (await api.request(raw.connection, f"STREAM.INFO.{WORK}"))["config"]
    await api.request(raw.connection, f"STREAM.UPDATE.{WORK}", config | {"sources": []})


FAULTS: Final = (have_another_filter, have_another_ack_policy, have_no_consumer, have_no_source)


async def _source_consumer(raw: Probe) -> Config:
    info = await api.request(raw.connection, f"CONSUMER.INFO.{LOG}.{TO_WORK}")
    config: Config = info["config"]
    return config


async def _make_source_consumer(raw: Probe, action: str, config: Config) -> None:
    body = {"stream_name": LOG, "action": action, "config": config}
    await api.request(raw.connection, f"CONSUMER.CREATE.{LOG}.{TO_WORK}", body)


async def _serve(config: AdminConfig, folder: Path) -> None:
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    async with serving(config):
        (folder / "ready").touch()
        await ended.wait()


class _Promises:
    """Creates jobs, and notes each that it was promised."""

    def __init__(self, folder: Path) -> None:
        self._notebook = Notebook(folder / "promised")

    async def create(
        self, queue: Queue[Task, Report], job_id: str, do: str = "answer"
    ) -> JobRef[Report]:
        ref = await queue.create(Task(do=do, seconds=0.1), job_id=job_id)
        self._notebook.note(job_id)
        return ref

    def keep(self, *refs: JobRef[Report]) -> None:
        for ref in refs:
            self._notebook.note(ref.id)


async def create(url: str, folder: Path) -> None:
    """No worker runs, so all of them wait."""
    service, promises = Service(MILL), _Promises(folder)
    async with service.connect(url, workers=False, connect_timeout=DEADLINE):
        jobs = service.jobs
        await promises.create(jobs.plain, "plain-1")
        promises.keep(*await jobs.keyed.create_many([Task(key="many")] * 3))
        await promises.create(jobs.keyed, "keyed-1")
        await promises.create(jobs.strict, "strict-1")
        await jobs.strict.submit(Task())
        await promises.create(jobs.merging, "merging-1")
        await jobs.merging.submit(Task())
        for number in range(4):
            await promises.create(jobs.newest, f"newest-{number}")
        for queue, job_id in ((jobs.keyed, "keyed-1"), (jobs.newest, "newest-3")):
            for key in ("acme", "other"):
                with suppress(JobExists):
                    await queue.create(Task(key=key), job_id=job_id)
    (folder / "ready").touch()


async def press_in(url: str, folder: Path) -> None:
    """Into keys that are full of jobs which are dead, or were never born."""
    service, promises = Service(MILL), _Promises(folder)
    async with service.connect(url, workers=False, connect_timeout=DEADLINE):
        jobs = service.jobs
        for _ in range(2):
            outcome = await jobs.newest.submit(Task())
            assert isinstance(outcome, Accepted | Replaced)
            promises.keep(outcome.ref)
        promises.keep(await jobs.merging.create(Task()))
        promises.keep(await jobs.strict.create(Task(key="over")))
        admitted = partial(_admitted, jobs.strict)
        promises.keep(await until(admitted, "the key is free", deadline=_TIMEOUT))
    (folder / "ready").touch()


async def replace(url: str, folder: Path) -> None:
    """Those that wait, one after the other."""
    service, promises = Service(MILL), _Promises(folder)
    async with service.connect(url, workers=False, connect_timeout=DEADLINE):
        for _ in range(2):
            outcome = await service.jobs.newest.submit(Task())
            assert isinstance(outcome, Accepted | Replaced)
            promises.keep(outcome.ref)
    (folder / "ready").touch()


async def _admitted(queue: Queue[Task, Report]) -> JobRef[Report] | None:
    outcome = await queue.submit(Task())
    return outcome.ref if isinstance(outcome, Accepted) else None


async def create_some(url: str, folder: Path) -> None:
    """Over a connection that is cut now and then."""
    service, promises = Service(MILL), _Promises(folder)
    async with service.connect(url, workers=False, connect_timeout=DEADLINE):
        for number in range(6):
            await promises.create(service.jobs.plain, f"plain-{number}")
            keyed = await promises.create(service.jobs.keyed, f"keyed-{number}")
            await keyed.cancel()
    (folder / "ready").touch()


async def create_in_a_row(url: str, folder: Path) -> None:
    service, promises = Service(MILL), _Promises(folder)
    async with service.connect(url, workers=False, connect_timeout=DEADLINE):
        promises.keep(*await service.jobs.plain.create_many([Task()] * IN_A_ROW))
    (folder / "ready").touch()


async def follow(url: str, folder: Path) -> None:
    """Others work: it asks for what becomes of its jobs, and cancels some."""
    service, promises = Service(MILL), _Promises(folder)
    async with service.connect(url, workers=False, connect_timeout=DEADLINE):
        jobs = service.jobs
        for queue in (jobs.plain, jobs.keyed):
            ref = await promises.create(queue, f"{queue.type.name}-followed", "nap")
            await ref.wait()
            await ref.get()
            await ref.events()
            async for _ in ref.watch():
                pass
            failing = await promises.create(queue, f"{queue.type.name}-failing", "give up")
            with suppress(JobEnded):
                await failing.wait()
            later = await promises.create(queue, f"{queue.type.name}-later", "later")
            await later.cancel()
    (folder / "ready").touch()
