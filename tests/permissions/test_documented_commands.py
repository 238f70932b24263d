"""Every command that docs/operate sends operators to can be run by one of the printed users."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.cli.shell import run_to_end
from tests.docs.test_commands import commands, every_command, words
from tests.permissions.installation import ROOT_USER, Installation, installed
from tests.permissions.services import Chore, household, staff
from tests.permissions.test_operators_and_the_admin_runtime import admin
from tests.support.facts import until
from tests.support.fork_server import ROOT
from trellis_jobs.errors import NotPermitted
from trellis_jobs.jetstream.client import api

HOUSE: Final = "tests.permissions.services:house"
JOB: Final = "JOB"
DB: Final = "DB"
# Needs no server, or is what the other tests here run all the time.
NOT_WALKED: Final = frozenset(
    {"permissions", "credentials new", "dev", "admin serve", "worker", "admin due"}
)
# The command, who runs it, and with what else.
WALK: Final = (
    ("infra plan", "provisioner", "--app", HOUSE),
    ("infra check", "provisioner"),
    ("infra apply", "provisioner", "--yes"),
    ("jobs create", "maker", "house/unattended", "{}"),
    ("services", "reader"),
    ("workers list", "reader"),
    ("workers list", "foreman"),
    ("workers list", "director"),
    ("workers quiet", "foreman", "--service", "house", "--reason", "a deploy", "--yes"),
    ("workers resume", "director", "--service", "house", "--yes"),
    ("workers drain", "foreman", "--service", "garden", "--yes"),
    ("workers terminate", "director", "--service", "garden", "--yes"),
    ("top", "keeper"),
    ("queues list", "keeper"),
    ("queues history", "reader", "house/limited"),
    ("queues pause", "keeper", "house/limited", "--reason", "a bad deploy", "--for", "10m"),
    ("queues resume", "keeper", "house/limited"),
    ("schedules list", "reader"),
    ("schedules get", "reader", "house/work/leap-day"),
    ("schedules next", "reader", "house/work/leap-day"),
    ("schedules resume", "both", "house/work/leap-day"),
    ("schedules trigger", "both", "house/work/leap-day"),
    ("jobs list", "reader"),
    ("jobs explain", "reader", JOB),
    ("jobs events", "reader", JOB),
    ("jobs logs", "reader", JOB),
    ("jobs reschedule", "both", "--type", "unattended", "--in", "2h", "--reason", "down", "--yes"),
    ("jobs run-now", "both", "--service", "house", "--reason", "it is back", "--yes"),
    ("jobs cancel", "both", JOB, "--reason", "no need", "--yes"),
    ("jobs retry", "both", "--service", "house", "--error", "nothing", "--yes"),
    ("dlq list", "reader", "--group"),
    ("dlq replay", "both", "--service", "house", "--reason", "it is back", "--yes"),
    ("dlq dismiss", "both", "--service", "house", "--reason", "not ours", "--yes"),
    ("keys list", "reader"),
    ("keys get", "reader", "house/keyed", "room:hall"),
    ("keys release", "both", "house/keyed", "room:hall", JOB, "--reason", "stuck", "--yes"),
    ("projection ignored", "reader"),
    ("projection status", "jobs-admin", "--db", DB),
    ("projection verify", "jobs-admin", "--db", DB),
    ("projection rebuild", "jobs-admin", "--db", DB),
    ("doctor", "jobs-admin"),
)
# Not everybody who may list queues may read the work in them: ages are left out then.
LEFT_OUT: Final = "STREAM.MSG.GET.JOBS_WORK"
# Tries on purpose what its user may not.
TRIES_EVERYTHING: Final = "doctor"
NOT_THERE: Final = frozenset(
    {"workers drain", "workers terminate", "keys get", "keys release", "dlq replay", "dlq dismiss"}
)


def documented() -> set[str]:
    """`queues pause`, and so on: without arguments."""
    found = set()
    for page in sorted((ROOT / "docs" / "operate").glob("*.md")):
        for command in commands(page):
            group, name = every_command(), ""
            for word in words(command):
                if word not in getattr(group, "commands", {}):
                    break
                group, name = group.commands[word], f"{name} {word}".strip()
            found.add(name)
    return found


def test_every_documented_command_is_walked() -> None:
    assert documented() - NOT_WALKED == {command for command, *_ in WALK}


async def test_a_printed_user_may_run_every_documented_command(
    installation: Installation, tmp_path: Path
) -> None:
    walked = [step for step in WALK if step[0] != TRIES_EVERYTHING]
    async with (
        staff(installation.access("house"), "work", "keyed", "limited") as at_work,
        admin(installation, tmp_path),
    ):
        ref = await at_work.jobs.work.create(Chore(do="wait"))
        await at_work.until_running(ref)
        before = {who: installation.violations(who) for _, who, *_ in walked}
        names = {JOB: ref.id, DB: str(tmp_path / "jobs.sqlite")}
        ended = await run(installation, walked, names)
        at_work.go.set()
    for step, (code, output) in zip(walked, ended, strict=True):
        allowed = {0, 1, 3} if step[0] in NOT_THERE else {0}
        assert code in allowed, (step, output)
        assert "permi" not in output.lower(), (step, output)
    for who, violated in before.items():
        new = {each for each in installation.violations(who) - violated if LEFT_OUT not in each}
        assert new == set(), who


def ages_need() -> str:
    """What docs/operate/monitoring.md says that ages of the oldest job need beside `queues`."""
    page = (ROOT / "docs" / "operate" / "monitoring.md").read_text()
    [needed] = re.findall(r"ages of the oldest job need `([^`]+)` too", page)
    return str(needed)


@pytest.mark.parametrize("is_allowed", [True, False])
async def test_the_right_that_ages_of_the_oldest_job_need_is_enough_and_needed(
    *, is_allowed: bool
) -> None:
    with installed("users", {"keeper": ages_need()} if is_allowed else {}) as made:
        async with household(made.access("house")) as jobs, made.connection(ROOT_USER) as root:
            await jobs.unattended.create(Chore())

            async def is_at_work() -> bool:
                info = await api.request(root, "CONSUMER.INFO.JOBS_WORK.house-unattended")
                return bool(info["num_pending"])

            await until(is_at_work, "it waits for a worker")
        listed = made.command("keeper", "queues", "list", "--json")
        assert listed.code == 0, listed.err
        queues = listed.json["queues"]
        [queue] = [each for each in queues if each["type"] == "unattended"]
        assert ("oldestAgeMs" in queue) is is_allowed
        assert (made.violations("keeper") == set()) is is_allowed


async def run(
    installation: Installation, steps: Sequence[tuple[str, ...]], names: dict[str, str]
) -> list[tuple[int, str]]:
    ended = [
        await asyncio.to_thread(
            run_to_end,
            *command.split(),
            *(names.get(each, each) for each in rest),
            # Daemons and services know their inbox; commands that run as them are told.
            env={**installation.environment(who), "NATS_INBOX_PREFIX": installation.inbox(who)},
        )
        for command, who, *rest in steps
    ]
    return [(each.code, each.out + each.err) for each in ended]


async def test_doctor_as_the_admin_runtime_sees_everything(installation: Installation) -> None:
    [(code, output)] = await run(installation, [("doctor", "jobs-admin", "--json")], {})
    assert code in {0, 1}, output
    assert json.loads(output)["notSeen"] == []


async def test_the_leader_of_the_work_queue_is_stepped_down_by_the_provisioner(
    installation: Installation,
) -> None:
    """`nats stream cluster step-down JOBS_WORK`: allowed, and refused by a single server."""
    async with installation.connection("provisioner") as connection:
        answer = await connection.request("$JS.API.STREAM.LEADER.STEPDOWN.JOBS_WORK")
        assert json.loads(answer.data)["error"]["err_code"] == 10010


async def test_backups_are_taken_by_the_backup_user_alone(installation: Installation) -> None:
    """`nats stream backup JOBS folder`."""
    async with installation.connection("backup") as connection:
        chunks: list[bytes] = []
        inbox = connection.new_inbox()
        await connection.subscribe(inbox, lambda message: chunks.append(message.data))
        wanted = json.dumps({"deliver_subject": inbox}).encode()
        answer = await connection.request("$JS.API.STREAM.SNAPSHOT.JOBS", wanted)
        assert "error" not in json.loads(answer.data)
        await until(lambda: b"" in chunks, "the backup is whole")
        with pytest.raises(NotPermitted):
            await connection.request("$JS.API.STREAM.RESTORE.JOBS", b"{}", timeout=2)
        with pytest.raises(NotPermitted):
            await connection.request("$JS.API.STREAM.PURGE.JOBS", b"{}", timeout=2)
    for who in ("garden", "reader", "keeper", "jobs-admin", "provisioner"):
        async with installation.connection(who) as other:
            prefix = installation.prefixes[who]
            with pytest.raises(NotPermitted):
                await other.request(f"{prefix}.STREAM.SNAPSHOT.JOBS", wanted, timeout=2)
