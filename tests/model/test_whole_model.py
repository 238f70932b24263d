"""Every interleaving, within bounds, of all who take part, with the product's own rules.

Producers, two workers that may crash or be paused at every step, a canceller, the janitor,
operators, reconciliation and key repair; alarms, two processes that release delayed jobs, and moves
to another time; one key with one slot. Faults have budgets: each mix is explored to its end. `make
model` explores larger ones.
"""

from __future__ import annotations

import os

import pytest

from tests.model.exploration import Exploration, Violation
from tests.model.whole_model_alarms import alarm_steps
from tests.model.whole_model_others import (
    janitor_steps,
    operator_steps,
    producer_steps,
    repair_steps,
    sweep_steps,
)
from tests.model.whole_model_server import Habits, queue_steps
from tests.model.whole_model_worker import WorkerStep
from tests.model.whole_model_world import Steps, World, beginning

PROTOCOL = Habits()


def steps(world: World, habits: Habits) -> Steps:
    yield from queue_steps(world)
    for index, hand in enumerate(world.workers):
        if hand is not None:
            yield from WorkerStep(world, habits, index, hand).all()
    for others in (
        producer_steps,
        operator_steps,
        janitor_steps,
        sweep_steps,
        repair_steps,
        alarm_steps,
    ):
        yield from others(world, habits)


def explored(jobs: int, faults: dict[str, int], habits: Habits = PROTOCOL) -> Exploration[World]:
    exploration = Exploration[World](lambda world: steps(world, habits))
    exploration.run(beginning(jobs, **faults))
    exploration.require_an_end(World.is_at_rest)
    return exploration


# Jobs, and how often each fault may come.
MIXES: list[tuple[int, dict[str, int]]] = [
    (1, {"crash": 1, "timeout": 1, "rivalry": 1}),
    (1, {"fail": 2, "retry": 1, "stale": 1}),
    (1, {"timeout": 1, "cancel": 1, "rivalry": 1}),
    (1, {"late": 1, "timeout": 1, "rivalry": 1}),
    (1, {"duplicate": 1, "shutdown": 1, "rivalry": 1}),
    (1, {"fail": 2, "dismiss": 1, "operator crash": 1, "retry": 1}),
    (1, {"purge": 1, "crash": 1, "rivalry": 1}),
    (2, {"crash": 1}),
    (2, {"expiry": 1}),
    (2, {"producer crash": 1}),
    (1, {"delay": 1, "crash": 1, "rivalry": 1}),
    (1, {"delay": 1, "double alarm": 1, "cancel": 1}),
    (1, {"delay": 1, "producer crash": 1, "stale": 1, "crash": 1}),
    (1, {"delay": 1, "run now": 1, "operator crash": 1, "stale": 1}),
    (1, {"delay": 1, "run now": 1, "cancel": 1}),
    (1, {"delay": 1, "postpone": 1}),
    (1, {"delay": 1, "lost alarm": 1, "late": 1}),
    (1, {"postpone": 1, "fail": 1}),
    (1, {"run now": 1, "fail": 1, "crash": 1}),
    (1, {"snooze": 2, "timeout": 1, "rivalry": 1}),
    (1, {"snooze": 1, "fail": 1, "crash": 1}),
    (1, {"snooze": 1, "run now": 1, "cancel": 1}),
]
LARGER: list[tuple[int, dict[str, int]]] = [
    (1, {"crash": 2, "timeout": 1, "stale": 1, "rivalry": 1}),
    (1, {"crash": 1, "timeout": 2, "rivalry": 1}),
    (1, {"crash": 1, "late": 1, "timeout": 1, "rivalry": 1}),
    (1, {"crash": 1, "duplicate": 1, "fail": 1, "rivalry": 1}),
    (1, {"fail": 2, "retry": 1, "stale": 1, "crash": 1}),
    (2, {"producer crash": 1, "purge": 1, "rivalry": 1}),
    (2, {"cancel": 1, "crash": 1}),
    (2, {"expiry": 1, "crash": 1, "fail": 1}),
    (2, {"expiry": 2, "crash": 1}),
    (1, {"delay": 1, "crash": 2, "double alarm": 1, "rivalry": 1}),
    (1, {"delay": 1, "postpone": 1, "cancel": 1}),
    (1, {"delay": 1, "postpone": 1, "operator crash": 1}),
    (1, {"delay": 1, "run now": 1, "operator crash": 1, "crash": 1, "stale": 1}),
    (1, {"delay": 1, "lost alarm": 2, "crash": 1, "stale": 1}),
    (2, {"delay": 2}),
    (1, {"snooze": 2, "crash": 1, "stale": 1, "fail": 1, "rivalry": 1}),
    (2, {"snooze": 1, "crash": 1}),
]


def _named(mix: tuple[int, dict[str, int]]) -> str:
    jobs, faults = mix
    return f"{jobs}: " + ", ".join(f"{left} {fault}" for fault, left in faults.items())


@pytest.mark.parametrize("mix", MIXES, ids=_named)
def test_whatever_happens_each_run_ends_once_and_nothing_is_left_over(
    mix: tuple[int, dict[str, int]],
) -> None:
    jobs, faults = mix
    assert len(explored(jobs, faults).came_from) > 100


@pytest.mark.skipif("MODEL_LARGER" not in os.environ, reason="make model")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("mix", LARGER, ids=_named)
def test_whatever_more_happens(mix: tuple[int, dict[str, int]]) -> None:
    jobs, faults = mix
    found = explored(jobs, faults)
    print(f"{len(found.came_from)} states, {found.transitions} transitions of {_named(mix)}")


WITHOUT: list[tuple[str, int, dict[str, int], str]] = [
    ("guards_appends", 1, {"timeout": 1, "rivalry": 1}, "an illegal event is in the log"),
    ("acknowledges_last", 1, {}, "the only message of an unfinished job was removed"),
    ("reads_as_new_as_the_message", 1, {"fail": 2, "retry": 1, "stale": 1, "crash": 1}, "the only"),
    ("releases_after_the_outcome", 2, {}, "more jobs of the key run than may"),
    ("takes_over_by_later_deliveries_only", 1, {"timeout": 1, "rivalry": 1}, "older delivery"),
    ("fences_before_it_evicts", 2, {"expiry": 1}, "more jobs of the key run than may"),
    ("acquires_before_it_starts", 2, {}, "more jobs of the key run than may"),
    ("reconciles", 1, {"purge": 1}, "nothing leads to an end"),
    ("tidies_keys", 1, {"producer crash": 1}, "nothing leads to an end"),
    ("repairs_alarms", 1, {"delay": 1, "lost alarm": 1}, "nothing leads to an end"),
]
# Without the repair of lost alarms, because none may be lost.
WITHOUT_REPAIR: list[tuple[str, dict[str, int]]] = [
    ("sets_the_alarm_first", {"delay": 1, "producer crash": 1}),
    ("waits_for_the_event", {"delay": 1, "run now": 1}),
    ("asks_the_leader", {"delay": 1, "run now": 1, "operator crash": 1, "stale": 1}),
]


@pytest.mark.parametrize(("habit", "faults"), WITHOUT_REPAIR)
def test_no_alarm_is_lost_by_the_processes_themselves(habit: str, faults: dict[str, int]) -> None:
    """No repair is needed for what they do, and without one of their rules it would be."""
    alone = PROTOCOL._replace(repairs_alarms=False)
    assert explored(1, faults, alone).came_from
    with pytest.raises(Violation, match="nothing leads to an end") as found:
        explored(1, faults, alone._replace(**{habit: False}))
    assert found.value.trace


@pytest.mark.parametrize(("habit", "jobs", "faults", "told"), WITHOUT)
def test_without_one_of_its_rules_the_protocol_breaks_and_the_steps_are_told(
    habit: str, jobs: int, faults: dict[str, int], told: str
) -> None:
    with pytest.raises(Violation, match=told) as found:
        explored(jobs, faults, PROTOCOL._replace(**{habit: False}))
    assert found.value.trace
