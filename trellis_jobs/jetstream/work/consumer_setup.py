"""Creates the durable consumer of a queue, or checks that the existing one is compatible."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from trellis_jobs.contract.consumer_metadata import CONTRACT, keep_newer_contract
from trellis_jobs.contract.other_contract import conflicts
from trellis_jobs.contract.topology import WORK, Config
from trellis_jobs.errors import (
    InfrastructureMismatch,
    InfrastructureMissing,
    NotPermitted,
    RequestRefused,
)
from trellis_jobs.jetstream.client import api

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trellis_jobs.jetstream.client.connection import Connection

log = logging.getLogger(__name__)

_MUST_MATCH: Final = ("filter_subject", "ack_policy", "backoff", "deliver_subject")
_TUNABLE: Final = ("ack_wait", "max_deliver", "max_ack_pending")


async def ensure_consumer(connection: Connection, desired: Config, stream: str = WORK) -> Config:
    """Create the consumer, or attach to a compatible one; returns the effective settings.

    It uses only the filtered create API, and neither stream info nor legacy subjects. Without
    permission to create, it attaches to the operator's consumer and does not change it.
    """
    name = desired["name"]
    call = f"CONSUMER.CREATE.{stream}.{name}.{desired['filter_subject']}"
    may_create = True
    try:
        return await _create(connection, call, "create", desired)
    except NotPermitted:
        may_create = False
    except RequestRefused as refusal:
        _raise_unless_exists(stream, name, refusal)
    found = await _read_consumer(connection, stream, name)
    if differences := incompatible_settings(desired, found):
        raise InfrastructureMismatch(f"consumer {name} of {stream}", differences)
    _warn_of_another_contract(desired, found)
    outdated = outdated_settings(desired, found)
    if not outdated or not may_create:
        return found
    log.info(
        "consumer %s is updated: %s",
        name,
        ", ".join(outdated),
        extra={"consumer": name, "settings": outdated},
    )
    return await _create(connection, call, "update", _updated(desired, found))


def _warn_of_another_contract(desired: Config, found: Config) -> None:
    declared = (desired.get("metadata") or {}).get(CONTRACT)
    recorded = (found.get("metadata") or {}).get(CONTRACT)
    differences = conflicts(recorded, declared) if declared and recorded else []
    if differences:
        log.warning(
            "the queue of consumer %s had another contract until now: %s. A worker fails or "
            "returns the jobs that do not fit its contract. If no deploy changed the contract, "
            "another service has the same name: rename one of them",
            desired["name"],
            "; ".join(differences),
        )


def _raise_unless_exists(stream: str, name: str, refusal: RequestRefused) -> None:
    """Raises the meaning of a refused create, unless the consumer just exists already."""
    if refusal.code in api.OVERLAPPING_CONSUMER:
        raise InfrastructureMismatch(
            f"stream {stream}",
            [f"another consumer takes the work of {name}: {refusal.description}"],
        ) from refusal
    if refusal.code not in (api.CONSUMER_EXISTS, api.CONSUMER_NAME_IN_USE):
        raise refusal


async def _read_consumer(connection: Connection, stream: str, name: str) -> Config:
    try:
        info = await api.request(connection, f"CONSUMER.INFO.{stream}.{name}")
    except RequestRefused as refusal:
        if refusal.code == api.CONSUMER_NOT_FOUND:
            raise InfrastructureMissing(f"consumer {name} of {stream}") from refusal
        raise
    config: Config = info["config"]
    return config


async def _create(connection: Connection, call: str, action: str, config: Config) -> Config:
    stream = call.split(".")[2]
    body = {"stream_name": stream, "action": action, "config": config}
    created: Config = (await api.request(connection, call, body))["config"]
    return created


def incompatible_settings(desired: Config, found: Config) -> list[str]:
    """Returns settings that differ and must not be changed under running jobs."""
    return _differences(_MUST_MATCH, desired, found)


def outdated_settings(desired: Config, found: Config) -> list[str]:
    """Returns settings that differ and that a start of the service updates."""
    recorded = found.get("metadata") or {}
    outdated_metadata = [
        f"{key} is from another version"
        for key, note in _declared_metadata(desired, found).items()
        if recorded.get(key) != note
    ]
    return _differences(_TUNABLE, desired, found) + outdated_metadata


def _updated(desired: Config, found: Config) -> Config:
    """Sends all found settings back, so that those set by others survive."""
    metadata = {**(found.get("metadata") or {}), **_declared_metadata(desired, found)}
    return {**found, **{key: desired[key] for key in _TUNABLE}, "metadata": metadata}


def _declared_metadata(desired: Config, found: Config) -> dict[str, str]:
    """Returns the metadata that the consumer should have."""
    return keep_newer_contract(desired.get("metadata") or {}, found.get("metadata") or {})


def _differences(keys: Iterable[str], desired: Config, found: Config) -> list[str]:
    return [
        f"{key} should be {_shown(key, desired)}, is {_shown(key, found)}"
        for key in keys
        if desired.get(key) != found.get(key)
    ]


def _shown(key: str, config: Config) -> str:
    value = config.get(key)
    return f"{value / 1e9:g} s" if key == "ack_wait" and value else repr(value)
