"""Fixtures for tests of services on trellis-jobs.

A package of its own, with its imports inside: pytest loads it in every project that has
trellis-jobs installed, and one that uses none of the fixtures pays for nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trellis_jobs.testing import Accounts, ConnectService


@pytest.fixture(scope="session")
def jobs_accounts() -> Iterator[Accounts]:
    """A real nats-server for this process; `with jobs_accounts.fresh() as url` is a log of its own.

    For fixtures of a wider scope; a test takes `jobs_server` or `connected_service`.
    """
    from trellis_jobs.testing import Accounts  # noqa: PLC0415

    accounts = Accounts()
    yield accounts
    accounts.close()


@pytest.fixture
def jobs_server(jobs_accounts: Accounts) -> Iterator[str]:
    """The URL of a server that holds nothing but what this test puts into it."""
    with jobs_accounts.fresh() as url:
        yield url


@pytest.fixture
def connected_service(jobs_server: str) -> ConnectService:
    """`async with connected_service(service):` connects a service to this test's own log."""
    from trellis_jobs.testing import ConnectService  # noqa: PLC0415

    return ConnectService(jobs_server)
