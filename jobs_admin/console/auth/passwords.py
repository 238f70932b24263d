"""Checks passwords without letting anyone guess them, and without slowing down a page."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
import time
from typing import TYPE_CHECKING, Final

from jobs_admin.console.auth.failed_tries import PER_ADDRESS, PER_USER, WINDOW, FailedTries
from jobs_admin.console.auth.password_hash import PasswordHash
from jobs_admin.console.auth.refusals import TooManyTries
from trellis_jobs.model.bounded_dict import BoundedDict

if TYPE_CHECKING:
    from collections.abc import Callable

# A browser sends the password with every request; each check takes 0.1 s and 32 MB.
_REMEMBERED_FOR: Final = 60.0
_MAX_REMEMBERED: Final = 1_000
_UNKNOWN_USER: Final = "(unknown user)"


class Passwords:
    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._key = secrets.token_bytes(32)
        self._verified: BoundedDict[bytes, float] = BoundedDict(_MAX_REMEMBERED)
        self._by_address = FailedTries(PER_ADDRESS, WINDOW, now)
        self._by_user = FailedTries(PER_USER, WINDOW, now)
        # One check at a time, so that many requests cannot use up processors and memory.
        self._one_check = asyncio.Lock()
        self._decoy = PasswordHash.of(secrets.token_urlsafe())

    async def matches(
        self, name: str, password: str, known: PasswordHash | None, address: str
    ) -> bool:
        """`known` is None for an unknown user, which takes as long. Raises TooManyTries."""
        mark = self._mark(name, password, known)
        if self._is_verified(mark):
            return True
        async with self._one_check:
            if self._is_verified(mark):
                return True
            user = _UNKNOWN_USER if known is None else name
            self._check_tries(user, address)
            is_right = await asyncio.to_thread((known or self._decoy).matches, password)
            if is_right and known is not None:
                self._verified[mark] = self._now() + _REMEMBERED_FOR
                return True
            self._by_address.record(address)
            self._by_user.record(user)
            return False

    def _check_tries(self, user: str, address: str) -> None:
        by_user = 0.0 if user == _UNKNOWN_USER else self._by_user.wait(user)
        seconds = max(self._by_address.wait(address), by_user)
        if seconds > 0:
            raise TooManyTries(seconds)

    def _is_verified(self, mark: bytes) -> bool:
        """Each use counts, so that users stay signed in while others guess at their names."""
        is_verified = self._verified.get(mark, 0.0) > self._now()
        if is_verified:
            self._verified[mark] = self._now() + _REMEMBERED_FOR
        return is_verified

    def _mark(self, name: str, password: str, known: PasswordHash | None) -> bytes:
        """Passwords are not kept in memory. A changed hash is another mark."""
        text = "\0".join((name, str(known), password))
        return hmac.digest(self._key, text.encode(), hashlib.sha256)
