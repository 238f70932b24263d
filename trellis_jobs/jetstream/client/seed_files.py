"""Checks seed and credentials files before nats-py reads them, for clear error messages.

No message quotes the content of a file, because it is secret.
"""

from __future__ import annotations

import binascii
import re
from base64 import b32decode, b32encode
from itertools import pairwise
from typing import Final

from trellis_jobs.errors import CredentialsUnusable

_MAX_FILE_BYTES: Final = 64 * 1024
_SEED: Final = re.compile(rb"SU[A-Z2-7]{56}")
_CHECKSUM_BYTES: Final = 2
_TOKEN: Final = re.compile(rb"[\w-]+\.[\w-]+\.[\w-]+")
_TOKEN_BEGINS: Final = b"BEGIN NATS USER JWT"
_SEED_BEGINS: Final = b"BEGIN USER NKEY SEED"


def checked_seed(file: str) -> str:
    """Returns the file; raises CredentialsUnusable unless it holds the seed of a user."""
    return _raise_if_unusable(file, seed_fault(_read_file(file).strip()))


def checked_credentials(file: str) -> str:
    """Like `checked_seed`, for a credentials file, which holds a JWT and a seed."""
    return _raise_if_unusable(file, credentials_fault(_read_file(file)))


def seed_fault(seed: bytes) -> str | None:
    """Returns what is wrong with a seed, or None for a valid seed of a user."""
    if not _SEED.fullmatch(seed):
        return "it does not hold the seed of a user, which is SU and 56 more letters and digits"
    padding = b"=" * (-len(seed) % 8)
    decoded = b32decode(seed + padding)
    data, checksum = decoded[:-_CHECKSUM_BYTES], decoded[-_CHECKSUM_BYTES:]
    checksum_matches = binascii.crc_hqx(data, 0) == int.from_bytes(checksum, "little")
    # Decoding ignores two bits of the last letter, so compare the encoded form too.
    if not checksum_matches or b32encode(decoded) != seed + padding:
        return "its seed is damaged: the checksum does not match"
    return None


def credentials_fault(content: bytes) -> str | None:
    lines = content.splitlines()
    token, seed = _line_after(_TOKEN_BEGINS, lines), _line_after(_SEED_BEGINS, lines)
    if token is None or seed is None:
        missing = "token" if token is None else "seed"
        return f"it is not a credentials file: the user's {missing} is missing"
    if not _TOKEN.fullmatch(token.strip()):
        return "the token in it is damaged"
    return seed_fault(seed.strip())


def _line_after(marker: bytes, lines: list[bytes]) -> bytes | None:
    return next((line for before, line in pairwise(lines) if marker in before), None)


def _read_file(file: str) -> bytes:
    try:
        with open(file, "rb") as opened:
            return opened.read(_MAX_FILE_BYTES)
    except OSError as error:
        raise CredentialsUnusable(file, error.strerror or str(error)) from error


def _raise_if_unusable(file: str, fault: str | None) -> str:
    if fault is not None:
        raise CredentialsUnusable(file, fault)
    return file
