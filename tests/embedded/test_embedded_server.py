"""The embedded server, run for real."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import venv
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread

import nats
import pytest

from tests.support.fetch_servers import OLDER_VERSIONS, binary_of
from trellis_jobs.embedded import EmbeddedServer, EmbeddedServerFailed, EmbeddedServerMissing

GONE_WITHIN = 20.0

PARENT = """
import time
from trellis_jobs.embedded import EmbeddedServer
print(EmbeddedServer.start().pid, flush=True)
time.sleep(60)
"""


@pytest.fixture
def server() -> Iterator[EmbeddedServer]:
    with EmbeddedServer.start() as running:
        yield running


async def test_jetstream_works_as_soon_as_start_returns(server: EmbeddedServer) -> None:
    await store_a_message(server)
    assert await stored_messages(server) == 1


async def test_two_servers_run_side_by_side_and_share_nothing(server: EmbeddedServer) -> None:
    with EmbeddedServer.start() as other:
        assert other.port != server.port
        await store_a_message(other)
        await store_a_message(server)
        await store_a_message(server)
        assert await stored_messages(other) == 1


async def test_what_was_stored_survives_a_kill_and_a_restart(server: EmbeddedServer) -> None:
    url = server.url
    await store_a_message(server)
    server.kill()
    server.restart()
    assert server.url == url
    assert await stored_messages(server) == 1


async def test_a_running_server_can_be_restarted(server: EmbeddedServer) -> None:
    await store_a_message(server)
    first = server.pid
    server.restart()
    assert not is_running(first)
    assert await stored_messages(server) == 1


async def test_a_given_store_is_kept_for_the_next_server(tmp_path: Path) -> None:
    with EmbeddedServer.start(store=tmp_path) as first:
        await store_a_message(first)
    with EmbeddedServer.start(store=tmp_path) as second:
        assert await stored_messages(second) == 1


def test_a_temporary_store_is_removed_with_its_server(server: EmbeddedServer) -> None:
    assert server.store.is_dir()
    server.stop()
    assert not server.store.exists()


def test_stopping_twice_is_fine(server: EmbeddedServer) -> None:
    server.stop()
    server.stop()
    assert not is_running(server.pid)


def test_a_second_server_on_the_same_store_is_refused(server: EmbeddedServer) -> None:
    with pytest.raises(EmbeddedServerFailed, match="already runs on"):
        EmbeddedServer.start(store=server.store)
    assert is_running(server.pid)


def test_a_port_that_is_taken_is_named_in_the_error(server: EmbeddedServer) -> None:
    with pytest.raises(EmbeddedServerFailed, match="address already in use"):
        EmbeddedServer.start(port=server.port)


async def test_configuration_text_reaches_the_server() -> None:
    with EmbeddedServer.start(config="max_payload: 65536") as small:
        async with await nats.connect(small.url) as client:
            assert client.max_payload == 65536


def test_configuration_the_server_refuses_is_shown_with_its_own_words() -> None:
    with pytest.raises(EmbeddedServerFailed) as refused:
        EmbeddedServer.start(config="colour: green")
    assert 'unknown field "colour"' in refused.value.log_tail


@pytest.mark.parametrize("version", OLDER_VERSIONS)
async def test_an_older_server_can_be_chosen(version: str) -> None:
    with EmbeddedServer.start(binary=binary_of(version)) as older:
        async with await nats.connect(older.url) as client:
            assert version in str(client.connected_server_version)


def test_a_binary_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(EmbeddedServerMissing, match=str(tmp_path)):
        EmbeddedServer.start(binary=tmp_path / "nats-server")


def test_without_the_embedded_extra_the_error_says_what_to_install(tmp_path: Path) -> None:
    venv.create(tmp_path, symlinks=True)
    output = subprocess.run(
        (tmp_path / "bin" / "python", "-c", PARENT),
        env={"PYTHONPATH": os.pathsep.join(sys.path), "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "pip install 'trellis-jobs[embedded]'" in output.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux takes the thread for the parent")
async def test_a_server_outlives_the_thread_that_started_it() -> None:
    started: list[EmbeddedServer] = []
    thread = Thread(target=lambda: started.append(EmbeddedServer.start()))
    thread.start()
    thread.join()
    with started[0] as server:
        until_false(Path(f"/proc/self/task/{thread.native_id}").exists)
        await store_a_message(server)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child of a killed parent")
def test_the_server_dies_with_a_parent_that_was_killed(tmp_path: Path) -> None:
    command = (sys.executable, "-c", PARENT)
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=inside(tmp_path)) as parent:
        assert parent.stdout is not None
        server_pid = int(parent.stdout.readline())
        assert is_running(server_pid)
        parent.kill()
    until_false(lambda: is_running(server_pid))


def test_a_parent_that_forgets_to_stop_its_server_leaves_nothing_behind(tmp_path: Path) -> None:
    command = (sys.executable, "-c", PARENT.replace("time.sleep(60)", ""))
    output = subprocess.check_output(command, env=inside(tmp_path))
    assert not is_running(int(output))
    assert list(tmp_path.iterdir()) == []


def inside(temporary: Path) -> dict[str, str]:
    return {**os.environ, "TMPDIR": str(temporary)}


async def store_a_message(server: EmbeddedServer) -> None:
    async with await nats.connect(server.url) as client:
        jetstream = client.jetstream()
        await jetstream.add_stream(name="NOTES", subjects=["notes"])
        await jetstream.publish("notes", b"kept")


async def stored_messages(server: EmbeddedServer) -> int:
    async with await nats.connect(server.url) as client:
        info = await client.jetstream().stream_info("NOTES")
        return info.state.messages


def until_false(fact: Callable[[], bool]) -> None:
    deadline = time.monotonic() + GONE_WITHIN
    while fact():
        assert time.monotonic() < deadline, f"still so after {GONE_WITHIN} s"
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    """A zombie does not run: it only waits for its parent to collect its exit code."""
    try:
        os.kill(pid, 0)
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except ProcessLookupError:
        return False
    except FileNotFoundError:  # gone in between, or a system without /proc
        return Path("/proc").exists() is False
