"""From a request to its answer: find the method, check the input, shape what comes out.

The router decides nothing about jobs. Whatever a stranger sends, it answers, and lives.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel, ValidationError

from jobs_admin.api.error_envelope import Busy, Fault, Full, Invalid
from jobs_admin.api.errors import NO_METHOD, Issue, ProjectionRebuilding
from jobs_admin.config import SERVICE_NAME
from trellis_jobs.errors import InvalidToken, JobsError
from trellis_jobs.infrastructure_errors import StreamFull
from trellis_jobs.jetstream.client.connection import ConnectionLost, NoResponders
from trellis_jobs.jetstream.client.rpc import Reply, Request
from trellis_jobs.model import subjects
from trellis_jobs.telemetry import RequestTelemetry
from trellis_jobs.wire.fields import dumps
from trellis_jobs.wire.headers import PERMISSION_CHECK

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

log = logging.getLogger(__name__)

_LARGEST_REQUEST: Final = 64 * 1024
_LONGEST_HEADER: Final = 128
_LONGEST_SAID: Final = 1_000


@dataclass(frozen=True, slots=True)
class Asker:
    """What a request says about who sent it; one that says no id of its own is given one."""

    request_id: str
    session: str | None


@dataclass(frozen=True, slots=True)
class Method:
    """`answer` gets the checked input and returns JSON: an object, or its bytes."""

    input: type[BaseModel]
    answer: Callable[[Any, Asker], Awaitable[dict[str, Any] | bytes]]


class Router:
    """`largest` is what one answer may have, in bytes."""

    def __init__(
        self,
        methods: Mapping[str, Method],
        new_id: Callable[[], str],
        largest: Callable[[], int],
    ) -> None:
        self._methods = methods
        self._new_id = new_id
        self._largest = largest
        self._telemetry = RequestTelemetry()

    async def answer(self, request: Request) -> Reply:
        name = subjects.rpc_method(request.subject)
        # A name that nobody serves is not an attribute: whoever asks could make up any number.
        known = name if name in self._methods else "unknown"
        begun = time.perf_counter()
        with self._telemetry.answering(known):
            reply = await self._reply(name, request)
            refusal = reply.headers.get("status") if reply.headers else None
            self._telemetry.record_answer(known, time.perf_counter() - begun, refusal)
        return reply

    async def _reply(self, name: str, request: Request) -> Reply:
        if PERMISSION_CHECK in request.headers and name in self._methods:
            return Reply(b"{}")
        asker = self._asker(request.headers)
        try:
            said = await self._answer(name, request.data, asker)
        except Fault as fault:
            return self._refusal(name, fault, asker)
        except InvalidToken as error:
            return self._refusal(name, Invalid(str(error), [Issue("/", str(error))]), asker)
        except StreamFull as error:
            return self._refusal(name, Full(error), asker, logging.WARNING)
        except ProjectionRebuilding as error:
            return self._refusal(name, Fault(str(error)), asker)
        except (JobsError, ConnectionLost, NoResponders) as error:
            return self._refusal(name, Fault(str(error)), asker, logging.WARNING)
        except Exception:
            ours = Fault("an unexpected error; the server's log has it")
            return self._refusal(name, ours, asker, logging.ERROR)
        return Reply(said)

    def refuse(self, request: Request) -> Reply:
        """At once, because too many ask."""
        name = subjects.rpc_method(request.subject)
        return self._refusal(name, Busy(), self._asker(request.headers))

    async def _answer(self, name: str, data: bytes, asker: Asker) -> bytes:
        method = self._methods.get(name)
        if method is None:
            known = ", ".join(sorted(self._methods))
            raise Invalid(f"{NO_METHOD} {name}", [Issue("/", f"known are {known}")])
        if len(data) > _LARGEST_REQUEST:
            problem = f"a request has at most {_LARGEST_REQUEST} bytes, this one {len(data)}"
            raise Invalid(problem, [Issue("/", problem)])
        try:
            checked = method.input.model_validate_json(data or b"{}")
        except ValidationError as error:
            raise Invalid.of(error) from None
        said = await method.answer(checked, asker)
        answer = said if isinstance(said, bytes) else dumps(said)
        if len(answer) > self._largest():
            raise Fault(
                f"the answer has {len(answer)} bytes, the server takes at most {self._largest()}"
            )
        return answer

    def _asker(self, headers: Mapping[str, str]) -> Asker:
        """What they say goes into the log and back: it is cut to what can be an id or a name."""
        request_id = headers.get("request-id", "")[:_LONGEST_HEADER].strip()
        session = headers.get("session-key", "")[:_LONGEST_HEADER].strip()
        return Asker(request_id or self._new_id(), session or None)

    def _refusal(self, name: str, fault: Fault, asker: Asker, level: int = logging.INFO) -> Reply:
        """Said here too: by its id, or that of the request, what the caller saw is found again.

        Only what is a mistake of ours has a traceback, and whoever may ask can fill no log with it.
        """
        error_id = self._new_id()
        log.log(
            level,
            "request %s was refused: %s",
            name[:_LONGEST_HEADER],
            fault.message[:_LONGEST_SAID],
            extra={
                "method": name[:_LONGEST_HEADER],
                "error_id": error_id,
                "request_id": asker.request_id,
                "error": fault.message[:_LONGEST_SAID],
            },
            exc_info=level >= logging.ERROR,
        )
        body: dict[str, Any] = {
            "id": error_id,
            "type": fault.type,
            "message": fault.message,
            **fault.fields,
            "context": {
                "service": SERVICE_NAME,
                "method": name[:_LONGEST_HEADER],
                "requestId": asker.request_id,
            },
        }
        return Reply(dumps(body), {"status": "error"})
