"""The option `--retention`."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from jobs_admin.api.errors import ConfigError
from jobs_admin.retention_policy import RetentionPolicy, parse, standard

DEFAULT_RETENTION: Final = str(standard())

RetentionOption = Annotated[
    str,
    typer.Option(
        "--retention",
        envvar="TRELLIS_JOBS_RETENTION",
        help="How long ended jobs are kept, by state, as in completed=7d,failed=30d,others=12h; "
        "or keep-all.",
        metavar="STATE=AGE,…",
    ),
]


def retention_policy(text: str) -> RetentionPolicy:
    try:
        return parse(text)
    except ConfigError as error:
        raise typer.BadParameter(str(error), param_hint="--retention") from None
