"""`trellis-jobs workers`: list the worker processes, and direct them."""

from __future__ import annotations

from jobs_admin.cli.command_group import CommandGroup

workers = CommandGroup(
    __name__,
    "List the worker processes; let them be quiet, resume, or stop.",
    {
        "list": "list_workers",
        "quiet": "quiet",
        "resume": "resume",
        "terminate": "terminate",
        "drain": "drain",
    },
)
