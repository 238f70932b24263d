"""How a job is named on the command line: by its id, or by service/type/id."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from trellis_jobs.errors import InvalidToken
from trellis_jobs.model.identity import JobAddress, check_token

_HELP: Final = "Its id; or service/type/id, where several queues have a job with that id."

JobArgument = Annotated[str, typer.Argument(metavar="ID", help=_HELP)]
JobArguments = Annotated[list[str], typer.Argument(metavar="ID", help=_HELP)]


def named(text: str) -> str | JobAddress:
    try:
        match text.split("/"):
            case [job_id]:
                return check_token("job id", job_id)
            case [service, job_type, job_id]:
                return JobAddress(service, job_type, job_id)
    except InvalidToken as error:
        raise typer.BadParameter(str(error), param_hint="ID") from None
    raise typer.BadParameter(f"{text!r} is neither an id nor service/type/id", param_hint="ID")
