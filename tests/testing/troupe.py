"""A service whose handlers do what their payload says, and record what they know of their job."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Final, cast

from pydantic import BaseModel

from tests.support.example_service import ExampleJobs, attributes, example_jobs
from trellis_jobs import (
    ActiveJob,
    Fail,
    KeyConcurrency,
    QueueDepth,
    Rejected,
    Retry,
    Service,
    Snooze,
)
from trellis_jobs.service.queue import Queue

TWO_SNOOZES: Final = 2


class Part(BaseModel):
    do: str = "answer"
    key: str = "k"


TROUPE: Final = example_jobs(
    "troupe",
    Part,
    str,
    play={"max_deliver": 3, "backoff": [600], "permanent": [KeyError], "max_snoozes": 3},
    hasty={"max_deliver": 2, "backoff": [600], "timeout": 0.05},
    strict={"max_deliver": 2, "backoff": [600], "dlq": False},
    mute={"progress": False, "logs": False},
    brief={"deadline": 3600},
    sync={"max_deliver": 2, "backoff": [600]},
    alone={"key": KeyConcurrency(["part", "/key"])},
    patient={"key": KeyConcurrency(["part", "/key"]), "queue": QueueDepth(max_queued_per_key=1)},
    merging={
        "key": KeyConcurrency(["part", "/key"]),
        "queue": QueueDepth(max_queued_per_key=0, when_full="coalesce"),
    },
    replacing={
        "key": KeyConcurrency(["part", "/key"]),
        "queue": QueueDepth(max_queued_per_key=1, when_full="replace-oldest"),
    },
    soon={"max_deliver": 3, "backoff": [0.2]},
    crowded={
        "key": KeyConcurrency(["part", "/key"]),
        "queue": QueueDepth(max_queued_per_key=1),
        "concurrency": 2,
    },
    due={"key": KeyConcurrency(["part", "/key"]), "queue": QueueDepth(max_queued_per_key=0)},
    due_unless_full={
        "key": KeyConcurrency(["part", "/key"]),
        "queue": QueueDepth(max_queued_per_key=0, when_due="when-full"),
    },
    unplayed={},
)


@dataclass(frozen=True)
class Seen:
    """Of one attempt, as its handler began."""

    payload: Part
    tries: int
    max_tries: int
    snoozes: int
    redelivered: int
    has_deadline: bool
    key: str | None
    holds_key: bool | None
    cancelled: bool
    is_traced: bool
    was_delayed: bool


@dataclass
class Troupe:
    service: Service[ExampleJobs[Part, str]] = field(
        default_factory=lambda: Service(TROUPE, grace=1)
    )
    seen: list[Seen] = field(default_factory=list)
    stopped: list[bool] = field(default_factory=list)
    go: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        for name, queue in queues(self.jobs).items():
            if name == "sync":
                queue.handle(self.play_sync)
            elif name != "unplayed":
                queue.handle(self.playing(queue))

    @property
    def jobs(self) -> ExampleJobs[Part, str]:
        return self.service.jobs

    def playing(
        self, queue: Queue[Part, str]
    ) -> Callable[[ActiveJob[Part]], Coroutine[Any, Any, str]]:
        async def play(active: ActiveJob[Part]) -> str:
            self.write_down(active)
            match active.payload.do:
                case "hang":
                    await self.hang(active)
                case "hold":
                    await self.go.wait()
                case "cancel":
                    # It may be stopped before it has heard that it cancelled itself.
                    await self.hang(active, queue.ref(active.id).cancel("the play is off"))
                case "ask for more":
                    return await ask_for_more(queue, active)
            return act(active)

        return play

    def play_sync(self, active: ActiveJob[Part]) -> str:
        self.write_down(active)
        return act(active)

    async def hang(self, active: ActiveJob[Part], first: Awaitable[object] | None = None) -> None:
        try:
            if first is not None:
                await first
            await asyncio.Event().wait()
        finally:
            self.stopped.append(active.cancelled)

    def write_down(self, active: ActiveJob[Part]) -> None:
        lease = active.key_lease
        self.seen.append(
            Seen(
                payload=active.payload,
                tries=active.tries,
                max_tries=active.max_tries,
                snoozes=active.snoozes,
                redelivered=active.redelivered,
                has_deadline=active.deadline is not None,
                key=active.key,
                holds_key=None if lease is None else lease.is_held,
                cancelled=active.cancelled,
                is_traced=len(active.context.traceparent) == 55,
                was_delayed=active.scheduled_for is not None,
            )
        )


def queues(jobs: ExampleJobs[Part, str]) -> dict[str, Queue[Part, str]]:
    return {name: getattr(jobs, name) for name in attributes(TROUPE)}


def act(active: ActiveJob[Part]) -> str:
    do = active.payload.do
    if do == "misfit":
        misfit: Any = {"not": "text"}
        return cast("str", misfit)
    if do == "speak":
        active.progress(current=-3, total=2**60, step="x" * 2000)
        active.log("one", "debug")
        active.log("two", "critical")
        active.heartbeat()
    if do == "mumble":
        active.log("?", level="loud")
    if do == "sleep on" or (do == "sleep" and active.snoozes < TWO_SNOOZES):
        raise Snooze(f"{active.snoozes} so far", for_=600)
    if do == "doze" and not active.snoozes:
        raise Snooze("a moment", for_=0.2)
    stumble(do, active.tries)
    return f"done in {active.tries}"


def stumble(do: str, tries: int) -> None:
    match do:
        case "stumble" if tries == 1:
            raise RuntimeError("the first try fails")
        case "later" if tries == 1:
            raise Retry("not yet", after=600)
        case "fail":
            raise RuntimeError("it always fails")
        case "give up":
            raise Fail("this cannot work")
        case "forget":
            raise KeyError("Hamlet")


async def ask_for_more(queue: Queue[Part, str], active: ActiveJob[Part]) -> str:
    """While this job holds its key, ask for another of the same key, and for a third."""
    answers = []
    for _ in range(2):
        answer = await queue.submit(Part(key=active.payload.key))
        why = f" ({answer.reason})" if isinstance(answer, Rejected) else ""
        answers.append(f"{type(answer).__name__}{why}")
    return ", ".join(answers)
