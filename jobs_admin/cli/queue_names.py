"""Queue arguments of the command line: service/type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from trellis_jobs.errors import InvalidToken
from trellis_jobs.model.identity import check_service, check_token

QueueArgument = Annotated[str, typer.Argument(metavar="QUEUE", help="A queue, as service/type.")]


@dataclass(frozen=True, slots=True)
class QueueName:
    service: str
    job_type: str

    def __str__(self) -> str:
        return f"{self.service}/{self.job_type}"


def parse_queue(text: str) -> QueueName:
    service, slash, job_type = text.partition("/")
    if not slash:
        raise typer.BadParameter(f"{text!r} is not of the form service/type", param_hint="QUEUE")
    try:
        return QueueName(check_service(service), check_token("type", job_type))
    except InvalidToken as error:
        why = f": {error}" if service and job_type else ""
        raise typer.BadParameter(
            f"{text!r} is not of the form service/type{why}", param_hint="QUEUE"
        ) from None
