"""The least that services, operators and the admin runtime must be allowed on a NATS server.

Subjects to publish to and to subscribe to, as the server's own permissions have them. Wildcards
stand for whole tokens, so every queue's consumer is named.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trellis_jobs.contract.topology import (
    ADVISORIES,
    ADVISORY_CONSUMER,
    KEYS,
    KEYS_BUCKET,
    LOG,
    TO_WORK,
    WORK,
    consumer_name,
)
from trellis_jobs.model import subjects

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trellis_jobs.contract.declaration import ServiceContract

_API: Final = "$JS.API"
STREAMS: Final = (LOG, WORK, ADVISORIES, KEYS)


@dataclass(frozen=True, slots=True)
class Rights:
    """`answers`: may reply to whatever it was asked, wherever the answer is to go."""

    publish: tuple[str, ...] = ()
    subscribe: tuple[str, ...] = ()
    answers: bool = False

    def __or__(self, other: Rights) -> Rights:
        return Rights(
            tuple(dict.fromkeys(self.publish + other.publish)),
            tuple(dict.fromkeys(self.subscribe + other.subscribe)),
            self.answers or other.answers,
        )


def inbox_of(name: str) -> str:
    """Where answers to this user come: a prefix that nobody else may listen to."""
    return f"_INBOX_{name}"


def own_inbox(name: str) -> Rights:
    return Rights(subscribe=(f"{inbox_of(name)}.>",))


def of_service(contract: ServiceContract) -> Rights:
    """To create, work on, look at and cancel its own jobs; its consumers too."""
    name = contract.service
    rights = own_inbox(name) | _producing(name) | _presence(name)
    for queue in contract.queues.values():
        rights |= _working(name, queue.name)
    if any(queue.keying is not None for queue in contract.queues.values()):
        rights |= _keys(name)
    return rights


def of_provisioner() -> Rights:
    """To make the streams, and bring them up to date."""
    calls = [f"STREAM.{verb}.{name}" for verb in ("INFO", "CREATE", "UPDATE") for name in STREAMS]
    calls += [f"CONSUMER.INFO.{LOG}.{TO_WORK}", f"CONSUMER.CREATE.{LOG}.{TO_WORK}"]
    calls += [f"STREAM.LEADER.STEPDOWN.{WORK}", "INFO"]
    return Rights(publish=_api(calls))


def of_admin(name: str) -> Rights:
    """The daemon: every job's events and work, every key; it makes and deletes no stream."""
    return own_inbox(name) | Rights(
        publish=(
            subjects.EVERYTHING,
            subjects.ALL_WORK,
            f"$KV.{KEYS_BUCKET}.>",
            f"$JS.ACK.{ADVISORIES}.{ADVISORY_CONSUMER}.>",
            *_api(_admin_calls()),
        ),
        subscribe=(subjects.rpc("Jobs.*"),),
        answers=True,
    )


def of_operator(name: str, methods: Iterable[str]) -> Rights:
    """To ask the admin runtime; nothing of JetStream."""
    return own_inbox(name) | Rights(publish=tuple(subjects.rpc(method) for method in methods))


def of_log_reader(name: str) -> Rights:
    """To read the log of every job, as it is and as it grows; changes nothing."""
    calls = [
        f"CONSUMER.CREATE.{LOG}.*.{subjects.EVERYTHING}",
        f"CONSUMER.MSG.NEXT.{LOG}.*",
        f"DIRECT.GET.{LOG}.{subjects.EVERYTHING}",
        f"STREAM.INFO.{LOG}",
    ]
    return own_inbox(name) | Rights(publish=_api(calls), subscribe=(subjects.EVERYTHING,))


def _producing(service: str) -> Rights:
    own = subjects.all_of_service(service)
    calls = [
        f"DIRECT.GET.{LOG}.{own}",
        f"CONSUMER.CREATE.{LOG}.*.{own}",
        f"CONSUMER.MSG.NEXT.{LOG}.*",
    ]
    return Rights(publish=(own, *_api(calls)), subscribe=(own,))


def _presence(service: str) -> Rights:
    own = subjects.presence_of_service(service)
    return Rights(publish=(own, *_api([f"DIRECT.GET.{LOG}.{own}"])))


def _working(service: str, queue: str) -> Rights:
    name = consumer_name(service, queue)
    calls = [
        f"CONSUMER.CREATE.{WORK}.{name}.{subjects.work_of_type(service, queue)}",
        f"CONSUMER.INFO.{WORK}.{name}",
        f"CONSUMER.MSG.NEXT.{WORK}.{name}",
    ]
    return Rights(publish=(*_api(calls), f"$JS.ACK.{WORK}.{name}.>"))


def _keys(service: str) -> Rights:
    own = subjects.keys_of_service(service)
    return Rights(publish=(own, *_api([f"DIRECT.GET.{KEYS}.{own}"])), subscribe=(own,))


def _admin_calls() -> list[str]:
    return [
        "INFO",
        *(f"STREAM.INFO.{name}" for name in STREAMS),
        f"STREAM.PURGE.{LOG}",
        f"STREAM.MSG.GET.{LOG}",
        f"STREAM.MSG.GET.{WORK}",
        f"STREAM.MSG.DELETE.{WORK}",
        f"DIRECT.GET.{LOG}",
        f"DIRECT.GET.{LOG}.>",
        f"DIRECT.GET.{KEYS}.>",
        f"CONSUMER.INFO.{LOG}.{TO_WORK}",
        f"CONSUMER.INFO.{WORK}.*",
        f"CONSUMER.LIST.{WORK}",
        f"CONSUMER.LIST.{ADVISORIES}",
        f"CONSUMER.INFO.{ADVISORIES}.{ADVISORY_CONSUMER}",
        f"CONSUMER.CREATE.{ADVISORIES}.{ADVISORY_CONSUMER}.>",
        f"CONSUMER.MSG.NEXT.{ADVISORIES}.{ADVISORY_CONSUMER}",
        *(
            call
            for stream in (LOG, KEYS)
            for call in (
                f"CONSUMER.CREATE.{stream}.*",
                f"CONSUMER.CREATE.{stream}.*.>",
                f"CONSUMER.MSG.NEXT.{stream}.*",
                f"CONSUMER.DELETE.{stream}.*",
            )
        ),
    ]


def _api(calls: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"{_API}.{call}" for call in calls)
