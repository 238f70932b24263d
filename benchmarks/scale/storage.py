"""What a job weighs: waiting, finished, with its own key, and as a row of the projection."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Final

import uvloop

from benchmarks import keyed, ours
from benchmarks.report import Report, Say
from benchmarks.scale.filling import fill
from benchmarks.scale.server import observed_server, prepare, restart
from benchmarks.scale.sheets import Sheet, number_of_bytes, sheet
from benchmarks.scale.size import Size
from benchmarks.stage import Stage, connected
from benchmarks.workload import Invoice, Receipt
from jobs_admin.projection.rebuild import rebuild
from trellis_jobs.contract.topology import KEYS, LOG, WORK
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.log.feed import LogFeed

ROWS: Final = {
    "waiting": "job that waits: its event, and the copy in the work queue",
    "finished": "job that is over: its three events",
    "key": "key that was used once, without its job",
}
STREAMS: Final = (LOG, WORK, KEYS)
COLUMNS: Final = ("heap", "resident", *STREAMS)


def measure(size: Size, say: Say) -> Report:
    """Jobs on top of a few others, so that what the server has in any case is not taken for theirs.

    Keys by themselves, once the log is purged.
    """
    with observed_server() as server:
        stage = Stage(server.url, processes=1)
        with stage:
            say(f"storage: {size.stored:,} jobs")
            uvloop.run(prepare(server.url))
            empty = _at_rest(server)
            uvloop.run(fill(server.url, 0, size.few))
            before = _at_rest(server)
            stage.do(ours.create_many, size.stored)
            stage.until_queued(size.stored)
            waiting = _at_rest(server)
            stage.do(ours.drain, size.stored)
            finished = _at_rest(server)
            row = uvloop.run(_projected(server.url)) / (size.few + size.stored)
            say(f"storage: {size.keys:,} keys")
            stage.do(keyed.create_many, size.keys, size.keys)
            stage.until_queued(size.keys)
            stage.do(keyed.drain, size.keys, size.keys)
            uvloop.run(_purge_log(server.url))
            only_keys = _at_rest(server)
    return {
        "stored": size.stored,
        "keys": size.keys,
        "payload": len(Invoice(number=size.stored).model_dump_json()),
        "result": len(Receipt(number=size.stored).model_dump_json()),
        "bytes": {
            "waiting": _each(waiting, before, size.stored),
            "finished": _each(finished, before, size.stored),
            "key": _each(only_keys, empty, size.keys),
        },
        "row": row,
    }


def sheets(found: Report) -> list[Sheet]:
    return [
        sheet(
            "storage",
            f"bytes for each of {found['stored']:,} jobs and {found['keys']:,} keys "
            f"(payload {found['payload']}, result {found['result']})",
            (
                f"each of {found['stored']:,}",
                "heap",
                "resident",
                *(f"disk, {stream}" for stream in STREAMS),
            ),
            (
                *(
                    (title, *(number_of_bytes(found["bytes"][row][name]) for name in COLUMNS))
                    for row, title in ROWS.items()
                ),
                (f"row of the projection: {found['row']:,.0f} in its file", *("" for _ in COLUMNS)),
            ),
        )
    ]


def _at_rest(server: EmbeddedServer) -> dict[str, int]:
    """After a restart, with nothing in the server's caches."""
    weight = restart(server).weight
    return {"heap": weight.heap, "resident": weight.resident, **weight.disk}


def _each(more: dict[str, int], less: dict[str, int], jobs: int) -> dict[str, float]:
    """Bytes for each of the jobs by which they differ."""
    return {name: (more[name] - less[name]) / jobs for name in COLUMNS}


async def _purge_log(url: str) -> None:
    async with connected(url) as connection:
        await api.request(connection, f"STREAM.PURGE.{LOG}")


async def _projected(url: str) -> int:
    """The size of a projection of this log."""
    async with connected(url) as connection:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "jobs.sqlite"
            await rebuild(path, LogFeed(connection))
            return await asyncio.to_thread(lambda: path.stat().st_size)
