"""What docs/operate/provisioning.md promises is what the code does."""

from __future__ import annotations

from pathlib import Path

import pytest

from trellis_jobs.contract.features import LEVEL_2_11, LEVEL_2_12, LEVEL_2_14, Features
from trellis_jobs.jetstream.setup.plan import DANGEROUS

PAGE = (Path(__file__).parents[2] / "docs" / "operate" / "provisioning.md").read_text()
LEVELS = {"2.10": 0, "2.11": LEVEL_2_11, "2.12": LEVEL_2_12, "2.14": LEVEL_2_14, "2.15": 5}


@pytest.mark.parametrize("key", sorted(DANGEROUS))
def test_every_refused_difference_is_documented(key: str) -> None:
    refused = "".join(line for line in PAGE.splitlines() if "**refused**" in line)
    assert f"`{key}`" in refused


def test_the_table_of_versions_says_what_each_version_lacks() -> None:
    rows = [line.strip("| ").split(" | ") for line in PAGE.splitlines() if line.startswith("| ")]
    start = next(n for n, row in enumerate(rows) if row[-1] == "2.15")
    table = {row[0]: row[1:] for row in rows[start + 1 : start + 7]}
    for column, (version, level) in enumerate(LEVELS.items()):
        has = [cells[column] == "yes" for cells in table.values()]
        features = Features(version, level)
        assert has == [
            features.guarded_appends,
            features.message_ttl,
            features.consumer_pause,
            features.atomic_batches,
            features.fast_batches,
            features.durable_sourcing,
        ]
