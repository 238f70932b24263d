"""`trellis-jobs schedules`: when jobs are created, what became of the last ticks, and changes."""

from __future__ import annotations

from jobs_admin.cli.command_group import CommandGroup

schedules = CommandGroup(
    __name__,
    "Schedules: list and show them, make, pause, resume, trigger and delete them.",
    {
        "list": "list_schedules",
        "get": "get",
        "next": "next_ticks",
        "put": "put",
        "pause": "pause",
        "resume": "resume",
        "trigger": "trigger",
        "delete": "delete",
    },
)
