"""`trellis-jobs jobs cancel` and `jobs retry`."""

from __future__ import annotations

from jobs_admin.cli.bulk.command import Changing, change
from jobs_admin.cli.bulk.targets import ChoiceOfStates
from jobs_admin.cli.bulk.verbs import CANCEL, RETRY
from jobs_admin.cli.connection import AdminConnectionOptions
from jobs_admin.cli.render.output import Output


def cancel(
    choice: ChoiceOfStates, how: Changing, output: Output, reach: AdminConnectionOptions
) -> None:
    """Cancel jobs that are not over, by id or by filter; a running handler is told.

    A filter means those that are pending, waiting for their next try, or running.
    """
    change(CANCEL, choice, how, output, reach)


def retry(
    choice: ChoiceOfStates, how: Changing, output: Output, reach: AdminConnectionOptions
) -> None:
    """Run jobs again that failed or died, by id or by filter.

    They stay the same jobs, with their history, and get all their tries anew.
    """
    change(RETRY, choice, how, output, reach)
