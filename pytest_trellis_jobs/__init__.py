"""Fixtures for tests of services on trellis-jobs.

pytest loads this package in every project that has trellis-jobs installed. The fixtures import what
they need, so that a project without them does not load trellis-jobs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trellis_jobs.testing import Accounts, Clock, ConnectService


@pytest.fixture(scope="session")
def jobs_accounts() -> Iterator[Accounts]:
    """A real nats-server for this process. `with jobs_accounts.fresh() as url` is a new log.

    Use it in fixtures of a wider scope. Tests use `jobs_server` or `connected_service`.
    """
    from trellis_jobs.testing import Accounts  # noqa: PLC0415

    accounts = Accounts()
    yield accounts
    accounts.close()


@pytest.fixture
def jobs_server(jobs_accounts: Accounts) -> Iterator[str]:
    """The URL of an empty server for this test."""
    with jobs_accounts.fresh() as url:
        yield url


@pytest.fixture
def connected_service(jobs_server: str) -> ConnectService:
    """`async with connected_service(service):` connects a service to this test's log."""
    from trellis_jobs.testing import ConnectService  # noqa: PLC0415

    return ConnectService(jobs_server)


@pytest.fixture
def jobs_clock() -> Clock:
    """A clock that the test moves: `async with inline(service, clock=jobs_clock):`."""
    from trellis_jobs.testing import Clock  # noqa: PLC0415

    return Clock()
