"""`trellis-jobs projection`: inspect, rebuild and verify the SQLite projection of the log."""

from __future__ import annotations

from jobs_admin.cli.command_group import CommandGroup

projection = CommandGroup(
    __name__,
    "The projection of the log: a SQLite file that can be deleted and rebuilt at any time.",
    {
        "status": "status",
        "rebuild": "rebuild",
        "verify": "verify",
        "ignored": "list_ignored",
    },
)
