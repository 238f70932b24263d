"""Job types (queues) and service contracts as plain values, independent of any connection."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from trellis_jobs.contract.versions import Upgrades, check_versions, upgrade
from trellis_jobs.errors import DeclarationError
from trellis_jobs.model.identity import check_service, check_token
from trellis_jobs.model.redaction import is_secret
from trellis_jobs.model.retry import RetryPolicy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trellis_jobs.contract.key_policy import KeyPolicy
    from trellis_jobs.contract.payload_types import PayloadType
    from trellis_jobs.model.json_values import Json

P = TypeVar("P")
R = TypeVar("R")

DEFAULT_DELAYS: Final = tuple(timedelta(seconds=s) for s in (5, 30, 120, 600, 1800))
DEFAULT_RETRY: Final = RetryPolicy(5, DEFAULT_DELAYS)
DEFAULT_ACK_WAIT: Final = timedelta(seconds=30)
MIN_ACK_WAIT: Final = timedelta(milliseconds=100)


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
    concurrency: int = 1
    retry: RetryPolicy = DEFAULT_RETRY
    ack_wait: timedelta = DEFAULT_ACK_WAIT
    delivery_limit: int | None = None
    timeout: timedelta | None = None
    deadline: timedelta | None = None
    progress: bool = True
    logs: bool = True
    dead_letters: bool = True
    permanent: tuple[type[BaseException], ...] = ()
    shared: bool = False
    key_policy: KeyPolicy | None = None
    version: int = 1
    upgrades: Upgrades = field(default_factory=dict, hash=False)
    consumer: str | None = None
    docs: Json = field(default=None, hash=False)

    def __post_init__(self) -> None:
        check_token("queue name", self.name)
        self._check_counts()
        self._check_content()
        self._require(
            all(map(_is_exception_class, self.permanent)),
            f"permanent must contain exception classes, is {self.permanent!r}",
        )
        self._require(
            all(delay >= timedelta() for delay in self.retry.delays), "backoff cannot be negative"
        )
        self._require(
            self.ack_wait >= MIN_ACK_WAIT,
            f"ack_wait must be at least 0.1 s, is {self.ack_wait}",
        )
        for option in ("timeout", "deadline"):
            value: timedelta | None = getattr(self, option)
            self._require(
                value is None or value > timedelta(),
                f"{option} must be more than 0 seconds, is {value}",
            )

    def _check_counts(self) -> None:
        counts = {"concurrency": self.concurrency, "max_deliver": self.retry.max_tries}
        if self.delivery_limit is not None:
            counts["delivery_limit"] = self.delivery_limit
        for option, value in counts.items():
            # Not isinstance, because True is an int.
            self._require(type(value) is int, f"{option} must be a whole number, is {value!r}")
            self._require(value >= 1, f"{option} must be at least 1, is {value}")

    def _check_content(self) -> None:
        try:
            check_versions(self.version, self.upgrades)
        except DeclarationError as error:
            raise DeclarationError(f"queue {self.name!r}: {error}") from error
        segments = () if self.key_policy is None else self.key_policy.template.segments
        for pointer in (segment for segment in segments if segment.startswith("/")):
            hidden = is_secret(pointer, self.payload.secrets)
            self._require(
                not hidden, f"{pointer} is secret, so it cannot be part of a key: keys are shown"
            )
            self._require(
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

    def _require(self, condition: bool, message: str) -> None:
        if not condition:
            raise DeclarationError(f"queue {self.name!r}: {message}")


def _is_exception_class(found: object) -> bool:
    return isinstance(found, type) and issubclass(found, BaseException)


@dataclass(frozen=True, slots=True)
class ServiceContract:
    """A service and its queues by name."""

    service: str
    queues: Mapping[str, JobType[Any, Any]]

    def __post_init__(self) -> None:
        check_service(self.service)
