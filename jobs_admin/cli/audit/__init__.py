"""`trellis-jobs audit`: what operators did."""

from __future__ import annotations

from jobs_admin.cli.command_group import CommandGroup

audit = CommandGroup(
    __name__,
    "What operators did: who, when and why.",
    {
        "list": "list_audit",
    },
)
