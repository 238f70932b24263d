"""Schedule arguments of the command line: service/type/name."""

from __future__ import annotations

from typing import Annotated

import typer

from trellis_jobs.errors import InvalidToken
from trellis_jobs.model.schedules.address import ScheduleAddress

ScheduleArgument = Annotated[
    str, typer.Argument(metavar="SCHEDULE", help="A schedule, as service/type/name.")
]


def parse_schedule(text: str) -> ScheduleAddress:
    try:
        service, job_type, name = text.split("/")
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is not of the form service/type/name", param_hint="SCHEDULE"
        ) from None
    try:
        return ScheduleAddress(service, job_type, name)
    except InvalidToken as error:
        raise typer.BadParameter(
            f"{text!r} is not of the form service/type/name: {error}", param_hint="SCHEDULE"
        ) from None
