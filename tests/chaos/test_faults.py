"""A seed decides a whole campaign, and every fault has a function that causes it."""

from __future__ import annotations

from tests.chaos.faults import Fault, deal, menu, schedule

MENU = menu(servers=3, is_short=False)


def test_the_same_seed_gives_the_same_faults_and_another_seed_others() -> None:
    first = schedule(7, 100, MENU, every=0.5)
    assert first == schedule(7, 100, MENU, every=0.5)
    assert first != schedule(8, 100, MENU, every=0.5)


def test_faults_come_in_order_within_the_time_and_about_as_often_as_told() -> None:
    times = [injection.at for injection in schedule(1, 1000, MENU, every=0.5)]
    assert times == sorted(times)
    assert times[0] > 0
    assert times[-1] < 1000
    assert 1800 < len(times) < 2200


def test_every_fault_of_the_menu_comes_before_chance_repeats_one() -> None:
    first = [injection.fault for injection in schedule(3, 100, MENU, every=0.5)][: len(MENU)]
    assert set(first) == set(MENU)


def test_a_short_campaign_deals_every_fault_once_and_evenly() -> None:
    dealt = deal(1, 5, MENU)
    assert dealt == deal(1, 5, MENU)
    assert sorted(injection.fault for wave in dealt for injection in wave) == sorted(MENU)
    waves = [[injection.at for injection in wave] for wave in dealt]
    assert waves == [sorted(times) for times in waves]
    assert sum(times[-1] for times in waves) < 5


def test_there_is_no_fault_that_no_campaign_has() -> None:
    assert {*MENU, *menu(servers=1, is_short=False)} == set(Fault)


def test_a_short_campaign_has_nothing_that_takes_a_minute_to_heal() -> None:
    left_out = MENU.keys() - menu(servers=3, is_short=True).keys()
    assert left_out == {
        Fault.PURGE_WORK,
        Fault.PURGE_ALARMS,
        Fault.KILL_PRODUCER,
        Fault.KILL_CREATING,
    }
