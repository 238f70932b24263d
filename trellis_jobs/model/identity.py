"""Job addresses and ids: the tokens from which subjects, rows and bucket keys are built."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from trellis_jobs.errors import InvalidToken
from trellis_jobs.model.values import Value

_TOKEN: Final = re.compile(r"[A-Za-z0-9_-]+")
# Three tokens, a prefix and a reply subject must fit into one protocol line: a server closes the
# connection of a client that sends more than 4096 bytes (max_control_line).
MAX_TOKEN_LENGTH: Final = 128
_CROCKFORD: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_ULID_LENGTH: Final = 26
_TIMESTAMP_DIGITS: Final = 10
_TIMESTAMP_BITS: Final = 48
_FORTY_BITS: Final = (1 << 40) - 1
_TEN_BITS: Final = [first + second for first in _CROCKFORD for second in _CROCKFORD]

# No service may have this name, because trellis.jobs.workers.> holds worker heartbeats.
PRESENCE_NAME: Final = "workers"
RESERVED_SERVICES: Final = frozenset({PRESENCE_NAME})


class JobAddress(Value, frozen=True):
    service: str
    job_type: str
    job_id: str

    def __post_init__(self) -> None:
        check_service(self.service)
        check_token("job type", self.job_type)
        check_token("job id", self.job_id)


def check_token(field: str, value: str) -> str:
    if value.isalnum() and value.isascii() and len(value) <= MAX_TOKEN_LENGTH:
        return value  # The common case, checked without the regular expression.
    if len(value) > MAX_TOKEN_LENGTH:
        raise InvalidToken(
            field, value, f"it has {len(value)} characters, the maximum is {MAX_TOKEN_LENGTH}"
        )
    if not _is_token(value):
        raise InvalidToken(field, value)
    return value


def check_token_argument(field: str, value: object) -> str:
    """Like check_token, but also checks the type, for callers of the API without a type checker."""
    if not isinstance(value, str):
        raise InvalidToken(field, value, f"pass text, not {type(value).__name__}")
    return check_token(field, value)


@lru_cache(maxsize=1024)
def _is_token(value: str) -> bool:
    """Cached, because the same few service, type and instance names are checked repeatedly."""
    return _TOKEN.fullmatch(value) is not None


def check_service(value: str) -> str:
    if value in RESERVED_SERVICES:
        raise InvalidToken("service", value, "the name is reserved for worker heartbeats")
    return check_token("service", value)


def check_service_argument(value: object) -> str:
    return check_service(check_token_argument("service", value))


def ulid(milliseconds: int, randomness: int) -> str:
    """Build a ULID from Unix milliseconds and 80 random bits; ULIDs sort by creation time."""
    return (
        _timestamp_digits(milliseconds)
        + _base32(randomness >> 40)
        + _base32(randomness & _FORTY_BITS)
    )


def ulid_milliseconds(text: str) -> int | None:
    """The Unix milliseconds in a ULID. Returns None for any other text."""
    if len(text) != _ULID_LENGTH or any(digit not in _CROCKFORD for digit in text):
        return None
    milliseconds = 0
    for digit in text[:_TIMESTAMP_DIGITS]:
        milliseconds = milliseconds << 5 | _CROCKFORD.index(digit)
    return milliseconds if milliseconds >> _TIMESTAMP_BITS == 0 else None


@lru_cache(maxsize=8)
def _timestamp_digits(milliseconds: int) -> str:
    """Cached, because many ids are created in the same millisecond."""
    return _TEN_BITS[milliseconds >> 40] + _base32(milliseconds & _FORTY_BITS)


def _base32(number: int) -> str:
    """Encode 40 bits. Small enough for machine integers, which makes the shifts fast."""
    ten, low = _TEN_BITS, number & 0xFFFFF
    return ten[number >> 30] + ten[number >> 20 & 1023] + ten[low >> 10] + ten[low & 1023]
