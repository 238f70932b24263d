"""The RPC that completes the words of a job filter. It never suggests values of payloads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from jobs_admin.api.contract import Rpcs
from jobs_admin.api.job_filter import JobFilter
from jobs_admin.api.views.suggestions import SuggestedField, Suggestions, SuggestionView
from jobs_admin.queues.payload_paths import payload_paths
from jobs_admin.reads import suggestions as reads
from jobs_admin.reads.read_your_writes import wait_for_position
from jobs_admin.rpc.router import answered_by
from trellis_jobs.errors import DeclarationError
from trellis_jobs.jetstream.work.queues import list_queues
from trellis_jobs.model.states import JobState

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jobs_admin.api import inputs
    from jobs_admin.reads.read_your_writes import ProjectionProgress
    from jobs_admin.reads.readers import Readers
    from jobs_admin.rpc.router import Caller, Method
    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.jetstream.work.queues import ServerQueue

# A filter bar asks at each keystroke; contracts change when services are deployed.
_REMEMBERED_SECONDS: Final = 10.0


@dataclass(slots=True)
class _Remembered:
    """The paths of each queue's payload, and until when they need not be read again."""

    paths: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    until: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SuggestMethods:
    connection: Connection
    readers: Readers
    progress: ProjectionProgress
    monotonic: Callable[[], float]
    remembered: _Remembered = field(default_factory=_Remembered)

    def table(self) -> Mapping[str, Method]:
        return dict([answered_by(Rpcs.SUGGEST, self.suggest)])

    async def suggest(self, request: inputs.SuggestInput, _: Caller) -> Suggestions:
        await wait_for_position(self.progress, request.min_seq)
        return Suggestions(suggestions=tuple(await self._found(request)))

    async def _found(self, request: inputs.SuggestInput) -> list[SuggestionView]:
        readers, prefix, limit = self.readers, request.prefix, request.limit
        of = JobFilter(service=request.service, type=request.type)
        match request.field:
            case SuggestedField.STATE:
                counted = await reads.counted_names(readers, "state", of, prefix, limit)
                return _with_all_states(counted, prefix)[:limit]
            case SuggestedField.SERVICE:
                return await reads.counted_names(readers, "service", JobFilter(), prefix, limit)
            case SuggestedField.TYPE:
                names = "service || '/' || type"
                of_service = JobFilter(service=request.service)
                return await reads.counted_names(readers, names, of_service, prefix, limit)
            case SuggestedField.VERSION:
                return await reads.distinct_values(readers, "app_version", prefix, limit)
            case SuggestedField.KEY:
                return await reads.distinct_values(readers, "key", prefix, limit)
            case SuggestedField.ERROR:
                return await reads.error_words(readers, prefix, limit)
            case SuggestedField.PAYLOAD:
                paths = sorted(set(await self._paths(request)))
                found = [path for path in paths if path.startswith(prefix)]
                return [SuggestionView(value=path) for path in found[:limit]]

    async def _paths(self, request: inputs.SuggestInput) -> list[str]:
        """Of the queues whose contracts the server has, and that the request is about."""
        if self.monotonic() >= self.remembered.until:
            queues = await list_queues(self.connection)
            paths = {(queue.service, queue.job_type): _paths_of(queue) for queue in queues}
            self.remembered.paths = paths
            self.remembered.until = self.monotonic() + _REMEMBERED_SECONDS
        return [
            path
            for (service, job_type), paths in self.remembered.paths.items()
            if request.service in (None, service) and request.type in (None, job_type)
            for path in paths
        ]


def _paths_of(queue: ServerQueue) -> list[str]:
    try:
        contract = queue.contract()
        if contract is None:
            return []
        return payload_paths(contract.payload.schema(), contract.payload.secrets)
    except (DeclarationError, TypeError, ValueError):
        return []


def _with_all_states(counted: list[SuggestionView], prefix: str) -> list[SuggestionView]:
    """Also states that no job is in."""
    known = {each.value for each in counted}
    others = [state for state in JobState if state not in known and state.startswith(prefix)]
    return [*counted, *(SuggestionView(value=state, jobs=0) for state in others)]
