"""Who is measured: the tools, their servers, and how many jobs keep each busy for some seconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from benchmarks.peers import commands
from benchmarks.peers.commands import ADAPTERS, Commands
from benchmarks.peers.trial import Broker

OURS: Final = "trellis-jobs"


@dataclass(frozen=True, slots=True)
class Sizes:
    """About three seconds of work each, on a small machine."""

    one_by_one: int
    many: int
    drain: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    name: str
    brokers: tuple[Broker, ...]
    environment: str | None  # whose requirements; ours runs in the project's own
    adapter: str
    commands: Commands
    sizes: Sizes
    only_works: bool = False  # enqueues exactly like another contestant

    @property
    def is_ours(self) -> bool:
        return self.name == OURS


def _peer(
    name: str, broker: Broker, start: Commands, sizes: Sizes, *, only_works: bool = False
) -> Contestant:
    """`name` begins with the tool's, unless there is but one way to run it."""
    tool = name.partition("-")[0]
    return Contestant(
        name=name,
        # Celery keeps results in Redis, whatever carries its jobs.
        brokers=(broker,) if broker is not Broker.RABBITMQ else (broker, Broker.REDIS),
        environment=tool,
        adapter=f"{ADAPTERS}.{tool}_queue",
        commands=start,
        sizes=sizes,
        only_works=only_works,
    )


R, N = Broker.REDIS, Broker.NATS
CONTESTANTS: Final = (
    Contestant(
        name=OURS,
        brokers=(N,),
        environment=None,
        adapter="benchmarks.peers.ours",
        commands=commands.ours,
        sizes=Sizes(10_000, 40_000, 20_000),
    ),
    _peer("celery", R, commands.celery, Sizes(4_500, 5_000, 2_500)),
    _peer("celery-prefork", R, commands.celery_prefork, Sizes(0, 0, 2_400), only_works=True),
    _peer("celery-rabbitmq", Broker.RABBITMQ, commands.celery, Sizes(2_400, 3_000, 4_000)),
    _peer("dramatiq", R, commands.dramatiq, Sizes(12_000, 16_000, 6_000)),
    _peer("huey", R, commands.huey, Sizes(15_000, 20_000, 8_000)),
    _peer("rq", R, commands.rq, Sizes(6_000, 30_000, 1_000)),
    _peer("arq", R, commands.arq, Sizes(6_000, 15_000, 3_500)),
    _peer("saq", R, commands.saq, Sizes(8_000, 25_000, 6_000)),
    _peer("streaq", R, commands.streaq, Sizes(6_000, 30_000, 3_500)),
    _peer("taskiq-list", R, commands.taskiq, Sizes(7_000, 12_000, 6_000)),
    _peer("taskiq-stream", R, commands.taskiq, Sizes(7_000, 12_000, 6_000)),
    _peer("taskiq-nats", N, commands.taskiq, Sizes(12_000, 40_000, 5_000)),
    _peer("taskiq-nats-100", N, commands.taskiq, Sizes(0, 0, 8_000), only_works=True),
    _peer("procrastinate", Broker.POSTGRES, commands.procrastinate, Sizes(3_500, 30_000, 2_500)),
)
