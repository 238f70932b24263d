"""`trellis-jobs admin`: run the admin runtime, and preview its retention."""

from __future__ import annotations

from jobs_admin.cli.command_group import CommandGroup

admin = CommandGroup(
    __name__,
    "Run the admin runtime, which serves and maintains the jobs of all services.",
    {
        "serve": "serve",
        "due": "due",
    },
)
