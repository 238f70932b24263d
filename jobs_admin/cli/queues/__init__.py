"""`trellis-jobs queues`: the backlog, the workers and the history of each queue; pause it."""

from __future__ import annotations

from jobs_admin.cli.command_group import CommandGroup

queues = CommandGroup(
    __name__,
    "List queues with their backlog and their history, pause and resume them.",
    {
        "list": "list_queues",
        "history": "history",
        "pause": "pause",
        "resume": "resume",
    },
)
