"""The work queue copies jobs with a priority, and operators change older installations to do so.

Priorities are for a later version: nothing creates or takes such jobs yet. But an installation is
changed once, while jobs run, and must not have to be changed again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given as forall
from hypothesis import strategies as st

from tests.admin.upkeep_lab import looking_after, until_swept
from tests.model.test_identity import SERVICES, TOKENS
from tests.provisioning.test_streams import everything
from tests.provisioning.work_queue import apply, busy, consumer, set_sources, work
from tests.support.cluster import cluster
from tests.support.example_service import Task
from tests.support.facts import until
from tests.support.former_installation import COPIED, SOURCE, install
from tests.support.lab import Probe, probe, producer, worker
from tests.support.servers import NEWEST, server_binary, start_version
from trellis_jobs.contract.topology import FILTERS, LANE_FILTERS, Topology
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.errors import InfrastructureMismatch
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.setup.plan import Act, plan_streams
from trellis_jobs.jetstream.setup.provision import provision
from trellis_jobs.jetstream.setup.work_source import is_all_acknowledged
from trellis_jobs.jetstream.work.messages import InvalidWorkMessage, WorkMessages
from trellis_jobs.model import subjects
from trellis_jobs.model.events import EventKind

DURABLE: Final = (NEWEST, "2.14.6")
VERSIONS: Final = (*DURABLE, "2.12.8", "2.11.11")
every_server = pytest.mark.parametrize("version", VERSIONS)
OLDEST: Final = "2.10.26"
LANE_EVENT: Final = "trellis.jobs.lab.work.urgent.p1.created"
LANE_WORK: Final = "trellis.work.lab.work.urgent.p1"
HINT: Final = "it does not copy jobs with a priority, which a later version will have"


async def publish(raw: Probe, *published: str) -> None:
    for subject in published:
        await raw.connection.request(subject, b"{}", timeout=5)


async def work_subjects(raw: Probe) -> dict[str, int]:
    info = await api.request(raw.connection, "STREAM.INFO.JOBS_WORK", {"subjects_filter": ">"})
    return info["state"].get("subjects") or {}


async def check_both_are_copied(raw: Probe) -> None:
    """The event of a lane, and one without, each arrive once under their own subject."""
    await publish(raw, LANE_EVENT, "trellis.jobs.lab.work.usual.created")
    expected = {LANE_WORK: 1, "trellis.work.lab.work.usual": 1}

    async def are_there() -> bool:
        return expected.items() <= (await work_subjects(raw)).items()

    await until(are_there, "both are in the work queue")


@every_server
async def test_a_new_installation_copies_jobs_of_a_lane_under_a_subject_with_the_lane(
    version: str,
) -> None:
    with start_version(version) as server:
        async with probe(server.url) as raw:
            await provision(raw.connection, Topology(raw.features))
            await publish(raw, LANE_EVENT, "trellis.jobs.lab.work.again.p9.retried")
            await until_only(raw, LANE_WORK, "trellis.work.lab.work.again.p9")
            assert (await apply(raw)).is_unchanged


async def until_only(raw: Probe, *expected: str) -> None:
    async def are_there() -> bool:
        return await work_subjects(raw) == dict.fromkeys(expected, 1)

    await until(are_there, f"{expected} are in the work queue, and nothing else")


@every_server
async def test_a_heartbeat_is_never_work_whatever_its_instance_is_called(version: str) -> None:
    """Heartbeats have as many tokens as the events of a lane."""
    with start_version(version) as server:
        async with probe(server.url) as raw:
            await provision(raw.connection, Topology(raw.features))
            beats = [subjects.presence("lab", "work", each) for each in ("created", "retried")]
            await publish(raw, *beats, LANE_EVENT)
            await until_only(raw, LANE_WORK)


@forall(SERVICES, TOKENS, TOKENS | st.sampled_from([kind.value for kind in EventKind]))
def test_no_heartbeat_matches_what_is_copied(service: str, job_type: str, instance: str) -> None:
    beat = subjects.presence(service, job_type, instance).split(".")
    for copied in (*FILTERS, *LANE_FILTERS):
        tokens = copied.split(".")
        matches = [each in ("*", found) for each, found in zip(tokens, beat, strict=False)]
        assert len(tokens) != len(beat) or not all(matches)


@every_server
async def test_a_service_starts_on_an_older_installation_and_changes_nothing(
    version: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Services of older versions refuse to start on sources that they do not know."""
    with start_version(version) as server:
        async with probe(server.url) as raw:
            await install(raw)
            before = await sources_and_filters(raw)
            async with worker(server.url, "work") as at_work:
                ref = await at_work.jobs.work.create(Task(text="hi"))
                assert (await ref.wait(timeout=10)).text == "hi"
            assert await sources_and_filters(raw) == before
            changes = await plan_streams(raw.connection, Topology(raw.features))
    assert {change.act for change in changes} == {Act.KEPT}
    [hint] = [each for change in changes for each in change.details]
    assert hint.startswith(HINT)
    assert "because older versions cannot start afterwards" in hint
    assert hint in caplog.text


async def test_2_10_keeps_its_source_because_another_may_stop_copying(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with start_version(OLDEST) as server:
        async with probe(server.url) as raw:
            await install(raw)
            async with producer(server.url):
                assert (await apply(raw)).is_unchanged
            assert (await work(raw))["config"]["sources"] == [SOURCE]
    assert HINT not in caplog.text


async def sources_and_filters(raw: Probe) -> tuple[Any, ...]:
    found = [(await work(raw))["config"]["sources"]]
    if raw.features.durable_sourcing:
        found.append((await consumer(raw))["config"])
    return tuple(found)


@every_server
async def test_an_operator_adds_lanes_while_jobs_run_and_each_job_runs_once(
    version: str,
) -> None:
    with start_version(version) as server:
        async with probe(server.url) as raw:
            await install(raw)
            async with producer(server.url) as jobs:
                await jobs.slow.create(Task())  # no worker takes it, and others end before it
                await raw.until_queued(1)
            async with busy(server.url, raw, plain=version not in DURABLE):
                [change] = [each for each in (await apply(raw)).changes if each.act is Act.UPDATED]
                assert HINT in change.details[0]
                assert "older versions of this library cannot start" in " ".join(change.details)
            assert (await apply(raw)).is_unchanged
            await check_both_are_copied(raw)


@every_server
async def test_lanes_survive_a_killed_server(version: str) -> None:
    with start_version(version) as server:
        async with probe(server.url) as raw:
            await install(raw)
            await apply(raw)
        server.kill()
        server.restart()
        async with probe(server.url) as raw:
            assert (await apply(raw)).is_unchanged
            await check_both_are_copied(raw)


@pytest.mark.parametrize("version", DURABLE)
@pytest.mark.parametrize("dies_after", ["detaching", "extending the filter"])
async def test_a_service_and_then_an_operator_finish_what_was_interrupted(
    version: str, dies_after: str
) -> None:
    with start_version(version) as server:
        async with probe(server.url) as raw:
            await install(raw)
            async with worker(server.url, "work") as at_work:
                before = await at_work.jobs.work.create_many([Task()] * 20)
                [await ref.wait(timeout=10) for ref in before]
                await until(lambda: is_confirmed(raw), "the source has confirmed them")
                await set_sources(raw)
                if dies_after != "detaching":
                    await extend_filter(raw)
                during = await at_work.jobs.work.create_many([Task()] * 20)
                await provision(raw.connection, Topology(raw.features))
                for ref in during:
                    await ref.wait(timeout=20)
                has_lanes = dies_after != "detaching"
                [source] = (await work(raw))["config"]["sources"]
                assert (len(source["subject_transforms"]) == 4) is has_lanes
                after = await at_work.jobs.work.create_many([Task()] * 20)
                await apply(raw)
                for ref in after:
                    await ref.wait(timeout=20)
                refs = [*before, *during, *after]
                assert sorted(at_work.runs) == sorted((ref.id, 1) for ref in refs)
                assert (await work(raw))["state"]["last_seq"] == len(refs)
            await check_both_are_copied(raw)


async def is_confirmed(raw: Probe) -> bool:
    return is_all_acknowledged(await consumer(raw))


async def extend_filter(raw: Probe) -> None:
    config = (await consumer(raw))["config"] | {"filter_subjects": [*FILTERS, *LANE_FILTERS]}
    body = {"stream_name": "JOBS", "action": "update", "config": config}
    await api.request(raw.connection, "CONSUMER.CREATE.JOBS.to-work", body)


async def test_an_operator_corrects_what_a_service_of_an_older_version_attached_meanwhile(
    server: EmbeddedServer,
) -> None:
    async with probe(server.url) as raw:
        await install(raw)
        await extend_filter(raw)
        async with worker(server.url, "work") as at_work:
            ref = await at_work.jobs.work.create(Task())
            await ref.wait(timeout=10)
        await apply(raw)
        await check_both_are_copied(raw)
        assert (await apply(raw)).is_unchanged


async def test_a_plain_source_from_before_2_14_stays_plain(server: EmbeddedServer) -> None:
    async with probe(server.url) as raw:
        await install(raw, plain=True)
        await provision(raw.connection, Topology(raw.features))
        assert (await work(raw))["config"]["sources"] == [SOURCE]
        await apply(raw)
        [source] = (await work(raw))["config"]["sources"]
        assert source.keys() == SOURCE.keys()
        assert (await apply(raw)).is_unchanged
        await check_both_are_copied(raw)


@pytest.mark.parametrize("by_operator", [False, True])
@pytest.mark.parametrize("copied", [COPIED[:1], [*COPIED, LANE_FILTERS[0]]])
async def test_any_other_difference_of_the_sources_is_refused(
    server: EmbeddedServer, copied: list[str], by_operator: bool
) -> None:
    async with probe(server.url) as raw:
        await install(raw, plain=True)
        dest = SOURCE["subject_transforms"][0]["dest"]  # type: ignore[index]
        await set_sources(
            raw,
            {"name": "JOBS", "subject_transforms": [{"src": src, "dest": dest} for src in copied]},
        )
        before = await everything(raw)
        with pytest.raises(InfrastructureMismatch, match="sources should be"):
            await provision(raw.connection, Topology(raw.features, by_operator=by_operator))
        assert await everything(raw) == before


async def test_a_consumer_of_a_lane_and_that_of_its_queue_do_not_overlap(
    server: EmbeddedServer,
) -> None:
    async with worker(server.url, "work") as at_work, probe(server.url) as raw:
        lane = {
            "name": "lab-work-p1",
            "durable_name": "lab-work-p1",
            "filter_subject": "trellis.work.lab.work.*.p1",
            "ack_policy": "explicit",
        }
        body = {"stream_name": "JOBS_WORK", "action": "create", "config": lane}
        call = "CONSUMER.CREATE.JOBS_WORK.lab-work-p1.trellis.work.lab.work.*.p1"
        await api.request(raw.connection, call, body)
        await publish(raw, LANE_EVENT)
        ref = await at_work.jobs.work.create(Task())
        await ref.wait(timeout=10)

        async def only_the_lane_has_work() -> bool:
            return await work_subjects(raw) == {LANE_WORK: 1}

        await until(only_the_lane_has_work, "the worker took its own job only")
        info = await api.request(raw.connection, "CONSUMER.INFO.JOBS_WORK.lab-work-p1")
        assert info["num_pending"] == 1


async def test_work_of_a_lane_is_no_job_to_this_version_and_stops_no_maintenance(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with probe(server.url) as raw:
        await provision(raw.connection, Topology(raw.features))
        await publish(raw, LANE_EVENT)
        await until_only(raw, LANE_WORK)
        found = await WorkMessages(raw.connection).at(1)
        assert isinstance(found, InvalidWorkMessage)
        assert found.reason == "it names no job, or no event of the log"
        async with looking_after(server.url, tmp_path / "jobs.sqlite") as daemon:
            async with producer(server.url) as jobs:
                lost = await jobs.work.create(Task())
                await raw.until_queued(2)
                purge = {"filter": subjects.work(lost.address)}
                await api.request(raw.connection, "STREAM.PURGE.JOBS_WORK", purge)
            await until_swept(daemon, "reconciliation", "janitor")
            await until_only(raw, LANE_WORK, subjects.work(lost.address))


@pytest.mark.timeout(180)
@pytest.mark.parametrize("version", [NEWEST, "2.12.8"])
async def test_lanes_are_added_in_a_cluster_while_jobs_run(version: str) -> None:
    with cluster(binary=server_binary(version)) as three:
        await three.until_ready()
        async with probe(three.url) as raw:
            await install(raw, replicas=3)
            async with busy(three.url, raw, plain=version not in DURABLE):
                await apply(raw)
            assert (await apply(raw)).is_unchanged
            await check_both_are_copied(raw)
