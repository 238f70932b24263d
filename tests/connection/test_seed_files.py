"""The error about a damaged seed file names the file and the problem, but not the content.

A damaged seed used to end every command with a traceback.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import nkeys  # type: ignore[import-untyped]
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.cli.shell import shell
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.jetstream.client.seed_files import credentials_fault, seed_fault

SEED: Final[bytes] = nkeys.encode_seed(bytes(range(32)), nkeys.PREFIX_BYTE_USER)
TOKEN: Final = b"eyJ0eXAi.eyJqdGki.c2lnbmVk"
CREDENTIALS: Final = (
    b"-----BEGIN NATS USER JWT-----\n%s\n------END NATS USER JWT------\n\n"
    b"-----BEGIN USER NKEY SEED-----\n%s\n------END USER NKEY SEED------\n"
)
SWAPPED: Final = SEED[:20] + SEED[21:22] + SEED[20:21] + SEED[22:]
DAMAGED: Final = {
    "empty": b"",
    "cut": SEED[:-1],
    "swapped": SWAPPED,
    "of an account": nkeys.encode_seed(bytes(range(32)), nkeys.PREFIX_BYTE_ACCOUNT),
    "binary": b"SU\x00\xff\x1b]0;pwned\x07",
}


def test_a_whole_seed_and_a_whole_file_are_accepted() -> None:
    assert seed_fault(SEED) is None
    assert credentials_fault(CREDENTIALS % (TOKEN, SEED)) is None


@given(st.integers(0, len(SEED) - 1), st.sampled_from(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"))
@example(len(SEED) - 1, ord("Z"))  # it decodes to the same bytes
def test_one_wrong_character_is_noticed(position: int, letter: int) -> None:
    changed = SEED[:position] + bytes([letter]) + SEED[position + 1 :]
    assert (seed_fault(changed) is None) == (changed == SEED)


@given(st.binary())
def test_any_content_is_judged_without_an_error(content: bytes) -> None:
    assert seed_fault(content) is not None
    assert credentials_fault(content) is not None


@pytest.mark.parametrize("name", DAMAGED)
@pytest.mark.parametrize("option", ["--nkey", "--creds"])
def test_a_damaged_file_is_named_and_not_shown(
    server: EmbeddedServer, tmp_path: Path, option: str, name: str
) -> None:
    file, content = tmp_path / "damaged", DAMAGED[name]
    file.write_bytes(content if option == "--nkey" else CREDENTIALS % (TOKEN, content))
    ended = shell("jobs", "list", "--nats", server.url, option, str(file))
    assert ended.code == 1
    assert ended.err.startswith(f"error: {file} cannot be used to connect: ")
    assert "seed" in ended.err
    assert not content or content.decode(errors="replace") not in ended.err


@pytest.mark.parametrize("content", [SEED, b"a diary", CREDENTIALS % (b"no token", SEED)])
def test_the_error_says_that_a_file_is_not_a_credentials_file(
    server: EmbeddedServer, tmp_path: Path, content: bytes
) -> None:
    file = tmp_path / "damaged"
    file.write_bytes(content)
    ended = shell("jobs", "list", "--nats", server.url, "--creds", str(file))
    assert ended.code == 1
    assert "token" in ended.err
    assert SEED.decode() not in ended.err
