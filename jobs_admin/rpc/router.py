"""Routes a request to its method: validates the input and encodes the reply.

The router knows nothing about jobs. No request can crash it: every one gets a reply.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from pydantic import ValidationError

from jobs_admin.api.contract import RPCS
from jobs_admin.api.error_envelope import Busy, Fault, Full, Invalid
from jobs_admin.api.errors import NO_METHOD, Issue, ProjectionRebuilding
from jobs_admin.api.views.base import Page, View
from jobs_admin.api.views.operations import is_operation_id
from jobs_admin.config import SERVICE_NAME
from jobs_admin.rpc.older_clients import knows_delayed_jobs
from jobs_admin.rpc.pages import page_json
from trellis_jobs.errors import InvalidToken, JobsError, StreamFull
from trellis_jobs.jetstream.client.connection import ConnectionLost, NoResponders
from trellis_jobs.jetstream.client.rpc import Reply, Request
from trellis_jobs.model import subjects
from trellis_jobs.telemetry import RequestTelemetry
from trellis_jobs.wire.fields import dumps
from trellis_jobs.wire.headers import KNOWN_STATES, PERMISSION_CHECK

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from pydantic import BaseModel

    from jobs_admin.api.contract import Rpc

In = TypeVar("In", bound="BaseModel")
Out = TypeVar("Out", bound=View)

log = logging.getLogger(__name__)

_MAX_REQUEST_BYTES: Final = 64 * 1024
_MAX_HEADER: Final = 128
_MAX_LOGGED_MESSAGE: Final = 1_000


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request, from its headers. A request without an id is given one.

    `knows_delayed_jobs` is False for clients that were written before there were delayed jobs.
    """

    request_id: str
    session: str | None
    knows_delayed_jobs: bool = False


# A method gets the validated input and returns a view, or the JSON of one.
Method: TypeAlias = "Callable[[Any, Caller], Awaitable[View | bytes]]"


def answered_by(
    rpc: Rpc[In, Out], method: Callable[[In, Caller], Awaitable[Out | bytes]]
) -> tuple[str, Method]:
    """Type checkers compare the method with the table of RPCs."""
    return rpc.name, method


class Router:
    """`methods` by name; the contract has their inputs. `max_reply_bytes` limits a reply."""

    def __init__(
        self,
        methods: Mapping[str, Method],
        new_id: Callable[[], str],
        max_reply_bytes: Callable[[], int],
    ) -> None:
        self._methods = methods
        self._new_id = new_id
        self._max_reply_bytes = max_reply_bytes
        self._telemetry = RequestTelemetry()

    async def answer(self, request: Request) -> Reply:
        name = subjects.rpc_method(request.subject)
        # Unknown names share one attribute value: callers could invent any number of them.
        known = name if name in self._methods else "unknown"
        began = time.perf_counter()
        with self._telemetry.answering(known):
            reply = await self._reply(name, request)
            refusal = reply.headers.get("status") if reply.headers else None
            self._telemetry.record_answer(known, time.perf_counter() - began, refusal)
        return reply

    async def _reply(self, name: str, request: Request) -> Reply:
        if PERMISSION_CHECK in request.headers and name in self._methods:
            return Reply(b"{}")
        caller = self._caller(request.headers)
        try:
            reply = await self._answer(name, request.data, caller)
        except Fault as fault:
            return self._refusal(name, fault, caller)
        except InvalidToken as error:
            return self._refusal(name, Invalid(str(error), [Issue("/", str(error))]), caller)
        except StreamFull as error:
            return self._refusal(name, Full(error), caller, logging.WARNING)
        except ProjectionRebuilding as error:
            return self._refusal(name, Fault(str(error)), caller)
        except (JobsError, ConnectionLost, NoResponders) as error:
            return self._refusal(name, Fault(str(error)), caller, logging.WARNING)
        except Exception:
            internal = Fault("internal error; the log of the admin runtime has the details")
            return self._refusal(name, internal, caller, logging.ERROR)
        return Reply(reply)

    def refuse(self, request: Request) -> Reply:
        """Refuse a request at once, because too many are waiting."""
        name = subjects.rpc_method(request.subject)
        return self._refusal(name, Busy(), self._caller(request.headers))

    async def _answer(self, name: str, data: bytes, caller: Caller) -> bytes:
        method = self._methods.get(name)
        if method is None:
            known = ", ".join(sorted(self._methods))
            raise Invalid(f"{NO_METHOD} {name}", [Issue("/", f"the methods are {known}")])
        if len(data) > _MAX_REQUEST_BYTES and not RPCS[name].has_large_input:
            problem = f"the request has {len(data)} bytes, the limit is {_MAX_REQUEST_BYTES}"
            raise Invalid(problem, [Issue("/", problem)])
        try:
            checked = RPCS[name].input.model_validate_json(data or b"{}")
        except ValidationError as error:
            raise Invalid.of(error) from None
        limit = self._max_reply_bytes()
        answer = _encoded(await method(checked, caller), limit)
        if len(answer) > limit:
            raise Fault(f"the reply has {len(answer)} bytes, the limit of the server is {limit}")
        return answer

    def _caller(self, headers: Mapping[str, str]) -> Caller:
        """Cut the headers to a plausible length, as they are logged and sent back."""
        request_id = headers.get("request-id", "")[:_MAX_HEADER].strip()
        if is_operation_id(request_id):
            # Events with the id of an operation are not listed in the audit.
            request_id = ""
        session = headers.get("session-key", "")[:_MAX_HEADER].strip()
        known_states = headers.get(KNOWN_STATES, "")[:_MAX_HEADER]
        return Caller(
            request_id or self._new_id(), session or None, knows_delayed_jobs(known_states)
        )

    def _refusal(self, name: str, fault: Fault, caller: Caller, level: int = logging.INFO) -> Reply:
        """Log the refusal with its id and the request's id, so that it can be found again.

        Only internal errors are logged with a traceback, so that callers cannot fill the log.
        """
        error_id = self._new_id()
        log.log(
            level,
            "request %s was refused: %s",
            name[:_MAX_HEADER],
            fault.message[:_MAX_LOGGED_MESSAGE],
            extra={
                "method": name[:_MAX_HEADER],
                "error_id": error_id,
                "request_id": caller.request_id,
                "error": fault.message[:_MAX_LOGGED_MESSAGE],
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
                "method": name[:_MAX_HEADER],
                "requestId": caller.request_id,
            },
        }
        return Reply(dumps(body), {"status": "error"})


def _encoded(reply: View | bytes, max_bytes: int) -> bytes:
    if isinstance(reply, bytes):
        return reply
    return page_json(reply, max_bytes=max_bytes) if isinstance(reply, Page) else reply.encode()
