"""A service that declares much, for a module to be generated from its manifest."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from enum import IntEnum, StrEnum
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import AnyUrl, BaseModel, ConfigDict, Field, SecretStr

from trellis_jobs import Cron, Every, Jobs, KeyConcurrency, QueueDepth, Secret, job


class Speed(StrEnum):
    SLOW = "slow"
    VERY_FAST = "very-fast"


class Size(IntEnum):
    S = 1
    L = 3


class Address(BaseModel):
    """Where it goes; as the "post" writes it, with a \\ in it."""

    model_config = ConfigDict(extra="forbid")

    street: Annotated[str, Field(min_length=1, max_length=80, pattern="^[^,]+$")]
    door: int | None = None


class Cash(BaseModel):
    kind: Literal["cash"] = "cash"


class Card(BaseModel):
    kind: Literal["card"] = "card"
    number: SecretStr
    cvc: Annotated[str, Secret(), Field(max_length=4)]


class Folder(BaseModel):
    name: str
    folders: list[Folder] = []


class Order(BaseModel):
    """An order."""

    id: UUID
    at: datetime
    day: date
    hour: time
    wait: timedelta | None = None
    speed: Speed = Speed.SLOW
    size: Size | None = None
    to: Address
    also_to: list[Address] = []
    pay: Annotated[Cash | Card, Field(discriminator="kind")]
    weights: dict[str, float] = {}
    pair: tuple[int, str]
    tags: set[str] = set()
    codes: set[int] = {1}
    marks: set[str] = {"[x]"}
    place: tuple[int, str] = (1, "a")
    alone: tuple[int] = (1,)
    large: Size = Size.L
    small: Size | None = Size.S
    fast: Speed | None = Speed.VERY_FAST
    paper: Literal["a4", "a5", 3] = "a4"
    anything: Any = None
    discount: float = Field(0.5, gt=0, le=1)
    lines: Annotated[list[Annotated[int, Field(ge=1)]], Field(min_length=1)] = Field(
        default_factory=list, title="Lines of it", description="What is ordered, by number. " * 5
    )
    backNumber: bool = False  # noqa: N815 - others write it so
    in_house: int = Field(alias="in-house", multiple_of=2)
    class_: str = Field("first", alias="class")
    shop: AnyUrl
    more: dict[str, Any] = Field(default_factory=dict, examples=[{"a": [1, "b, c"]}])
    folder: Folder | None = None


class OrderJobs(Jobs, service="orders"):
    ship = job(
        Order,
        Address,
        concurrency=4,
        max_deliver=3,
        backoff=[1, 2.5],
        ack_wait=10,
        delivery_limit=7,
        timeout=0.5,
        deadline=60,
        progress=False,
        dlq=False,
        shared=True,
        docs={"summary": "Ships it."},
        key=KeyConcurrency(
            ["zendesk", "/to/street"], max_active=3, heartbeat_interval=2, stale_policy="block"
        ),
        queue=QueueDepth(max_queued_per_key=1, when_full="coalesce"),
    )
    greet = job(str, version=3, upgrades={1: str, 2: str}, docs="Says hello. " * 9)
    wave = job(
        str,
        schedules={
            "morning": Cron("0 9 * * 1-5", tz="America/New_York", payload="good morning"),
            "pulse": Every(300, payload="still here, " * 9),
        },
    )
    restock = job(
        dict[str, Any],
        schedules={
            "all-of-it": Cron(
                "*/10 30 2 L * *",
                payload={"a": [1, None, True, 1.5, -3, "b, 'c'"], "": {"nested": {}}},
                jitter=0.5,
                start=datetime(2026, 1, 1, tzinfo=UTC),
                end="2027-01-01T09:00+01:00",
                catch_up="all",
                max_catch_up=7,
                overlap="cancel-running",
            )
        },
    )
    list_all = job(list[Address], list[str], name="list", key=KeyConcurrency(["all"]))
    anything = job(object, object)
