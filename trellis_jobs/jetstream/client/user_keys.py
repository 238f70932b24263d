"""Key pairs of users: the owner keeps the seed in a file, the server gets the public key."""

from __future__ import annotations

import os
import secrets
from typing import TYPE_CHECKING, Final

from trellis_jobs.errors import CredentialsUnusable
from trellis_jobs.jetstream.client.seed_files import checked_seed

if TYPE_CHECKING:
    from pathlib import Path

_SEED_BYTES: Final = 32
_OWNER_ONLY: Final = 0o600
_USER_SEED_PREFIX: Final = b"SU"


def ensure_seed(file: Path) -> str:
    """Returns the public key of the seed in this file; creates the file if it is missing."""
    try:
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ONLY)
    except FileExistsError:
        return _public_key(file)
    except OSError as error:
        raise CredentialsUnusable(str(file), error.strerror or str(error)) from error
    with os.fdopen(handle, "wb") as opened:
        opened.write(_new_seed() + b"\n")
    return _public_key(file)


def is_seed(file: str) -> bool:
    """Returns whether the file is a plain user seed, and not a credentials file."""
    try:
        with open(file, "rb") as opened:
            return opened.read(len(_USER_SEED_PREFIX)) == _USER_SEED_PREFIX
    except OSError as error:
        raise CredentialsUnusable(file, error.strerror or str(error)) from error


def _new_seed() -> bytes:
    import nkeys  # type: ignore[import-untyped]  # noqa: PLC0415 - few programs make key pairs

    seed: bytes = nkeys.encode_seed(secrets.token_bytes(_SEED_BYTES), nkeys.PREFIX_BYTE_USER)
    return seed


def _public_key(file: Path) -> str:
    checked_seed(str(file))
    import nkeys  # noqa: PLC0415

    key: bytes = nkeys.from_seed(bytearray(file.read_bytes().strip())).public_key
    return key.decode()
