"""The version that a server announces, and the features it implies."""

from __future__ import annotations

import pytest
from nats.aio.client import ServerVersion

from trellis_jobs.contract.features import LEVEL_2_11, LEVEL_2_12, LEVEL_2_14
from trellis_jobs.jetstream.client.plain_client import plain_version
from trellis_jobs.jetstream.setup.features import level_of


@pytest.mark.parametrize(
    ("announced", "version", "level"),
    [
        ("2.10.29", "2.10.29", 0),
        ("2.11.0-dev", "2.11.0", LEVEL_2_11),
        ("2.11.4", "2.11.4", LEVEL_2_11),
        ("2.12.0-preview.2", "2.12.0", LEVEL_2_12),
        ("2.12.1-RC.1+build.7", "2.12.1", LEVEL_2_12),
        ("2.13.0", "2.13.0", LEVEL_2_12),
        ("2.14.0-dev", "2.14.0", LEVEL_2_14),
        ("2.99.0", "2.99.0", LEVEL_2_14),
        ("our own build", "unknown", 0),
    ],
)
def test_previews_and_custom_builds_count_as_the_version_they_are_of(
    announced: str, version: str, level: int
) -> None:
    assert plain_version(ServerVersion(announced)) == version
    assert level_of(version) == level
