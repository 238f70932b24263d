"""`trellis-jobs jobs`: list, inspect, follow, create and change jobs."""

from __future__ import annotations

from jobs_admin.cli.command_group import CommandGroup

jobs = CommandGroup(
    __name__,
    "List, inspect, follow, create and change jobs.",
    {
        "list": "list_jobs",
        "errors": "errors",
        "suggest": "suggest",
        "get": "get_jobs",
        "events": "show_events",
        "explain": "explain_job",
        "logs": "show_logs",
        "tail": "tail",
        "watch": "watch",
        "cancel": "cancel",
        "retry": "retry",
        "reschedule": "reschedule",
        "run-now": "run_now",
        "create": "create_job",
        "export": "export_job",
        "run-local": "run_local",
    },
)
