"""Job arguments of the command line: an id, or service/type/id."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from jobs_admin.cli.exit_codes import UsageError
from trellis_jobs.errors import InvalidToken
from trellis_jobs.model.identity import JobAddress, check_token

_HELP: Final = "Job id, or service/type/id if several queues have a job with that id."

JobArgument = Annotated[str, typer.Argument(metavar="ID", help=_HELP)]
JobArguments = Annotated[list[str], typer.Argument(metavar="ID", help=_HELP)]
OptionalJob = Annotated[str | None, typer.Argument(metavar="ID", help=_HELP)]
OptionalJobs = Annotated[list[str] | None, typer.Argument(metavar="ID", help=_HELP)]


def parse_job(text: str) -> str | JobAddress:
    """`ID`, or `SERVICE/TYPE/ID` if several queues have a job with that id."""
    try:
        match text.split("/"):
            case [service, job_type, job_id]:
                return JobAddress(service, job_type, job_id)
            case _:
                return check_token("job id", text)
    except InvalidToken as error:
        raise UsageError(f"{error}; a job is ID or SERVICE/TYPE/ID") from None
