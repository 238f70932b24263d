"""The server is made to match the topology, by anybody, at any time, without harm."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest

from tests.support.example_service import Task
from tests.support.lab import LAB, Probe, lab_worker, probe
from trellis_jobs.contract.topology import (
    ADVISORIES,
    CONTROL,
    KEYS,
    LOG,
    WORK,
    Config,
    Topology,
    queue_consumer,
)
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.errors import InfrastructureMismatch
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.setup.plan import Act
from trellis_jobs.jetstream.setup.provision import plan, provision
from trellis_jobs.jetstream.work.consumer_setup import ensure_consumer

STREAMS = (LOG, WORK, ADVISORIES, KEYS, CONTROL)
DESIRED = queue_consumer("lab", LAB.contract.queues["work"])


async def settings(raw: Probe, stream: str) -> Config:
    found: Config = (await api.request(raw.connection, f"STREAM.INFO.{stream}"))["config"]
    return found


async def everything(raw: Probe) -> list[tuple[str, str, Config]]:
    """All streams and consumers there are, as the server tells them."""
    listed: list[dict[str, Any]] = []
    for info in (await api.request(raw.connection, "STREAM.LIST"))["streams"] or []:
        name = info["config"]["name"]
        consumers = (await api.request(raw.connection, f"CONSUMER.LIST.{name}"))["consumers"]
        listed += [info, *(consumers or [])]
    return [(info.get("stream_name", ""), info["created"], info["config"]) for info in listed]


async def make(raw: Probe, config: Config, **different: Any) -> None:
    config = config | different
    await api.request(raw.connection, f"STREAM.CREATE.{config['name']}", config)


async def make_queue(raw: Probe, number: int) -> None:
    name, filtered = f"lab-{number}", f"trellis.work.lab.{number}.*"
    config = DESIRED | {"name": name, "durable_name": name, "filter_subject": filtered}
    await ensure_consumer(raw.connection, config | {"mem_storage": True})


async def test_an_empty_server_gets_five_streams_and_the_source_between_two_of_them(
    server: EmbeddedServer,
) -> None:
    async with probe(server.url) as raw:
        report = await provision(raw.connection, Topology(raw.features))
        assert [(change.act, change.name) for change in report.changes] == [
            (Act.CREATED, "JOBS"),
            (Act.CREATED, "JOBS/to-work"),
            (Act.CREATED, "JOBS_WORK"),
            (Act.CREATED, "JOBS_ADVISORIES"),
            (Act.CREATED, "KV_JOBS_KEYS"),
            (Act.CREATED, "JOBS_CONTROL"),
        ]
        log, work, advisories, keys, control = [await settings(raw, name) for name in STREAMS]
    assert (log["subjects"], log["retention"]) == (["trellis.jobs.>"], "limits")
    assert (log["allow_direct"], log["allow_msg_ttl"]) == (True, True)
    assert (log["allow_atomic"], log["allow_batched"]) == (True, True)
    assert (work["subjects"], work["retention"]) == (["trellis.work.>"], "workqueue")
    assert (work["max_msgs"], work["max_bytes"], work["max_age"]) == (-1, -1, 0)
    assert advisories["subjects"] == ["$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.JOBS_WORK.>"]
    assert (keys["max_msgs_per_subject"], keys["discard"]) == (1, "new")
    assert (control["subjects"], control["allow_msg_ttl"]) == (["trellis.control.jobs.>"], True)
    assert (control["max_msgs_per_subject"], control["allow_direct"]) == (1, True)
    every = (log, work, advisories, keys, control)
    assert not any(config["allow_rollup_hdrs"] for config in every)
    assert {config["storage"] for config in every} == {"file"}


async def test_work_has_one_durable_source_with_a_transform_for_each_way_to_enqueue(
    server: EmbeddedServer,
) -> None:
    async with probe(server.url) as raw:
        await provision(raw.connection, Topology(raw.features))
        [source] = (await settings(raw, WORK))["sources"]
        consumer = (await api.request(raw.connection, "CONSUMER.INFO.JOBS.to-work"))["config"]
    subject = consumer["deliver_subject"]
    assert source == {
        "name": "JOBS",
        "consumer": {"name": "to-work", "deliver_subject": subject},
        "subject_transforms": [
            {"src": "trellis.jobs.*.*.*.created", "dest": "trellis.work.$1.$2.$3"},
            {"src": "trellis.jobs.*.*.*.retried", "dest": "trellis.work.$1.$2.$3"},
            {"src": "trellis.jobs.*.*.*.*.created", "dest": "trellis.work.$1.$2.$3.$4"},
            {"src": "trellis.jobs.*.*.*.*.retried", "dest": "trellis.work.$1.$2.$3.$4"},
        ],
    }
    assert consumer["ack_policy"] == "flow_control"
    assert consumer["filter_subjects"] == [each["src"] for each in source["subject_transforms"]]


async def test_more_than_a_thousand_queues_fit(server: EmbeddedServer) -> None:
    async with probe(server.url) as raw:
        await provision(raw.connection, Topology(raw.features))
        await asyncio.gather(*(make_queue(raw, number) for number in range(1001)))


async def test_a_second_run_finds_nothing_to_do_and_touches_nothing(server: EmbeddedServer) -> None:
    async with probe(server.url) as raw:
        await provision(raw.connection, Topology(raw.features))
        before = await everything(raw)
        report = await provision(raw.connection, Topology(raw.features))
        assert report.is_unchanged
        assert {change.act for change in report.changes} == {Act.KEPT}
        assert await everything(raw) == before


async def test_ten_at_once_make_everything_once(server: EmbeddedServer) -> None:
    async with AsyncExitStack() as stack:
        ten = [await stack.enter_async_context(probe(server.url)) for _ in range(10)]
        await asyncio.gather(
            *(provision(raw.connection, Topology(raw.features)) for raw in ten),
        )
        assert (await provision(ten[0].connection, Topology(ten[0].features))).is_unchanged
        assert len(await everything(ten[0])) == len(STREAMS) + 1


async def test_ten_services_start_at_once_on_an_empty_server_and_all_work(
    server: EmbeddedServer,
) -> None:
    async with AsyncExitStack() as stack:
        ten = [lab_worker() for _ in range(10)]
        await asyncio.gather(
            *(stack.enter_async_context(each.service.connect(server.url)) for each in ten)
        )
        refs = [await each.jobs.work.create(Task(text="hello")) for each in ten]
        assert {(await ref.wait(timeout=10)).text for ref in refs} == {"hello"}
        assert sum(len(each.runs) for each in ten) == 10


@pytest.mark.parametrize(
    ("stream", "difference", "explanation"),
    [
        (LOG, {"retention": "interest"}, "retention should be 'limits', is 'interest'"),
        (LOG, {"storage": "memory"}, "storage should be 'file', is 'memory'"),
        (LOG, {"subjects": ["trellis.jobs.*.*.*.*"]}, "subjects should be"),
        (WORK, {"retention": "limits"}, "retention should be 'workqueue', is 'limits'"),
        (WORK, {"subjects": ["trellis.work.a.>"]}, "subjects should be"),
        (WORK, {"sources": [{"name": "OTHER"}]}, "sources should be"),
        (WORK, {"sources": None}, "sources should be"),
        (KEYS, {"storage": "memory"}, "storage should be 'file', is 'memory'"),
        (ADVISORIES, {"subjects": ["advisories"]}, "subjects should be"),
    ],
)
async def test_a_difference_that_endangers_jobs_is_refused_and_nothing_is_changed(
    server: EmbeddedServer, stream: str, difference: Config, explanation: str
) -> None:
    async with probe(server.url) as raw:
        topology = Topology(raw.features)
        desired = {config["name"]: config for config in topology.streams()}[stream]
        # A harmless one beside it would be brought up to date, were it not for the other.
        await make(raw, {"name": "OTHER", "subjects": ["other"]})
        if stream is not LOG:
            await make(raw, topology.log(), allow_direct=False)
        await make(raw, desired, **({"sources": None} | difference))
        before = await everything(raw)
        with pytest.raises(InfrastructureMismatch) as refused:
            await provision(raw.connection, topology)
        assert refused.value.what == f"stream {stream}"
        assert explanation in str(refused.value)
        assert await everything(raw) == before


async def test_a_service_does_not_start_on_streams_that_endanger_its_jobs(
    server: EmbeddedServer,
) -> None:
    async with probe(server.url) as raw:
        await make(raw, Topology(raw.features).log(), storage="memory")
    with pytest.raises(InfrastructureMismatch, match="storage"):
        async with lab_worker().service.connect(server.url):
            pass


async def test_a_source_consumer_that_takes_other_events_is_refused(server: EmbeddedServer) -> None:
    async with probe(server.url) as raw:
        topology = Topology(raw.features)
        consumer = topology.to_work()
        assert consumer is not None
        await make(raw, topology.log())
        only_created = consumer | {"filter_subjects": ["trellis.jobs.*.*.*.created"]}
        body = {"stream_name": LOG, "action": "create", "config": only_created}
        await api.request(raw.connection, "CONSUMER.CREATE.JOBS.to-work", body)
        with pytest.raises(InfrastructureMismatch, match="filter_subjects") as refused:
            await provision(raw.connection, topology)
        assert refused.value.what == "consumer to-work of JOBS"


async def test_what_is_merely_behind_is_brought_up_to_date_and_said(server: EmbeddedServer) -> None:
    async with probe(server.url) as raw:
        topology = Topology(raw.features)
        await make(raw, topology.log(), allow_direct=False, allow_msg_ttl=False)
        await make(raw, topology.keys(), allow_rollup_hdrs=True)
        report = await provision(raw.connection, topology)
        updated = {
            change.name: change.details for change in report.changes if change.act is Act.UPDATED
        }
        assert updated == {
            "JOBS": (
                "allow_direct should be True, is False",
                "allow_msg_ttl should be True, is False",
            ),
            "KV_JOBS_KEYS": ("allow_rollup_hdrs should be False, is True",),
        }
        assert (await settings(raw, LOG))["allow_direct"]
        assert not (await settings(raw, KEYS))["allow_rollup_hdrs"]


async def test_what_older_servers_do_not_know_a_service_leaves_to_operators_and_says_so(
    server: EmbeddedServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Else a cluster loses its log in the middle of an upgrade, and cannot go back after it."""
    older = {"allow_atomic": False, "allow_batched": False}
    async with probe(server.url) as raw:
        await make(raw, Topology(raw.features).log(), **older)
        async with lab_worker().service.connect(server.url):
            log = await settings(raw, LOG)
        assert not (log.keys() & older.keys()), "the server leaves false out"
        assert (
            "stream JOBS can be improved: "
            "allow_atomic is off: `trellis-jobs infra apply` turns it on, "
            "when no server is older than 2.12; "
            "allow_batched is off: `trellis-jobs infra apply` turns it on, "
            "when no server is older than 2.14"
        ) in caplog.text


async def test_what_older_servers_do_not_know_is_left_as_it_is_when_the_rest_is_brought_up_to_date(
    server: EmbeddedServer,
) -> None:
    async with probe(server.url) as raw:
        topology = Topology(raw.features)
        await make(raw, topology.log(), allow_direct=False, allow_batched=False)
        report = await provision(raw.connection, topology)
        assert report.changes[0].details == ("allow_direct should be True, is False",)
        log = await settings(raw, LOG)
        assert (log["allow_direct"], log.get("allow_batched", False)) == (True, False)


async def test_a_bound_on_the_work_queue_is_lifted_because_it_would_lose_jobs(
    server: EmbeddedServer,
) -> None:
    async with probe(server.url) as raw:
        topology = Topology(raw.features)
        await provision(raw.connection, topology)
        bounded = await settings(raw, WORK) | {"max_msgs": 10, "discard": "new"}
        await api.request(raw.connection, "STREAM.UPDATE.JOBS_WORK", bounded)
        await provision(raw.connection, topology)
        work = await settings(raw, WORK)
        assert (work["max_msgs"], work["discard"]) == (-1, "old")


async def test_settings_of_an_operator_survive_an_update_of_others(server: EmbeddedServer) -> None:
    own = {
        "description": "the platform's job log",
        "compression": "s2",
        "max_bytes": 1_000_000_000,
        "discard": "new",
        "deny_delete": True,
        "duplicate_window": 30_000_000_000,
        "metadata": {"owner": "platform"},
        "republish": {"src": "trellis.jobs.>", "dest": "mirror.trellis.jobs.>"},
    }
    async with probe(server.url) as raw:
        topology = Topology(raw.features)
        await make(raw, topology.log(), **own, allow_direct=False)
        before = await settings(raw, LOG)
        await provision(raw.connection, topology)
        after = await settings(raw, LOG)
    assert after == before | {"allow_direct": True}
    assert own["metadata"].items() <= after["metadata"].items()  # type: ignore[attr-defined]


async def test_a_plan_says_what_would_be_done_and_does_nothing(server: EmbeddedServer) -> None:
    async with probe(server.url) as raw:
        topology = Topology(raw.features)
        await make(raw, topology.log(), allow_direct=False)
        before = await everything(raw)
        planned = {change.name: change.act for change in await plan(raw.connection, topology)}
        assert planned == {
            "JOBS": Act.UPDATED,
            "JOBS/to-work": Act.CREATED,
            "JOBS_WORK": Act.CREATED,
            "JOBS_ADVISORIES": Act.CREATED,
            "KV_JOBS_KEYS": Act.CREATED,
            "JOBS_CONTROL": Act.CREATED,
        }
        assert await everything(raw) == before


async def test_plain_sourcing_of_an_older_server_is_kept_since_changing_it_would_replay_jobs(
    server: EmbeddedServer,
) -> None:
    async with probe(server.url) as raw:
        topology = Topology(raw.features)
        work = topology.work()
        del work["sources"][0]["consumer"]
        await make(raw, topology.log())
        await make(raw, work)
        report = await provision(raw.connection, topology)
        assert [(change.act, change.name) for change in report.changes][:2] == [
            (Act.KEPT, "JOBS"),
            (Act.KEPT, "JOBS_WORK"),
        ]
        assert (await settings(raw, WORK))["sources"] == work["sources"]
