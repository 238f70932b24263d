"""`trellis-jobs dlq replay` and `dlq dismiss`."""

from __future__ import annotations

from jobs_admin.cli.bulk.command import Changing, change
from jobs_admin.cli.bulk.targets import Choice
from jobs_admin.cli.bulk.verbs import DISMISS, REPLAY
from jobs_admin.cli.connection import AdminConnectionOptions
from jobs_admin.cli.render.output import Output


def replay(choice: Choice, how: Changing, output: Output, reach: AdminConnectionOptions) -> None:
    """Run dead jobs again, by id or by filter; --rate spares what they call.

    They stay the same jobs, with their history, and get all their tries anew.
    """
    change(REPLAY, choice, how, output, reach)


def dismiss(choice: Choice, how: Changing, output: Output, reach: AdminConnectionOptions) -> None:
    """Dismiss dead jobs, by id or by filter: nobody will run them, and they leave this list."""
    change(DISMISS, choice, how, output, reach)
