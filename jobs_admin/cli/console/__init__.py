"""`trellis-jobs console`: run the web console, and prepare its users file."""

from __future__ import annotations

from jobs_admin.cli.command_group import CommandGroup

console = CommandGroup(
    __name__,
    "Run the web console.",
    {
        "serve": "serve",
        "password": "password",
        "token": "token",
    },
)
