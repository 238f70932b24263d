"""Make the server match a topology: idempotent, safe to run from many services at once.

What is missing is made, what is merely behind is brought up to date, and what would endanger
running jobs (retention, subjects, sources, storage) is refused with an explanation.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from trellis_jobs.contract.topology import LOG, TO_WORK, Config, Topology
from trellis_jobs.errors import InfrastructureMismatch, RequestRefused
from trellis_jobs.jetstream import api

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trellis_jobs.jetstream.connection import Connection

log = logging.getLogger(__name__)

DANGEROUS: Final = frozenset({"retention", "subjects", "sources", "storage"})
_MISSING: Final = object()


class Act(StrEnum):
    CREATED = "created"
    UPDATED = "updated"
    KEPT = "kept"


@dataclass(frozen=True, slots=True)
class Change:
    act: Act
    name: str
    details: tuple[str, ...] = ()


@dataclass(slots=True)
class Report:
    changes: list[Change] = field(default_factory=list)

    def note(self, change: Change) -> None:
        self.changes.append(change)
        if change.act is not Act.KEPT:
            log.info(
                "infrastructure changed",
                extra={"act": change.act, "object": change.name, "details": change.details},
            )


async def provision(connection: Connection, topology: Topology) -> Report:
    report = Report()
    for config in topology.streams():
        report.note(await _ensure_stream(connection, config))
        if config["name"] == LOG:
            await _ensure_to_work(connection, topology, report)
    return report


async def _ensure_stream(connection: Connection, desired: Config) -> Change:
    name = desired["name"]
    existing = await _find(connection, f"STREAM.INFO.{name}", api.STREAM_NOT_FOUND)
    if existing is None:
        try:
            await api.request(connection, f"STREAM.CREATE.{name}", desired)
            return Change(Act.CREATED, name)
        except RequestRefused as refusal:
            if refusal.code != api.STREAM_NAME_IN_USE:
                raise
            # Somebody else made it in between; theirs is judged like any other.
            existing = await api.request(connection, f"STREAM.INFO.{name}")
    return await _bring_up_to_date(connection, desired, existing["config"])


async def _bring_up_to_date(connection: Connection, desired: Config, found: Config) -> Change:
    name = desired["name"]
    differing = [key for key in desired if not _same(key, desired[key], found.get(key, _MISSING))]
    dangerous = sorted(DANGEROUS.intersection(differing))
    if dangerous:
        raise InfrastructureMismatch(
            f"stream {name}", [_describe(key, desired[key], found.get(key)) for key in dangerous]
        )
    if not differing:
        return Change(Act.KEPT, name)
    changed = {key: desired[key] for key in differing}
    await api.request(connection, f"STREAM.UPDATE.{name}", {**found, **changed})
    details = tuple(_describe(key, desired[key], found.get(key)) for key in differing)
    return Change(Act.UPDATED, name, details)


async def _ensure_to_work(connection: Connection, topology: Topology, report: Report) -> None:
    desired = topology.to_work()
    if desired is None:
        return
    call = f"CONSUMER.CREATE.{LOG}.{TO_WORK}"
    body = {"stream_name": LOG, "action": "create", "config": desired}
    found = await _find(connection, f"CONSUMER.INFO.{LOG}.{TO_WORK}", api.CONSUMER_NOT_FOUND)
    if found is not None:
        _check_to_work(desired, found["config"])
        report.note(Change(Act.KEPT, f"{LOG}/{TO_WORK}"))
        return
    try:
        await api.request(connection, call, body)
    except RequestRefused as refusal:
        if refusal.code != api.CONSUMER_EXISTS:
            raise
        raise InfrastructureMismatch(
            f"consumer {TO_WORK} of {LOG}", [refusal.description]
        ) from refusal
    report.note(Change(Act.CREATED, f"{LOG}/{TO_WORK}"))


def _check_to_work(desired: Config, found: Config) -> None:
    differing = [
        _describe(key, desired[key], found.get(key))
        for key in ("deliver_subject", "ack_policy", "filter_subjects")
        if desired[key] != found.get(key)
    ]
    if differing:
        raise InfrastructureMismatch(f"consumer {TO_WORK} of {LOG}", differing)


async def _find(connection: Connection, call: str, not_found: int) -> dict[str, Any] | None:
    try:
        return await api.request(connection, call)
    except RequestRefused as refusal:
        if refusal.code == not_found:
            return None
        raise


def _same(key: str, desired: Any, found: Any) -> bool:
    if key == "sources" and isinstance(found, list):
        return _same_sources(desired, found)
    if found is _MISSING:
        return desired is False  # the server leaves false out
    return bool(desired == found)


def _same_sources(desired: list[Config], found: list[Config]) -> bool:
    """Plain sourcing made by an older server is kept: changing it may replay jobs."""

    def essence(sources: list[Config]) -> list[tuple[str, list[Mapping[str, str]]]]:
        return [(source["name"], source.get("subject_transforms") or []) for source in sources]

    return essence(desired) == essence(found)


def _describe(key: str, desired: object, found: object) -> str:
    return f"{key} should be {desired!r}, is {found!r}"
