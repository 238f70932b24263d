"""Every nats-server version that the tests run against."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.support.fetch_servers import OLDER_VERSIONS, binary_of
from trellis_jobs.embedded import EmbeddedServer

NEWEST: Final = "newest"
VERSIONS: Final = (*OLDER_VERSIONS, NEWEST)


def start_version(version: str) -> EmbeddedServer:
    return EmbeddedServer.start(binary=server_binary(version))


def server_binary(version: str = NEWEST) -> Path:
    """The newest comes with the package; an older one that is missing skips, but never in CI."""
    if version == NEWEST:
        return Path(sys.executable).with_name("nats-server")
    binary = binary_of(version)
    if not binary.exists():
        complaint = f"no nats-server {version}: make setup fetches it"
        if os.environ.get("CI"):
            pytest.fail(complaint)
        pytest.skip(complaint)
    return binary
