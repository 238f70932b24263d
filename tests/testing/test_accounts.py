"""Every test has a separate log, whatever other tests left behind."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.support.facts import until
from tests.support.lab import probe
from tests.testing.troupe import Part, Troupe
from trellis_jobs.contract.topology import ADVISORIES, CONTROL, KEYS, LOG, WORK
from trellis_jobs.jetstream.client import api
from trellis_jobs.testing import Accounts, assert_enqueued, drain, refute_enqueued


@pytest.fixture
def accounts() -> Iterator[Accounts]:
    made = Accounts(per_server=3)
    yield made
    made.close()


def processes(accounts: Accounts) -> list[int]:
    return [running.server.pid for running in accounts._running]


def runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_what_one_test_enqueues_no_other_sees(accounts: Accounts) -> None:
    troupe = Troupe()
    for _ in range(2):
        with accounts.fresh() as url:
            async with troupe.service.connect(url, workers=False):
                await refute_enqueued(troupe.jobs.play)
                await troupe.jobs.play.create(Part(), job_id="same")
                await assert_enqueued(troupe.jobs.play, count=1)


async def test_a_worker_that_was_left_running_gets_nothing_of_the_next_test(
    accounts: Accounts,
) -> None:
    left, present = Troupe(), Troupe()
    with accounts.fresh() as earlier, accounts.fresh() as url:
        async with left.service.connect(earlier), present.service.connect(url, workers=False):
            await left.jobs.play.create(Part())
            await drain(left.service)
            assert len(left.seen) == 1, "it does work, where it is"
            await present.jobs.play.create(Part())
            await drain(present.service)
    assert len(left.seen) == len(present.seen) == 1


async def test_the_key_of_one_test_is_not_that_of_another(accounts: Accounts) -> None:
    holding, asking = Troupe(), Troupe()
    with accounts.fresh() as earlier, accounts.fresh() as url:
        async with (
            holding.service.connect(earlier, workers=False),
            asking.service.connect(url, workers=False),
        ):
            await holding.jobs.alone.create(Part())
            await asking.jobs.alone.create(Part())


async def test_streams_are_there_before_a_test_asks_for_its_account(accounts: Accounts) -> None:
    with accounts.fresh(), accounts.fresh() as second:
        async with probe(second) as raw:

            async def names() -> bool:
                listed = await api.request(raw.connection, "STREAM.NAMES")
                return {LOG, WORK, KEYS, ADVISORIES, CONTROL} == set(listed["streams"] or ())

            await until(names, "all streams are there")


def test_no_server_runs_before_the_first_account_is_used(accounts: Accounts) -> None:
    assert processes(accounts) == []
    with accounts.fresh():
        assert len(processes(accounts)) == 1


def test_a_server_whose_accounts_are_used_up_ends_with_the_last_of_them(
    accounts: Accounts,
) -> None:
    with ExitStack() as wider, accounts.fresh() as first:
        kept = wider.enter_context(accounts.fresh())
        (old,) = processes(accounts)
        with accounts.fresh(), accounts.fresh() as other:
            assert len(processes(accounts)) == 2
            assert other.rpartition(":")[2] != kept.rpartition(":")[2]
        assert first != kept
        assert runs(old), "another test still has an account there"
    assert not runs(old)
    (new,) = processes(accounts)
    assert runs(new)


def test_at_the_end_nothing_runs_and_no_file_is_left(accounts: Accounts) -> None:
    with accounts.fresh():
        (running,) = accounts._running
        store, pid = running.server.store, running.server.pid
        assert store.exists()
        accounts.close()
    assert not runs(pid)
    assert not store.exists()
