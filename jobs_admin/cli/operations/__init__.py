"""`trellis-jobs operations`: bulk changes that the admin runtime carries out."""

from __future__ import annotations

from jobs_admin.cli.command_group import CommandGroup

operations = CommandGroup(
    __name__,
    "Bulk changes that the admin runtime carries out: list, inspect and stop them.",
    {
        "list": "list_operations",
        "get": "get",
        "stop": "stop",
    },
)
