"""An admin runtime and what it needs, for the tests that send it requests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.admin.admin_lab import AdminLab, admin_lab
from trellis_jobs.embedded import EmbeddedServer


@pytest.fixture
async def lab(server: EmbeddedServer, tmp_path: Path) -> AsyncIterator[AdminLab]:
    async with admin_lab(server.url, tmp_path) as made:
        yield made
