"""Operators direct workers: with and without an admin runtime, and what the commands say."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from jobs_admin.api.client import AdminClient
from jobs_admin.api.errors import Invalid
from jobs_admin.api.views.workers import DirectiveOutcome, WorkerProcessView
from jobs_admin.api.worker_filter import WorkerFilter
from jobs_admin.workers.directives import WantedState, WorkerDirectives
from jobs_admin.workers.wait import Progress, progress_of
from tests.cli.shell import Ended
from tests.cli.stage import Place
from tests.support.example_service import Report, Task, example_jobs, task_worker
from tests.support.facts import until
from tests.support.fault_proxy import fault_proxy
from tests.support.lab import Probe, probe, producer
from tests.support.worker_process import worker_process
from tests.workers.records import records_of, registered_worker, the_worker, until_record
from tests.workers.test_dead_workers import admins
from trellis_jobs import Service
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.environment import utc_now
from trellis_jobs.jetstream.control.worker_records import StoredWorker
from trellis_jobs.model.values import replace
from trellis_jobs.model.worker_states import WorkerState


def directives_of(raw: Probe) -> WorkerDirectives:
    return WorkerDirectives(records_of(raw), utc_now)


async def the_view(raw: Probe) -> WorkerProcessView:
    (view,) = await directives_of(raw).list_workers(WorkerFilter())
    return view


async def direct(
    raw: Probe, state: WorkerState, **more: str
) -> tuple[DirectiveOutcome, str | None]:
    view = await the_view(raw)
    (directed,) = await directives_of(raw).direct(
        [(view.service, view.instance_id)], WantedState(state=state, **more)
    )
    return directed.outcome, directed.refused_because


async def command(url: str, *arguments: str) -> Ended:
    return await asyncio.to_thread(Place(url).shell, "workers", *arguments)


async def test_workers_are_selected_by_what_their_records_say(server: EmbeddedServer) -> None:
    blue: dict[str, Any] = {"version": "1.4", "labels": ["eu", "blue"]}
    green: dict[str, Any] = {"version": "1.5", "labels": ["eu", "green"]}
    async with (
        registered_worker(server.url, "work", **blue),
        registered_worker(server.url, "slow", **green),
        probe(server.url) as raw,
    ):
        listed = await directives_of(raw).list_workers(WorkerFilter())
        host, first = listed[0].hostname, listed[0].instance_id

        async def versions(**wanted: Any) -> set[str | None]:
            found = await directives_of(raw).list_workers(WorkerFilter(**wanted))
            return {each.app_version for each in found}

        assert await versions() == {"1.4", "1.5"}
        assert await versions(labels=("eu",), host=host) == {"1.4", "1.5"}
        assert await versions(labels=("eu", "blue")) == {"1.4"}
        assert await versions(version="1.5", service="lab") == {"1.5"}
        assert await versions(service="shop") == set()
        assert await versions(host="elsewhere") == set()
        assert await versions(id_prefix=first) == {listed[0].app_version}


async def test_a_directive_with_no_daemon_says_who_and_why(
    server: EmbeddedServer, caplog: pytest.LogCaptureFixture
) -> None:
    """With beats every 100 s, only the copy of the directive can make the worker read it."""
    caplog.set_level(logging.INFO)
    async with (
        registered_worker(server.url, "work", dead_after=500),
        probe(server.url) as raw,
    ):
        told = ("--service", "lab", "--by", "ada", "--reason", "deploy of 1.5", "--wait")
        ended = await command(server.url, "quiet", *told)
        assert (ended.code, ended.out.count("is quiet and has no jobs")) == (0, 1), ended
        assert "were written directly. No admin runtime answers" in ended.err
        assert (await the_worker(raw)).record.state is WorkerState.QUIET
        said = "operator ada directs this worker to be quiet: deploy of 1.5"
        assert said in caplog.messages
        shown = await command(server.url, "list")
        assert "directed to be quiet" in shown.out
        assert "by ada: deploy of 1.5" in shown.out
        (process,) = (await command(server.url, "list", "--json")).json["processes"]
        assert (process["state"], process["wanted"]["by"]) == ("quiet", "ada")
        again = await command(server.url, "quiet", process["instanceId"][:20])
        assert "already quiet" in again.out
        ended = await command(server.url, "resume", process["instanceId"], "--wait")
        assert (ended.code, ended.out.count(": runs")) == (0, 1), ended


async def test_resume_after_terminate_is_refused_and_ignored(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with producer(server.url) as jobs, probe(server.url) as raw:
        with worker_process(server.url, tmp_path / "w", "work", grace=60) as process:
            ref = await jobs.work.create(Task(do="wait"))
            await process.until_running(ref.id)
            assert (await command(server.url, "terminate", "--service", "lab")).code == 0
            await until_record(raw, lambda r: r.state is WorkerState.TERMINATE, "it stops")
            ended = await command(server.url, "resume", "--service", "lab", "--wait")
            assert (ended.code, "refused: it is stopping" in ended.out) == (1, True), ended
            waited = await command(
                server.url, "terminate", "--service", "lab", "--wait", "--timeout", "2s"
            )
            assert waited.code == 4, waited
            assert "waiting: terminate, 1 job" in waited.out
            process.let_go()
            assert await process.until_exit() == 0
        assert (await the_worker(raw)).record.state is WorkerState.TERMINATED
        assert await direct(raw, WorkerState.RUNNING) == (
            DirectiveOutcome.REFUSED,
            "it has stopped",
        )


async def test_drain_stops_workers_of_a_release_and_interrupts_no_job(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with producer(server.url) as jobs, admins(server.url, tmp_path), probe(server.url) as raw:
        with worker_process(server.url, tmp_path / "w", "work", dead_after=2) as process:
            ref = await jobs.work.create(Task(do="wait"))
            await process.until_running(ref.id)
            early = await command(server.url, "drain", "--service", "lab", "--timeout", "1s")
            assert early.code == 4, early
            assert "waiting: quiet, 1 job" in early.out
            assert (await the_worker(raw)).record.state is WorkerState.QUIET
            draining = asyncio.create_task(command(server.url, "drain", "--service", "lab"))
            process.let_go()
            ended = await draining
            assert ended.code == 0, ended
            assert "has stopped" in ended.out
            assert "The admin runtime wrote the directives." in ended.err
            assert await process.until_exit() == 0
            assert (await ref.wait(timeout=30)).tries == 1


async def test_a_directive_survives_the_restart_of_every_daemon(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with registered_worker(server.url, "work"), probe(server.url) as raw:
        async with admins(server.url, tmp_path), AdminClient.connect(server.url, by="ada") as admin:
            view = await the_view(raw)
            me = [(view.service, view.instance_id)]
            (directed,) = await admin.direct_workers(me, WorkerState.QUIET, reason="deploy")
            assert directed.outcome is DirectiveOutcome.DIRECTED
        await until_record(raw, lambda r: r.state is WorkerState.QUIET, "the worker is quiet")
        async with admins(server.url, tmp_path), AdminClient.connect(server.url) as admin:

            async def is_known() -> WorkerProcessView | None:
                found = [worker async for worker in admin.workers()]
                return found[0] if found else None

            known = await until(is_known, "the new daemon knows it")
            assert known.wanted is not None
            assert (known.wanted.state, known.wanted.by) == (WorkerState.QUIET, "ada")
            (directed,) = await admin.direct_workers(me, WorkerState.RUNNING)
            assert directed.epoch == 2
            await until_record(raw, lambda r: r.state is WorkerState.RUNNING, "it runs again")


async def test_a_directive_reaches_a_worker_that_was_not_connected(server: EmbeddedServer) -> None:
    async with (
        fault_proxy(server.url) as proxy,
        probe(server.url) as raw,
        registered_worker(proxy.url, "work", dead_after=60),
    ):
        await the_worker(raw)
        proxy.refuse()
        outcome, _ = await direct(raw, WorkerState.QUIET, by="ada")
        assert outcome is DirectiveOutcome.DIRECTED
        assert (await the_worker(raw)).record.state is WorkerState.RUNNING
        proxy.admit()
        await until_record(raw, lambda r: r.state is WorkerState.QUIET, "the worker is quiet")


async def test_the_newer_of_two_directives_counts(server: EmbeddedServer) -> None:
    async with (
        fault_proxy(server.url) as proxy,
        probe(server.url) as raw,
        registered_worker(proxy.url, "work", dead_after=60),
    ):
        await the_worker(raw)
        proxy.refuse()
        await direct(raw, WorkerState.QUIET)
        await direct(raw, WorkerState.RUNNING)
        await direct(raw, WorkerState.QUIET, by="ada")
        proxy.admit()
        stored = await until_record(
            raw, lambda r: r.state is WorkerState.QUIET, "the worker is quiet"
        )
        assert stored.record.epoch == 3
        later = await until_record(raw, lambda r: r.beat > stored.record.beat + 1, "it beats on")
        assert later.record.state is WorkerState.QUIET


@asynccontextmanager
async def two_workers(url: str) -> AsyncIterator[None]:
    async with registered_worker(url, "work"), registered_worker(url, "slow"):
        yield


async def test_what_cannot_be_done_is_said(server: EmbeddedServer) -> None:
    async with two_workers(server.url), probe(server.url) as raw:
        (one, other) = [each.record.profile.instance for each in await records_of(raw).all()]
        common = next(n for n in range(len(one)) if one[n] != other[n])
        for arguments, code, words in (
            ((), 2, "no workers selected: give the ids of workers, or --service"),
            (("--label", "nowhere"), 3, "no worker matches"),
            (("NOSUCH",), 3, "no worker has an id that begins with NOSUCH"),
            ((one, "--service", "lab"), 2, "give either ids or filters"),
            (("--service", "lab"), 2, "add --yes to quiet 2 workers; nothing was changed"),
            ((one, "--timeout", "3s"), 2, "only with --wait"),
            ((one[:common],), 2, "begins the ids of 2 workers"),
        ):
            ended = await command(server.url, "quiet", *arguments)
            assert (ended.code, ended.out) == (code, ""), (arguments, ended)
            assert words in " ".join(ended.err.split()), (arguments, ended.err)
        assert all(each.record.directive is None for each in await records_of(raw).all())
        ended = await command(server.url, "quiet", "--service", "lab", "--yes", "--json", "--wait")
        (phase,) = ended.json["phases"]
        assert (ended.code, phase["through"], phase["timedOut"]) == (0, "records", False)
        assert [each["progress"] for each in phase["workers"]] == ["followed", "followed"]


DEPOT = example_jobs("depot", Task, Report, store={})


@asynccontextmanager
async def depot_worker(url: str) -> AsyncIterator[None]:
    made = task_worker(Service(DEPOT, version="1.4", labels=["eu"], dead_after=500))
    async with made.service.connect(url):
        yield


async def write_record_of_another_host(raw: Probe) -> None:
    """As a worker on another machine would register."""
    (stored,) = await records_of(raw).all("depot")
    profile = replace(stored.record.profile, instance="elsewhere", hostname="host-9")
    await records_of(raw).write(replace(stored.record, profile=profile), 0)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        pytest.param(WorkerFilter(service="lab"), {"blue", "green"}, id="service"),
        pytest.param(WorkerFilter(labels=("blue",)), {"blue"}, id="label"),
        pytest.param(WorkerFilter(labels=("eu", "green")), {"green"}, id="two labels"),
        pytest.param(WorkerFilter(host="host-9"), {"elsewhere"}, id="host"),
        pytest.param(WorkerFilter(version="1.4"), {"blue", "depot", "elsewhere"}, id="version"),
        pytest.param(
            WorkerFilter(version="1.4", service="lab"), {"blue"}, id="version of a service"
        ),
        pytest.param(WorkerFilter(labels=("blue", "green")), set(), id="labels of no worker"),
        pytest.param(WorkerFilter(service="shop"), set(), id="service without workers"),
    ],
)
async def test_a_request_with_a_filter_directs_the_workers_that_match_and_no_others(
    server: EmbeddedServer, tmp_path: Path, wanted: WorkerFilter, expected: set[str]
) -> None:
    blue: dict[str, Any] = {"version": "1.4", "labels": ["eu", "blue"]}
    green: dict[str, Any] = {"version": "1.5", "labels": ["eu", "green"]}
    async with (
        registered_worker(server.url, "work", dead_after=500, **blue),
        registered_worker(server.url, "slow", dead_after=500, **green),
        depot_worker(server.url),
        admins(server.url, tmp_path),
        AdminClient.connect(server.url, by="ada") as admin,
        probe(server.url) as raw,
    ):
        await write_record_of_another_host(raw)
        before = await records_of(raw).all()
        names = {stored.record.profile.instance: _name(stored) for stored in before}
        answer = await admin.direct_workers(wanted, WorkerState.QUIET, reason="deploy")
        assert {names[each.instance_id] for each in answer} == expected
        assert len(answer) == len(expected)
        assert all(each.outcome is DirectiveOutcome.DIRECTED for each in answer)

        async def have_followed() -> bool:
            """No process is behind the record of the other host, so no worker follows there."""
            after = await records_of(raw).all()
            quiet = {_name(each) for each in after if each.record.state is WorkerState.QUIET}
            return quiet == expected - {"elsewhere"}

        await until(have_followed, "the selected workers are quiet")
        directed = [each for each in await records_of(raw).all() if each.record.directive]
        assert {_name(each) for each in directed} == expected
        for each in directed:
            assert each.record.directive is not None
            assert (each.record.directive.by, each.record.directive.reason) == ("ada", "deploy")


def _name(stored: StoredWorker) -> str:
    profile = stored.record.profile
    if profile.hostname == "host-9":
        return "elsewhere"
    return "depot" if profile.service == "depot" else profile.labels[-1]


async def test_a_request_must_select_workers(server: EmbeddedServer, tmp_path: Path) -> None:
    async with admins(server.url, tmp_path), AdminClient.connect(server.url) as admin:
        with pytest.raises(Invalid, match="name the workers, or give a filter"):
            await admin.direct_workers(WorkerFilter(), WorkerState.QUIET)
        with pytest.raises(Invalid):
            await admin.direct_workers([("lab", "a b")], WorkerState.QUIET)
        (directed,) = await admin.direct_workers([("lab", "nosuch")], WorkerState.QUIET)
        assert directed.outcome is DirectiveOutcome.GONE


def view(state: WorkerState, wanted: WorkerState, epoch: int, **more: Any) -> WorkerProcessView:
    at = utc_now()
    return WorkerProcessView.model_validate(
        {
            "service": "lab",
            "instanceId": "i1",
            "hostname": "host-3",
            "pid": 812,
            "startedAt": at,
            "queues": [],
            "concurrency": 1,
            "state": state,
            "beat": 1,
            "activeJobs": 0,
            "activeJobIds": {},
            "heldJobIds": {},
            "labels": [],
            "intervalMs": 5000,
            "deadAfterMs": 25000,
            "wanted": {"state": wanted, "epoch": epoch, "at": at},
            "lastBeatAt": at,
            "silentForMs": 0,
            "silent": False,
            **more,
        }
    )


RUNNING, QUIET, TERMINATE = WorkerState.RUNNING, WorkerState.QUIET, WorkerState.TERMINATE
DEAD = {"verdict": {"by": "x", "at": utc_now(), "jobs": 0, "recovered": True}}


@pytest.mark.parametrize(
    ("worker", "state", "expected"),
    [
        (view(RUNNING, QUIET, 2), QUIET, Progress.WAITING),
        (view(QUIET, QUIET, 2), QUIET, Progress.FOLLOWED),
        (view(QUIET, QUIET, 2, activeJobIds={"work": ["j"]}), QUIET, Progress.WAITING),
        (view(QUIET, QUIET, 2, heldJobIds={"work": ["j"]}), QUIET, Progress.WAITING),
        (view(QUIET, QUIET, 1), QUIET, Progress.WAITING),
        (view(QUIET, RUNNING, 3), QUIET, Progress.OVERRIDDEN),
        (view(RUNNING, TERMINATE, 3), QUIET, Progress.WAITING),
        (view(RUNNING, TERMINATE, 3), RUNNING, Progress.OVERRIDDEN),
        (view(RUNNING, RUNNING, 2, activeJobIds={"work": ["j"]}), RUNNING, Progress.FOLLOWED),
        (view(RUNNING, RUNNING, 2, **DEAD), RUNNING, Progress.ENDED),
        (view(QUIET, QUIET, 2, **DEAD), QUIET, Progress.FOLLOWED),
        (view(TERMINATE, TERMINATE, 2), TERMINATE, Progress.WAITING),
        (view(WorkerState.TERMINATED, TERMINATE, 2), TERMINATE, Progress.FOLLOWED),
        (None, TERMINATE, Progress.FOLLOWED),
        (None, RUNNING, Progress.ENDED),
    ],
)
def test_when_a_worker_has_followed(
    worker: WorkerProcessView | None, state: WorkerState, expected: Progress
) -> None:
    assert progress_of(worker, state, epoch=2) is expected
