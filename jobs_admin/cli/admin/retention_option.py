"""The option `--retention`, which several commands have."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from jobs_admin.api.errors import ConfigError
from jobs_admin.retention_policy import RetentionPolicy, parse, standard

KEPT: Final = str(standard())

Kept = Annotated[
    str,
    typer.Option(
        "--retention",
        envvar="TRELLIS_JOBS_RETENTION",
        help="How long jobs are kept after their end, by state, as in "
        "completed=7d,failed=30d,others=12h; or keep-all.",
        metavar="STATE=AGE,…",
    ),
]


def retention_policy(text: str) -> RetentionPolicy:
    try:
        return parse(text)
    except ConfigError as error:
        raise typer.BadParameter(str(error), param_hint="--retention") from None
