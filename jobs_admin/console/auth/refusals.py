"""Why a request is not from a user who may use the console."""

from __future__ import annotations

from typing import Final

_CHALLENGE: Final = {"www-authenticate": 'Basic realm="trellis-jobs console", charset="UTF-8"'}


class SignInRefused(Exception):
    """`status` and `headers` are those of the reply; the message is its text."""

    status = 403

    def __init__(self, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.headers = headers or {}


class NotSignedIn(SignInRefused):
    """Nothing was presented, or what was presented is wrong. `asks`: a browser asks its user."""

    status = 401

    def __init__(self, message: str, *, asks: bool) -> None:
        super().__init__(message, _CHALLENGE if asks else {"www-authenticate": "Bearer"})


class TooManyTries(SignInRefused):
    status = 429

    def __init__(self, seconds: float) -> None:
        wait = max(1, round(seconds))
        super().__init__(
            f"Too many wrong passwords. Try again in {wait} s.", {"retry-after": str(wait)}
        )
