"""`trellis-jobs credentials`: create key pairs for NATS users."""

from __future__ import annotations

from jobs_admin.cli.command_group import CommandGroup

credentials = CommandGroup(__name__, "Create key pairs for NATS users.", {"new": "new"})
