"""Options that many commands have, and no command for nothing."""

from __future__ import annotations

from typing import Final

from tools.reference.cli_page import commands

TAKEN: Final = {
    name.removeprefix("trellis-jobs "): {option for each in command.params for option in each.opts}
    for name, command in commands()
}
# They run for long, or write what is no answer.
WITHOUT_JSON: Final = {
    *("worker", "dev", "admin serve", "credentials new", "contract generate"),
    *("console serve", "console password", "console token", "jobs export"),
}
WITHOUT_TIMES: Final = WITHOUT_JSON | {
    *("top", "doctor", "permissions", "queues resume", "admin due"),
    *("infra plan", "infra check", "infra apply", "contract show", "contract diff"),
    *("projection status", "projection rebuild", "projection verify", "projection ignored"),
    *("schedules next", "schedules trigger", "schedules delete"),
    *("jobs run-local", "jobs suggest"),
    "workers drain",
    "workers quiet",
    "workers resume",
    "workers terminate",
}


def test_every_command_that_answers_does_so_in_json_too() -> None:
    assert {name for name, options in TAKEN.items() if "--json" not in options} == WITHOUT_JSON


def test_absolute_times_are_asked_for_only_where_times_are_shown() -> None:
    assert {name for name, options in TAKEN.items() if "--absolute" not in options} == WITHOUT_TIMES
