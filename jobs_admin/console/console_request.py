"""One request of a signed-in user, with what a screen needs to answer it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

from starlette.responses import HTMLResponse, RedirectResponse

from jobs_admin.console.shared_reads import SharedReads
from jobs_admin.console.users import Role
from trellis_jobs.environment import new_id

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from starlette.datastructures import QueryParams
    from starlette.requests import Request
    from starlette.responses import Response

    from jobs_admin.api.client import AdminClient
    from jobs_admin.console.bundle_reads import BundleReads
    from jobs_admin.console.config import ConsoleConfig
    from jobs_admin.console.connections import Connections
    from jobs_admin.console.job.job_reads import JobReads
    from jobs_admin.console.live import LiveHints
    from jobs_admin.console.rendering import Renderer
    from jobs_admin.console.screen import Screen
    from jobs_admin.console.users import User

_MAX_FORM_BYTES: Final = 2 * 1024 * 1024
_MAX_OFFSET: Final = 10_000_000
_MIN_SEQUENCE: Final = "x-min-seq"
_REQUEST_ID: Final = re.compile(r"[\w.-]{1,64}", re.ASCII)


class FormTooLarge(Exception):
    def __init__(self) -> None:
        super().__init__(f"the form has more than {_MAX_FORM_BYTES} bytes")


@dataclass(frozen=True, slots=True)
class ConsoleContext:
    """What all requests share. A console that shows `bundles` has no connections."""

    config: ConsoleConfig
    connections: Connections
    live: LiveHints
    screens: Sequence[Screen]
    renderer: Renderer
    now: Callable[[], datetime]
    bundles: BundleReads | None = None
    shared: SharedReads = field(default_factory=SharedReads)


class ConsoleRequest:
    def __init__(self, request: Request, console: ConsoleContext, user: User) -> None:
        self.request = request
        self.console = console
        self.user = user
        # Before the page is read: a change that happens meanwhile is a hint for it.
        self._sequence = console.live.sequence

    @property
    def path(self) -> Mapping[str, str]:
        """The values of the names in the path of the route."""
        return self.request.path_params

    @property
    def query(self) -> QueryParams:
        return self.request.query_params

    @cached_property
    def reads(self) -> AdminClient:
        return self.client(Role.VIEWER)

    @property
    def job_reads(self) -> JobReads:
        """For the pages of one job, which can also be read from a bundle."""
        return self.console.bundles or self.reads

    @cached_property
    def request_id(self) -> str:
        """In the logs of the admin runtime and on the page of a failure, so that one finds both."""
        given = self.request.headers.get("x-request-id", "")
        return given if _REQUEST_ID.fullmatch(given) else new_id()

    def client(self, role: Role) -> AdminClient:
        """Raises RoleMissing."""
        return self.console.connections.client(self.user, role, self.request_id)

    def may(self, role: Role) -> bool:
        return role in self.console.connections.available(self.user)

    @property
    def offset(self) -> int:
        """Where a page of a list begins; 0 if its address does not say."""
        text = self.query.get("offset", "")
        is_number = text.isascii() and text.isdigit() and len(text) <= len(str(_MAX_OFFSET))
        return min(int(text), _MAX_OFFSET) if is_number else 0

    @property
    def min_seq(self) -> int:
        """The position of the log that the page must show at least: the hint that it got."""
        text = self.request.headers.get(_MIN_SEQUENCE, "")
        return int(text) if text.isascii() and text.isdigit() and len(text) < len(str(2**63)) else 0

    @property
    def is_refresh(self) -> bool:
        """Whether a page that is open wants only its changing part."""
        return "hx-request" in self.request.headers

    async def form(self) -> dict[str, str]:
        """The fields of a posted form; of a repeated one, the last. Raises FormTooLarge."""
        data = b""
        async for chunk in self.request.stream():
            data += chunk
            if len(data) > _MAX_FORM_BYTES:
                raise FormTooLarge
        text = data.decode("utf-8", "replace")
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=1_000))

    def render(self, template: str, *, status: int = 200, **values: Any) -> Response:
        """A whole page, or only its changing part."""
        html = self.console.renderer.render(template, self._shared() | values, part=self.is_refresh)
        return HTMLResponse(html, status)

    def redirect(self, path: str) -> Response:
        """To a page, after a change."""
        return RedirectResponse(path, status_code=303)

    def _shared(self) -> dict[str, Any]:
        return {
            "user": self.user,
            "request_id": self.request_id,
            "sequence": self._sequence,
            "may": {role.value: self.may(role) for role in Role},
            "environment": self.console.config.environment,
            "now": self.console.now(),
            "path": self.request.url.path,
            "query": self.query,
        }
