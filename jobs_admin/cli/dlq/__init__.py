"""`trellis-jobs dlq`: dead jobs, which wait for an operator's decision."""

from __future__ import annotations

from jobs_admin.cli.command_group import CommandGroup

dlq = CommandGroup(
    __name__,
    "Dead jobs, which used up all of their tries: list, inspect, replay or dismiss them.",
    {
        "list": "list_dead",
        "show": "show",
        "replay": "replay",
        "dismiss": "dismiss",
    },
)
