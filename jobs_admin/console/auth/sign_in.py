"""The check before every request: who sent it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse

from jobs_admin.api.errors import ConfigError
from jobs_admin.console.auth.authenticators import (
    BasicAuthenticator,
    NoSignIn,
    ProxyAuthenticator,
    SignIn,
    TokenAuthenticator,
)
from jobs_admin.console.auth.refusals import SignInRefused
from jobs_admin.console.auth.settings import SignInKind
from jobs_admin.console.auth.users_file import UsersFile

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from jobs_admin.console.auth.authenticators import Authenticator
    from jobs_admin.console.auth.settings import SignInSettings


class RequireSignIn:
    """Puts the user into the scope of the request, as `user`."""

    def __init__(self, app: ASGIApp, sign_in: SignIn | NoSignIn) -> None:
        self._app = app
        self._sign_in = sign_in

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        peer = scope["client"][0] if scope.get("client") else ""
        try:
            scope["user"] = await self._sign_in.user_of(Headers(scope=scope), peer)
        except SignInRefused as refusal:
            text = PlainTextResponse(f"{refusal}\n", refusal.status, refusal.headers)
            await text(scope, receive, send)
            return
        await self._app(scope, receive, send)


def sign_in_with(settings: SignInSettings) -> SignIn | NoSignIn:
    """Raises ConfigError if the users file cannot be read."""
    if not settings.kinds:
        return NoSignIn()
    if settings.users is None:
        raise ConfigError("signing in needs a users file")
    users = UsersFile(settings.users)
    ways: dict[SignInKind, Authenticator] = {
        SignInKind.PROXY: ProxyAuthenticator(
            users, settings.proxies, settings.user_header, settings.groups_header
        ),
        SignInKind.BASIC: BasicAuthenticator(users, settings.proxies),
        SignInKind.TOKEN: TokenAuthenticator(users),
    }
    return SignIn(
        [way for kind, way in ways.items() if kind in settings.kinds],
        asks=SignInKind.BASIC in settings.kinds,
    )
