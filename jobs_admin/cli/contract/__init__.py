"""`trellis-jobs contract`: show, compare and generate code from a service's contract."""

from __future__ import annotations

from jobs_admin.cli.command_group import CommandGroup

contract = CommandGroup(
    __name__,
    "Show a service's contract, compare two versions, generate typed code from a manifest.",
    {
        "show": "show",
        "diff": "diff",
        "generate": "generate",
    },
)
