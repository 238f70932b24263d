"""Hashes of passwords and tokens, as the users file has them.

A password is hashed with scrypt, which is slow and takes memory, because people choose passwords
that can be guessed. A token is random, so one round of SHA-256 is enough for it.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from base64 import b64decode, b64encode
from dataclasses import dataclass
from typing import Final

_SCRYPT: Final = "scrypt"
_SHA256: Final = "sha256"
_COST: Final = 2**15
_BLOCK_SIZE: Final = 8
_PARALLEL: Final = 1
_SALT_BYTES: Final = 16
_HASH_BYTES: Final = 32
_MAX_MEMORY: Final = 256 * 1024 * 1024
_TOKEN_BYTES: Final = 32


class InvalidHash(ValueError):
    """The text is not a hash of a known kind; the message does not quote it."""


@dataclass(frozen=True, slots=True, repr=False)
class PasswordHash:
    """`cost`, `block_size` and `parallel` are the parameters n, r and p of scrypt."""

    salt: bytes
    digest: bytes
    cost: int = _COST
    block_size: int = _BLOCK_SIZE
    parallel: int = _PARALLEL

    @classmethod
    def of(cls, password: str, *, cost: int = _COST) -> PasswordHash:
        salt = secrets.token_bytes(_SALT_BYTES)
        return cls(salt, _scrypt(password, salt, cost, _BLOCK_SIZE, _PARALLEL), cost)

    @classmethod
    def parse(cls, text: str) -> PasswordHash:
        """Raises InvalidHash."""
        try:
            kind, cost, block_size, parallel, salt, digest = text.split(":")
            made = cls(
                b64decode(salt, validate=True),
                b64decode(digest, validate=True),
                int(cost),
                int(block_size),
                int(parallel),
            )
        except ValueError:
            raise InvalidHash("the hash of a password has six fields") from None
        if kind != _SCRYPT or len(made.digest) != _HASH_BYTES or not made._is_affordable:
            raise InvalidHash("the hash of a password is not one that this console makes")
        return made

    @property
    def _is_affordable(self) -> bool:
        is_positive = min(self.cost, self.block_size, self.parallel) > 0
        return is_positive and 128 * self.cost * self.block_size * self.parallel < _MAX_MEMORY

    def matches(self, password: str) -> bool:
        """Takes some 0.1 s, and the same time for every password."""
        made = _scrypt(password, self.salt, self.cost, self.block_size, self.parallel)
        return hmac.compare_digest(made, self.digest)

    def __str__(self) -> str:
        salt, digest = (b64encode(each).decode() for each in (self.salt, self.digest))
        return f"{_SCRYPT}:{self.cost}:{self.block_size}:{self.parallel}:{salt}:{digest}"


@dataclass(frozen=True, slots=True, repr=False)
class TokenHash:
    digest: bytes

    @classmethod
    def of(cls, token: str) -> TokenHash:
        return cls(hashlib.sha256(token.encode()).digest())

    @classmethod
    def parse(cls, text: str) -> TokenHash:
        """Raises InvalidHash."""
        kind, _, digits = text.partition(":")
        try:
            digest = bytes.fromhex(digits)
        except ValueError:
            digest = b""
        if kind != _SHA256 or len(digest) != _HASH_BYTES:
            raise InvalidHash("the hash of a token is sha256: and 64 hexadecimal digits")
        return cls(digest)

    def matches(self, token: str) -> bool:
        return hmac.compare_digest(TokenHash.of(token).digest, self.digest)

    def __str__(self) -> str:
        return f"{_SHA256}:{self.digest.hex()}"


def new_token() -> str:
    return secrets.token_urlsafe(_TOKEN_BYTES)


def _scrypt(password: str, salt: bytes, cost: int, block_size: int, parallel: int) -> bytes:
    return hashlib.scrypt(
        password.encode(),
        salt=salt,
        n=cost,
        r=block_size,
        p=parallel,
        maxmem=_MAX_MEMORY,
        dklen=_HASH_BYTES,
    )
