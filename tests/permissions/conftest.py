"""One server for each shape of configuration, for all tests that leave it as it was."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.permissions.installation import SHAPES, Installation, installed


@pytest.fixture(scope="session")
def in_one_account() -> Iterator[Installation]:
    with installed("users") as made:
        yield made


@pytest.fixture(scope="session")
def in_accounts() -> Iterator[Installation]:
    with installed("accounts") as made:
        yield made


@pytest.fixture(params=SHAPES)
def installation(request: pytest.FixtureRequest) -> Installation:
    fixture = {"users": "in_one_account", "accounts": "in_accounts"}[request.param]
    made: Installation = request.getfixturevalue(fixture)
    return made
