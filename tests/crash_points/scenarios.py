"""All scenarios by name: together they pass every crash point."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

from tests.crash_points import admin_scenarios as admin
from tests.crash_points import delay_scenarios as delays
from tests.crash_points import schedule_scenarios as schedules
from tests.crash_points import source_scenarios as source
from tests.crash_points import work_scenarios as work
from tests.crash_points.stage import Stage

Scenario = Callable[[Stage], Coroutine[Any, Any, None]]

# Of a scenario that is not for the newest server.
VERSIONS: Final = {
    work.replacing_without_batches.__name__: "2.11.11",
    delays.releasing_by_redelivery.__name__: "2.11.11",
    source.adding_lanes_to_a_plain_source.__name__: "2.12.8",
}

SCENARIOS: Final[Mapping[str, Scenario]] = {
    scenario.__name__: scenario
    for scenario in (
        work.creating,
        work.following,
        work.pressing_in,
        work.replacing,
        work.replacing_without_batches,
        work.being_cut_off,
        work.creating_in_a_row,
        work.working,
        work.working_cut_off,
        work.interrupting,
        work.taking_over,
        work.lining_up,
        work.freezing,
        work.draining,
        work.losing_the_queue,
        work.losing_the_keys,
        work.being_directed,
        work.sharing_slots,
        delays.delaying,
        delays.delaying_cut_off,
        delays.delaying_in_a_row,
        delays.delaying_without_schedules,
        delays.releasing,
        delays.receiving_odd_alarms,
        delays.releasing_cut_off,
        delays.releasing_by_redelivery,
        admin.projecting,
        admin.starting_again,
        admin.looking_after,
        admin.unheard,
        admin.ordering,
        admin.moving,
        admin.forgetting,
        admin.recovering,
        source.moving_the_source,
        source.adding_lanes,
        source.adding_lanes_to_a_plain_source,
        source.repairing_the_source,
        schedules.declaring_schedules,
        schedules.removing_schedules,
        schedules.making_schedules,
        schedules.firing_schedules,
        schedules.ringing_late_schedules,
    )
}
