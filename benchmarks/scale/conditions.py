"""The same jobs under another condition of the server, as ratios within one run."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Final

import uvloop

from benchmarks.report import Report, Say
from benchmarks.scale.filling import fill
from benchmarks.scale.rates import Rates, compared, rates
from benchmarks.scale.server import observed_server, prepare, restart
from benchmarks.scale.sheets import Sheet, number_of_bytes, rate_sheet, sheet
from benchmarks.scale.size import Size
from benchmarks.stage import Stage, connected
from benchmarks.workload import QUEUE
from tests.support.cluster import SIZE as NODES
from tests.support.cluster import cluster
from trellis_jobs.contract.topology import WORK, queue_consumer
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.jetstream.work.consumer_setup import ensure_consumer

SYNCED: Final = "jetstream { sync_interval: always }\n"


def measure_syncing(size: Size, say: Say) -> Report:
    with observed_server() as usual, observed_server(SYNCED) as synced:
        return _in_turns({"default": usual, "always": synced}, size, say)


def syncing_sheets(found: Report) -> list[Sheet]:
    return [rate_sheet("syncing", "sync_interval", found)]


def measure_replicas(size: Size, say: Say) -> Report:
    """First one replica, then three, of the same streams."""
    rounds: dict[int, list[Rates]] = {}
    with cluster() as nodes:
        uvloop.run(nodes.until_ready())
        stage = Stage(nodes.url, processes=1)
        with stage:
            for replicas in (1, NODES):
                uvloop.run(prepare(nodes.url, replicas))
                say(f"replicas: {replicas}")
                rounds[replicas] = [rates(stage, size) for _ in range(size.rounds)]
    return compared(("one_replica", "three_replicas"), rounds[1], rounds[NODES])


def replicas_sheets(found: Report) -> list[Sheet]:
    return [rate_sheet("replicas", "three nodes on one machine", found)]


def measure_consumers(size: Size, say: Say) -> Report:
    """Queues that have nothing to do, beside one that is busy."""
    with observed_server() as plain, observed_server() as crowded:
        say(f"consumers: {size.consumers:,} with nothing to do")
        uvloop.run(fill(crowded.url, 0, size.few))
        before = restart(crowded).weight
        uvloop.run(_make_idle(crowded.url, size.consumers))
        after = restart(crowded)
        compared_rates = _in_turns({"alone": plain, "beside_idle_queues": crowded}, size, say)
    return {
        "consumers": size.consumers,
        "rates": compared_rates,
        "bytes": {
            "heap": (after.weight.heap - before.heap) / size.consumers,
            "resident": (after.weight.resident - before.resident) / size.consumers,
            "disk": (after.weight.disk[WORK] - before.disk[WORK]) / size.consumers,
        },
        "seconds_of_a_restart": after.seconds,
    }


def consumers_sheets(found: Report) -> list[Sheet]:
    weights, idle = found["bytes"], f"{found['consumers']:,} queues with nothing to do"
    return [
        rate_sheet("consumers", f"beside {idle}", found["rates"]),
        sheet(
            "consumer",
            f"bytes a queue, of {idle}; restart {found['seconds_of_a_restart']:.1f} s",
            ("a queue", *weights),
            (("its consumer", *(number_of_bytes(size) for size in weights.values())),),
        ),
    ]


def _in_turns(servers: dict[str, EmbeddedServer], size: Size, say: Say) -> dict[str, Rates]:
    """The server that is not asked does nothing; each is the first to be asked in some round."""
    found: dict[str, list[Rates]] = {name: [] for name in servers}
    with ExitStack() as opened:
        stages = {
            name: opened.enter_context(Stage(server.url, processes=1))
            for name, server in servers.items()
        }
        for number in range(size.rounds):
            for name in sorted(servers, reverse=number % 2 == 1):
                say(f"{name}, round {number + 1} of {size.rounds}")
                found[name].append(rates(stages[name], size))
    [(before, of_before), (after, of_after)] = found.items()
    return compared((before, after), of_before, of_after)


async def _make_idle(url: str, consumers: int) -> None:
    async with connected(url) as connection:
        for number in range(consumers):
            await ensure_consumer(connection, queue_consumer(f"idle-{number}", QUEUE))
