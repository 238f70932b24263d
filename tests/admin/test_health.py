"""The health of the admin runtime, over NATS and over HTTP."""

from __future__ import annotations

import asyncio
import socket
from datetime import timedelta
from pathlib import Path

import orjson
import pytest

from jobs_admin.api.client import AdminClient
from jobs_admin.api.errors import PortUnavailable
from jobs_admin.api.views.health import CheckView, HealthStatus, HealthView, LoopState, Mode
from jobs_admin.loops import Loop
from tests.admin.admin_lab import AdminLab, daemon_at, stranger_at, time_passes
from tests.support.example_service import Task
from tests.support.facts import until
from tests.support.fetch_servers import OLDER_VERSIONS
from tests.support.lab import probe, producer
from tests.support.servers import server_binary
from trellis_jobs.contract.topology import ADVISORIES, LOG
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.jetstream.client import api

OLD = OLDER_VERSIONS[-1]


async def check(client: AdminClient, name: str) -> CheckView:
    found = (await client.health()).check(name)
    assert found is not None, name
    return found


async def get(port: int, path: str, *, method: str = "GET") -> tuple[int, dict[str, object]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"{method} {path} HTTP/1.1\r\nHost: here\r\n\r\n".encode())
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    told = orjson.loads(body)
    assert isinstance(told, dict)
    return int(head.split()[1]), told


async def test_all_is_well(lab: AdminLab) -> None:
    ref = await lab.jobs.work.create(Task())
    await lab.client.get(ref.id)
    health = await lab.client.health()
    assert (health.service, health.status, health.mode) == (
        "jobs-admin",
        HealthStatus.OK,
        Mode.FULL,
    )
    projection = await check(lab.client, "projection")
    assert (projection.lag_events, projection.lag_seconds) == (0, 0)
    assert projection.position == projection.last_seq == 1
    assert (await check(lab.client, "loop:projector")).state is LoopState.RUNNING
    assert (await check(lab.client, "server")).connected
    [log, *others] = (await check(lab.client, "streams")).streams
    assert (log.name, log.messages, len(others)) == (LOG, 1, 3)
    assert log.bytes > 100


async def test_each_stream_is_asked_for_once(lab: AdminLab) -> None:
    """How full a stream is and how it is replicated were two requests for the same answer."""
    asked: list[str] = []
    async with probe(lab.url) as raw:
        call = f"$JS.API.STREAM.INFO.{ADVISORIES}"
        await raw.connection.subscribe(call, lambda message: asked.append(message.subject))
        await raw.connection.flush()
        await lab.client.health()
        await raw.connection.request(call, b"")
        await until(lambda: len(asked) > 1, "the request of the test itself was seen")
    assert len(asked) == 2


async def test_a_gap_at_the_end_of_the_log_is_no_lag(lab: AdminLab) -> None:
    """Heartbeats expire and purges happen: what is gone will not be taken in."""
    ref = await lab.jobs.work.create(Task())
    await lab.client.get(ref.id)
    connection = lab.stranger.connection
    lasting = (await api.request(connection, f"STREAM.INFO.{LOG}"))["state"]["last_seq"]
    await api.request(connection, f"STREAM.PURGE.{LOG}")
    projection = await check(lab.client, "projection")
    assert (projection.last_seq, projection.lag_events) == (lasting, 0)


async def test_a_projection_that_no_process_writes_lags_and_is_not_ready(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    path = tmp_path / "jobs.sqlite"
    async with producer(server.url) as jobs:
        async with daemon_at(server.url, path):
            pass
        async with (
            daemon_at(server.url, path, mode=Mode.RPC_ONLY, health_port=0) as daemon,
            AdminClient.connect(server.url) as client,
        ):
            assert daemon.health_port is not None
            for _ in range(3):
                await jobs.work.create(Task())
            projection = await check(client, "projection")
            assert (projection.position, projection.last_seq) == (0, 3)
            assert projection.lag_events == 3
            assert projection.lag_seconds is not None
            assert projection.lag_seconds > 0
            assert (await client.health()).mode is Mode.RPC_ONLY


async def test_a_projection_that_lags_for_long_is_degraded_and_not_ready(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    path = tmp_path / "jobs.sqlite"
    later = timedelta(seconds=20)
    async with producer(server.url) as jobs:
        async with daemon_at(server.url, path):
            pass
        await jobs.work.create(Task())
        async with (
            daemon_at(server.url, path, mode=Mode.RPC_ONLY, health_port=0) as daemon,
            AdminClient.connect(server.url) as client,
        ):
            time_passes(daemon, later)
            projection = await check(client, "projection")
            assert projection.status is HealthStatus.DEGRADED
            assert 20 <= (projection.lag_seconds or 0) < 40
            assert daemon.health_port
            status, told = await get(daemon.health_port, "/ready")
            assert (status, told["status"]) == (503, "degraded")


async def test_a_loop_that_fails_shows(lab: AdminLab) -> None:
    lab.daemon.loops.all["odd"] = Loop("odd", is_down=True, failures=3, last_error="OSError: full")
    health = await lab.client.health()
    odd = health.check("loop:odd")
    assert odd is not None
    assert (odd.status, odd.state, odd.failures) == (HealthStatus.DEGRADED, LoopState.FAILING, 3)
    assert odd.last_error == "OSError: full"
    assert health.status is HealthStatus.DEGRADED
    assert (await lab.daemon.health.report()).is_ready


async def test_who_projects_no_more_is_not_ready(lab: AdminLab) -> None:
    assert (await lab.daemon.health.report()).is_ready
    lab.daemon.loops.all["projector"].is_down = True
    assert not (await lab.daemon.health.report()).is_ready


async def test_a_missing_stream_shows(lab: AdminLab) -> None:
    await api.request(lab.stranger.connection, "STREAM.DELETE.JOBS_ADVISORIES")

    async def noticed() -> HealthView | None:
        told = await lab.client.health()
        return told if told.status is HealthStatus.DEGRADED else None

    told = await until(noticed, "the stream is missed")
    streams = told.check("streams")
    assert streams is not None
    assert streams.error == "missing streams: JOBS_ADVISORIES"


async def test_a_limit_by_which_the_log_drops_events_shows(lab: AdminLab) -> None:
    connection = lab.stranger.connection
    config = (await api.request(connection, f"STREAM.INFO.{LOG}"))["config"]
    limited = {**config, "max_msgs": 500, "discard": "old"}
    await api.request(connection, f"STREAM.UPDATE.{LOG}", limited)
    streams = await check(lab.client, "streams")
    assert streams.status is HealthStatus.DEGRADED
    assert streams.error == "JOBS deletes events by its limit max_msgs 500"
    await api.request(connection, f"STREAM.UPDATE.{LOG}", {**limited, "discard": "new"})
    assert (await check(lab.client, "streams")).status is HealthStatus.OK


async def test_probes_answer_over_http(server: EmbeddedServer, tmp_path: Path) -> None:
    path = tmp_path / "jobs.sqlite"
    async with producer(server.url), daemon_at(server.url, path, health_port=0) as daemon:
        port = daemon.health_port
        assert port
        assert await get(port, "/live") == (200, {"status": "ok"})
        status, told = await get(port, "/ready?verbose")
        assert (status, told["status"]) == (200, "ok")
        assert (await get(port, "/"))[0] == 404
        assert (await get(port, "/live", method="POST"))[0] == 405


async def test_it_is_alive_but_not_ready_while_its_server_is_gone(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    path = tmp_path / "jobs.sqlite"
    async with producer(server.url), daemon_at(server.url, path, health_port=0) as daemon:
        port = daemon.health_port
        assert port
        server.kill()

        async def not_ready() -> bool:
            return (await get(port, "/ready"))[0] == 503

        await until(not_ready, "it says that it is not ready")
        assert (await get(port, "/live"))[0] == 200
        server.restart()

        async def ready() -> bool:
            return (await get(port, "/ready"))[0] == 200

        await until(ready, "it is ready again")


async def test_a_stranger_on_the_port_does_no_harm(server: EmbeddedServer, tmp_path: Path) -> None:
    path = tmp_path / "jobs.sqlite"
    async with producer(server.url), daemon_at(server.url, path, health_port=0) as daemon:
        port = daemon.health_port
        assert port
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(5)]
        for sent in (b"\x00\xff" * 20_000, b"GET\r\n\r\n", b"\r\n\r\n", b""):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(sent)
            writer.write_eof()
            await reader.read()
            writer.close()
        assert (await get(port, "/live"))[0] == 200
        for _, writer in silent:
            writer.close()


async def test_a_port_that_is_taken_is_named(server: EmbeddedServer, tmp_path: Path) -> None:
    with socket.create_server(("0.0.0.0", 0)) as taken:  # noqa: S104
        port = taken.getsockname()[1]
        async with producer(server.url):
            with pytest.raises(PortUnavailable, match=f"--health-port {port} cannot be opened"):
                async with daemon_at(server.url, tmp_path / "jobs.sqlite", health_port=port):
                    pass


async def test_advisories_that_wait_for_long_are_degraded(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """They stay: the only daemon just answers requests."""
    path = tmp_path / "jobs.sqlite"
    async with producer(server.url):
        async with daemon_at(server.url, path), AdminClient.connect(server.url) as c:

            async def consumed() -> bool:
                return (await check(c, "advisories")).backlog == 0

            await until(consumed, "there is a consumer")
        async with (
            daemon_at(server.url, path, mode=Mode.RPC_ONLY) as early,
            daemon_at(server.url, path, mode=Mode.RPC_ONLY) as late,
            stranger_at(server.url) as stranger,
        ):
            subject = "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.JOBS_WORK.lab-work"
            for _ in range(3):
                await stranger.connection.request(subject, b"rubbish", timeout=5)
            time_passes(early, timedelta(minutes=4))
            time_passes(late, timedelta(minutes=6))
            for daemon, status in ((early, HealthStatus.OK), (late, HealthStatus.DEGRADED)):
                told = await daemon.health.report()
                [advisories] = [each for each in told.view.checks if each.name == "advisories"]
                assert advisories.status is status
                assert advisories.backlog == 3
                assert told.is_ready
            assert advisories.oldest_seconds is not None
            assert 360 <= advisories.oldest_seconds < 400


async def test_a_server_that_was_exchanged_is_told_by_its_version(tmp_path: Path) -> None:
    with EmbeddedServer.start(store=tmp_path / "js", binary=server_binary(OLD)) as old:
        port = old.port
        async with (
            producer(old.url),
            daemon_at(old.url, tmp_path / "jobs.sqlite") as daemon,
            AdminClient.connect(old.url) as client,
        ):
            assert (await check(client, "server")).version == OLD
            old.kill()
            with EmbeddedServer.start(store=tmp_path / "js", port=port, binary=server_binary()):

                async def newer() -> bool:
                    report = await daemon.health.report()
                    return report.checks[0].view.version not in ("", OLD)

                await until(newer, "the new version is told")
