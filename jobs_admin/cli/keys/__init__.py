"""`trellis-jobs keys`: concurrency keys, with the jobs that hold them and wait for them."""

from __future__ import annotations

from jobs_admin.cli.command_group import CommandGroup

keys = CommandGroup(
    __name__,
    "Concurrency keys: list them, show their holders and waiting jobs, release them.",
    {
        "list": "list_keys",
        "get": "get",
        "release": "release",
    },
)
