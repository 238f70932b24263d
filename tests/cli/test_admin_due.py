"""`trellis-jobs admin due`: what retention would remove, without removing it."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

from tests.admin.test_retention import sweeper, write_two_hours_behind
from tests.cli.shell import shell
from tests.docs.json_fields import documented
from tests.given import REPORT
from trellis_jobs.embedded import EmbeddedServer


def due(db: Path, *arguments: str) -> tuple[int, str, str]:
    ended = shell("admin", "due", "--db", str(db), *arguments)
    return ended.code, ended.out, ended.err


async def test_it_counts_what_is_due_and_removes_nothing(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    db = tmp_path / "jobs.sqlite"
    async with sweeper(server.url, tmp_path) as at:
        await write_two_hours_behind(at.raw)
        await at.catch_up()
        assert due(db, "--retention", "completed=1h")[1].splitlines() == [
            "with completed=1h,dead=90d,failed=30d,others=7d, retention would remove 0 jobs now"
        ]
        at.store_earlier(timedelta(days=8))
        code, printed, _ = due(db, "--retention", "others=1h")
        assert (code, printed.splitlines()) == (
            0,
            ["with others=1h, retention would remove 1 job now", "completed      1"],
        )
        told = json.loads(due(db, "--json", "--retention", "completed=1h")[1])
        assert told["due"] == {"completed": 1}
        assert told.keys() == documented("admin due")
        assert len(await at.raw.events.history(REPORT)) == 3


def test_without_a_projection_it_says_so(tmp_path: Path) -> None:
    code, _, printed = due(tmp_path / "nosuch.sqlite")
    assert code == 1
    assert "there is no projection" in printed
    assert not list(tmp_path.iterdir())


def test_a_policy_that_makes_no_sense_ends_with_2(tmp_path: Path) -> None:
    code, _, printed = due(tmp_path / "jobs.sqlite", "--retention", "completed=99999999999999d")
    assert code == 2
    assert "Traceback" not in printed
