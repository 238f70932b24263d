"""What the admin runtime writes is for its owner, and its probes for this machine.

Reproduction: projection, lock and archive were made with mode 0644 and folders with 0755. The lock
was opened with truncation through symbolic links, so a link `jobs.sqlite.lock` emptied any file
that the admin runtime could write. `--health-port` was open on every interface.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from jobs_admin.api.errors import ProjectionUnusable
from jobs_admin.file_lock import only_writer
from jobs_admin.maintenance.retention.archive import FolderArchive
from jobs_admin.private_files import make_folder
from jobs_admin.projection.rebuild import rebuild
from tests import given
from tests.admin.admin_lab import daemon_at, until_projected
from tests.support.example_service import Task
from tests.support.lab import probe, producer
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.jetstream.log.feed import LogFeed


@pytest.fixture(autouse=True)
def _permissive() -> Iterator[None]:
    """Nothing is left to the user's umask."""
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def test_only_its_owner_reads_a_projection(server: EmbeddedServer, tmp_path: Path) -> None:
    """Also what SQLite puts beside it, and the lock."""
    path = tmp_path / "var" / "trellis" / "jobs.sqlite"
    async with producer(server.url) as jobs, daemon_at(server.url, path) as daemon:
        await jobs.work.create(Task())
        await until_projected(daemon, 1)
        found = {each.name: mode(each) for each in path.parent.iterdir()}
    names = {f"jobs.sqlite{end}" for end in ("", "-wal", "-shm", ".lock", ".rebuilding.lock")}
    assert found == dict.fromkeys(names, 0o600)
    assert [mode(folder) for folder in (path.parent, path.parent.parent)] == [0o700, 0o700]


async def test_only_its_owner_reads_a_projection_that_is_rebuilt(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    path = tmp_path / "jobs.sqlite"
    modes: set[int] = set()

    def look(done: int = 0, total: int = 0) -> None:
        modes.update(mode(each) for each in tmp_path.iterdir())

    async with producer(server.url) as jobs, probe(server.url) as raw:
        await jobs.work.create(Task())
        await rebuild(path, LogFeed(raw.connection), look)
    look()
    assert modes == {0o600}


async def test_only_its_owner_reads_the_archive(tmp_path: Path) -> None:
    folder = tmp_path / "archive" / "jobs"
    events = (given.created(), given.started(), given.completed())
    await FolderArchive(folder).keep([(given.job(*events), given.log(*events))], date(2026, 1, 2))
    [written] = folder.iterdir()
    assert (mode(written), mode(folder), mode(folder.parent)) == (0o600, 0o700, 0o700)


def test_a_folder_that_is_there_keeps_its_permissions(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o755)
    make_folder(shared / "own")
    assert (mode(shared), mode(shared / "own")) == (0o755, 0o700)


def test_a_lock_that_is_there_is_not_emptied(tmp_path: Path) -> None:
    lock = tmp_path / "jobs.sqlite.lock"
    lock.write_text("kept")
    with only_writer(tmp_path / "jobs.sqlite"):
        assert lock.read_text() == "kept"


async def test_a_lock_that_is_a_link_is_refused_and_its_target_stays(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    target = tmp_path / "important"
    target.write_text("kept")
    (tmp_path / "jobs.sqlite.lock").symlink_to(target)
    async with producer(server.url):
        with pytest.raises(ProjectionUnusable, match="lock file is a symbolic link"):
            async with daemon_at(server.url, tmp_path / "jobs.sqlite"):
                pass
    assert target.read_text() == "kept"


@pytest.mark.parametrize(
    ("changes", "is_open"),
    [({}, False), ({"health_host": "0.0.0.0"}, True)],  # noqa: S104
)
async def test_probes_are_answered_on_this_machine_unless_another_host_is_named(
    server: EmbeddedServer, tmp_path: Path, changes: dict[str, Any], is_open: bool
) -> None:
    """127.0.0.2 stands for any other interface."""
    path = tmp_path / "jobs.sqlite"
    async with (
        producer(server.url),
        daemon_at(server.url, path, health_port=0, **changes) as daemon,
    ):
        _, writer = await asyncio.open_connection("127.0.0.1", daemon.health_port)
        writer.close()
        try:
            _, writer = await asyncio.open_connection("127.0.0.2", daemon.health_port)
        except ConnectionRefusedError:
            assert not is_open
        else:
            writer.close()
            assert is_open
