"""What every request must pass: a name under which the console is known, and the same origin.

Browsers send the cookies and passwords of a site with every request to it, also when a page of
another site caused the request. So a change needs `Sec-Fetch-Site: same-origin`, and an `Origin`
that is the console's. Every reply forbids scripts, styles and frames from anywhere else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)
_HEADERS: Final = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=()",
}
_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})


class RequestChecks:
    """`allowed_hosts` are names without a port; requests for any other name are refused."""

    def __init__(self, app: ASGIApp, allowed_hosts: frozenset[str]) -> None:
        self._app = app
        self._allowed_hosts = allowed_hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                headers.setdefault("cache-control", "no-store")
            await send(message)

        refusal = self._refusal(scope["method"], Headers(scope=scope))
        answer = self._app if refusal is None else refusal
        await answer(scope, receive, send_with_headers)

    def _refusal(self, method: str, headers: Headers) -> PlainTextResponse | None:
        host = headers.get("host", "")
        if _name_of(host) not in self._allowed_hosts:
            return PlainTextResponse(
                f"This console does not answer under the name {host!r}. Start it with "
                "--allowed-host NAME if it should.\n",
                status_code=421,
            )
        if method in _SAFE_METHODS or _is_same_origin(headers, host):
            return None
        return PlainTextResponse(
            "A change must come from a page of this console (Sec-Fetch-Site: same-origin). "
            "Open the console in a current browser and try again.\n",
            status_code=403,
        )


def _name_of(host: str) -> str | None:
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


def _is_same_origin(headers: Headers, host: str) -> bool:
    origin = headers.get("origin")
    is_from_here = headers.get("sec-fetch-site") == "same-origin"
    return is_from_here and (origin is None or origin.partition("://")[2] == host)
