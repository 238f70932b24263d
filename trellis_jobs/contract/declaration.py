"""Job types (queues) and service contracts as plain values, independent of any connection."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypedDict, TypeVar

from trellis_jobs.contract.key_policy import KeyConcurrency, KeyPolicy, QueueDepth, resolve
from trellis_jobs.contract.option_kinds import Duration, require
from trellis_jobs.contract.queue_options import DEFAULTS, QUEUE_OPTIONS
from trellis_jobs.contract.schedules import Cron, Every, resolve_declared
from trellis_jobs.contract.versions import Upgrades, check_versions, upgrade
from trellis_jobs.errors import DeclarationError
from trellis_jobs.model.identity import check_service, check_token
from trellis_jobs.model.redaction import is_secret
from trellis_jobs.model.retry import RetryPolicy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta

    from trellis_jobs.contract.payload_types import PayloadType
    from trellis_jobs.model.json_values import Json
    from trellis_jobs.model.schedules.definition import ScheduleDefinition
    from trellis_jobs.model.try_limits import Renewal

P = TypeVar("P")
R = TypeVar("R")

DEFAULT_RETRY: Final = RetryPolicy(
    DEFAULTS["max_deliver"], DEFAULTS["backoff"], DEFAULTS["max_snoozes"]
)
DEFAULT_ACK_WAIT: Final[timedelta] = DEFAULTS["ack_wait"]


class JobOptions(TypedDict, total=False):
    """Options of `job(...)`; durations are seconds or timedelta.

    Type checkers need the options as code. All other facts about them are in the table
    QUEUE_OPTIONS, and a test holds the two equal. Generated modules and the reference page have
    the options in this order.
    """

    name: str
    version: int
    upgrades: Upgrades
    concurrency: int
    max_deliver: int
    backoff: Sequence[Duration]
    max_snoozes: int
    ack_wait: Duration
    renew: Literal["automatic", "manual"]
    delivery_limit: int | None
    timeout: Duration | None
    deadline: Duration | None
    progress: bool
    logs: bool
    dlq: bool
    permanent: Sequence[type[BaseException]]
    shared: bool
    docs: Json
    key: KeyConcurrency | None
    queue: QueueDepth | None
    schedules: Mapping[str, Cron | Every]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobType(Generic[P, R]):
    """One queue of a service. `shared`: foreign runtimes write its events too (design D25).

    `version` is the payload's version, and `upgrades` convert payloads of earlier versions.
    `consumer` is set if the bindings of a deployment name the queue's consumer. `docs` is
    documentation for readers of the manifest.
    """

    name: str
    payload: PayloadType[P]
    result: PayloadType[R]
    concurrency: int = DEFAULTS["concurrency"]
    retry: RetryPolicy = DEFAULT_RETRY
    ack_wait: timedelta = DEFAULT_ACK_WAIT
    renew: Renewal = DEFAULTS["renew"]
    delivery_limit: int | None = DEFAULTS["delivery_limit"]
    timeout: timedelta | None = DEFAULTS["timeout"]
    deadline: timedelta | None = DEFAULTS["deadline"]
    progress: bool = DEFAULTS["progress"]
    logs: bool = DEFAULTS["logs"]
    dead_letters: bool = DEFAULTS["dlq"]
    permanent: tuple[type[BaseException], ...] = DEFAULTS["permanent"]
    shared: bool = DEFAULTS["shared"]
    key_policy: KeyPolicy | None = None
    version: int = DEFAULTS["version"]
    upgrades: Upgrades = field(default_factory=dict, hash=False)
    schedules: Mapping[str, ScheduleDefinition] = field(default_factory=dict, hash=False)
    consumer: str | None = None
    docs: Json = field(default=DEFAULTS["docs"], hash=False)

    def __post_init__(self) -> None:
        check_token("queue name", self.name)
        try:
            for option in QUEUE_OPTIONS:
                option.kind.check(option.name, option.value_of(self))
            check_versions(self.version, self.upgrades)
            self._check_key_pointers()
        except DeclarationError as error:
            raise DeclarationError(f"queue {self.name!r}: {error}") from error

    def _check_key_pointers(self) -> None:
        segments = () if self.key_policy is None else self.key_policy.template.segments
        for pointer in (segment for segment in segments if segment.startswith("/")):
            hidden = is_secret(pointer, self.payload.secrets)
            require(
                not hidden, f"{pointer} is secret, so it cannot be part of a key: keys are shown"
            )
            require(
                self.payload.may_hold_key(pointer),
                f"the key pointer {pointer!r} does not point to a string, number or boolean of the "
                "payload: point to one of its fields, as in '/customer/id', or leave out the '/' "
                "for a constant",
            )

    def read(self, payload: Json, version: int) -> P:
        """Decode a stored payload for a handler. Raises TypeMismatch."""
        newest = upgrade(
            payload,
            since=version,
            to=self.version,
            upgrades=self.upgrades,
            has_secrets=bool(self.payload.secrets),
        )
        return self.payload.from_json(newest)


def declare_queue(
    name: str, payload: PayloadType[P], result: PayloadType[R], values: Mapping[str, Any]
) -> JobType[P, R]:
    """A queue from the values of its options, by name; those left out have their defaults.

    Raises DeclarationError.
    """
    rest = dict(values)
    tries = rest.pop("max_deliver", DEFAULT_RETRY.max_tries)
    delays = rest.pop("backoff", DEFAULT_RETRY.delays)
    snoozes = rest.pop("max_snoozes", DEFAULT_RETRY.max_snoozes)
    ack_wait = rest.get("ack_wait", DEFAULT_ACK_WAIT)
    key_policy = resolve(rest.pop("key", None), rest.pop("queue", None), ack_wait)
    version = rest.get("version", DEFAULTS["version"])
    schedules = rest.pop("schedules", DEFAULTS["schedules"])
    return JobType(
        name=name,
        payload=payload,
        result=result,
        retry=RetryPolicy(tries, delays, snoozes),
        key_policy=key_policy,
        schedules=resolve_declared(schedules, payload, version, key_policy),
        dead_letters=rest.pop("dlq", DEFAULTS["dlq"]),
        **rest,
    )


@dataclass(frozen=True, slots=True)
class ServiceContract:
    """A service and its queues by name."""

    service: str
    queues: Mapping[str, JobType[Any, Any]]

    def __post_init__(self) -> None:
        check_service(self.service)
