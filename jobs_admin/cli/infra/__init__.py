"""`trellis-jobs infra`: compare what jobs need on the server with what is there, and create it."""

from __future__ import annotations

from jobs_admin.cli.command_group import CommandGroup

infra = CommandGroup(
    __name__,
    "Set up what jobs need on the server: streams, the key bucket, queue consumers.",
    {
        "plan": "plan",
        "check": "check",
        "apply": "apply",
    },
)
