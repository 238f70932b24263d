"""The health of the admin runtime: the reply to `Jobs.Health` and to HTTP readiness probes."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from jobs_admin.api.errors import ProjectionRebuilding
from jobs_admin.api.views.health import (
    CONTRACTS,
    CheckView,
    HealthStatus,
    HealthView,
    LoopState,
    RebuildView,
    StreamView,
)
from jobs_admin.config import SERVICE_NAME
from jobs_admin.reads.position import position
from jobs_admin.reads.services import contract_conflicts
from trellis_jobs.contract.topology import LOG
from trellis_jobs.environment import own_version
from trellis_jobs.errors import JobsError
from trellis_jobs.jetstream.client.stream_info import advisory_backlog, next_in_log, stream_size
from trellis_jobs.jetstream.setup.storage_info import STREAMS, account_usages
from trellis_jobs.model.usage import Level

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import datetime

    from jobs_admin.api.views.health import Mode
    from jobs_admin.loops import Loop, Loops
    from jobs_admin.reads.readers import Readers
    from trellis_jobs.contract.features import Features
    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.jetstream.client.server_clock import ServerClock
    from trellis_jobs.jetstream.client.stream_info import StreamSize

log = logging.getLogger(__name__)

PROJECTOR: Final = "projector"
CHECK_TIMEOUT: Final = 4.0
# New events arrive all the time, so the projection is behind only if one has waited this long.
MAX_PROJECTION_LAG: Final = timedelta(seconds=10)
MAX_ADVISORY_AGE: Final = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Check:
    """One check. `affects_readiness` is False for checks that do not matter for serving requests.

    If a failing retention loop made a replica unready, it would make all of them unready, and
    nothing would serve requests.
    """

    view: CheckView
    affects_readiness: bool = True

    @property
    def is_ok(self) -> bool:
        return self.view.status is HealthStatus.OK


@dataclass(frozen=True, slots=True)
class Report:
    at: datetime
    mode: Mode
    checks: tuple[Check, ...]

    @property
    def status(self) -> HealthStatus:
        return _ok_if(all(check.is_ok for check in self.checks))

    @property
    def is_ready(self) -> bool:
        return all(check.is_ok for check in self.checks if check.affects_readiness)

    @property
    def view(self) -> HealthView:
        return HealthView(
            service=SERVICE_NAME,
            version=own_version(),
            status=self.status,
            timestamp=self.at,
            mode=self.mode,
            checks=tuple(check.view for check in self.checks),
        )

    def encode(self) -> bytes:
        return self.view.encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    connection: Connection
    features: Features
    readers: Readers
    loops: Loops
    mode: Mode
    clock: ServerClock
    now: Callable[[], datetime]

    async def report(self) -> Report:
        """Never raises: a check that cannot be carried out reports its error."""
        server = self._server()
        checks: list[Check] = []
        if server.is_ok:
            checks += await asyncio.gather(
                self._run("projection", self._projection),
                self._run("streams", self._streams),
                self._run("advisories", self._advisories),
                self._run(CONTRACTS, self._contracts),
            )
        at = self.now()
        loops = [_loop(loop, at) for loop in self.loops.all.values()]
        return Report(at, self.mode, (server, *checks, *loops))

    def _server(self) -> Check:
        connected = self.connection.is_connected
        facts: dict[str, Any] = {"connected": connected, "version": self.connection.server_version}
        if lacks := self.features.lacks():
            facts["lacks"] = lacks
        return _check("server", connected, facts)

    async def _run(self, name: str, check: Callable[[], Awaitable[Check]]) -> Check:
        try:
            async with asyncio.timeout(CHECK_TIMEOUT):
                return await check()
        except TimeoutError:
            problem = f"the check did not finish within {CHECK_TIMEOUT:g} s"
        except JobsError as error:
            problem = str(error)
        except Exception as error:
            log.exception("health check %s failed", name, extra={"check": name})
            problem = f"{type(error).__name__}: {error}"
        return _check(name, False, {"error": problem})

    async def _projection(self) -> Check:
        """Count only messages that exist: purges and expired heartbeats leave gaps in the log."""
        try:
            reached = await position(self.readers)
        except ProjectionRebuilding as rebuilding:
            return _rebuilding(rebuilding)
        log, following = await asyncio.gather(
            stream_size(self.connection, LOG), next_in_log(self.connection, reached)
        )
        if log is None:
            return _check("projection", False, {"error": f"stream {LOG} does not exist"})
        behind, waited = 0, timedelta(0)
        if following is not None:
            behind = max(1, min(log.last_sequence - following.sequence + 1, log.messages))
            waited = max(waited, await self.clock.now() - following.stored_at)
        facts = {
            "position": reached,
            "last_seq": log.last_sequence,
            "lag_events": behind,
            "lag_seconds": round(waited.total_seconds(), 3),
        }
        return _check("projection", waited <= MAX_PROJECTION_LAG, facts)

    async def _streams(self) -> Check:
        sizes = await asyncio.gather(*(stream_size(self.connection, each) for each in STREAMS))
        usages = await account_usages(self.connection)
        listed = tuple(_stream_view(size) for size in sizes if size is not None)
        missing = [name for name, size in zip(STREAMS, sizes, strict=True) if size is None]
        problems = [f"missing streams: {', '.join(missing)}"] if missing else []
        for size in sizes:
            if size is not None:
                problems += size.replication.problems
                usages += size.usages
            if size is not None and size.name == LOG:
                problems += [f"{LOG} deletes events by its limit {each}" for each in size.dropping]
        problems += [str(usage) for usage in usages if usage.level is not Level.FINE]
        facts: dict[str, Any] = {"streams": listed}
        if problems:
            facts["error"] = "; ".join(problems)
        return _check("streams", not problems, facts, affects_readiness=False)

    async def _advisories(self) -> Check:
        """Judge by the age of the oldest advisory: a running admin runtime handles each at once."""
        backlog = await advisory_backlog(self.connection)
        if backlog is None:
            return _check("advisories", True, {}, affects_readiness=False)
        facts: dict[str, Any] = {"backlog": backlog.count}
        waited = timedelta(0)
        if backlog.oldest_at is not None:
            waited = max(waited, await self.clock.now() - backlog.oldest_at)
            facts["oldest_seconds"] = round(waited.total_seconds(), 3)
        return _check("advisories", waited <= MAX_ADVISORY_AGE, facts, affects_readiness=False)

    async def _contracts(self) -> Check:
        """Report workers of one queue with different contracts, which is normal during a deploy."""
        try:
            found = await contract_conflicts(self.readers, now=await self.clock.now())
        except ProjectionRebuilding:
            found = []
        facts = {"error": "; ".join(found)} if found else {}
        return _check(CONTRACTS, not found, facts, affects_readiness=False)


def _check(
    name: str, is_ok: bool, facts: dict[str, Any], *, affects_readiness: bool = True
) -> Check:
    return Check(CheckView(name=name, status=_ok_if(is_ok), **facts), affects_readiness)


def _rebuilding(progress: ProjectionRebuilding) -> Check:
    rebuilding = RebuildView(messages=progress.done, of=progress.total)
    return _check("projection", False, {"error": str(progress), "rebuilding": rebuilding})


def _stream_view(size: StreamSize) -> StreamView:
    return StreamView(
        name=size.name,
        messages=size.messages,
        bytes=size.bytes,
        first_seq=size.first_sequence,
        last_seq=size.last_sequence,
        consumers=size.consumers,
    )


def _loop(loop: Loop, now: datetime) -> Check:
    state = loop.state(now)
    facts = {
        "state": state,
        "failures": loop.failures,
        "last_success": loop.last_success,
        "last_error": loop.last_error,
        "last_failure": loop.last_failure,
    }
    is_ok, is_projector = state is not LoopState.FAILING, loop.name == PROJECTOR
    return _check(f"loop:{loop.name}", is_ok, facts, affects_readiness=is_projector)


def _ok_if(is_ok: bool) -> HealthStatus:
    return HealthStatus.OK if is_ok else HealthStatus.DEGRADED
