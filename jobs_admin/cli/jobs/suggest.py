"""`trellis-jobs jobs suggest`: complete a word of a job filter."""

from __future__ import annotations

from typing import Annotated

import typer

from jobs_admin.api.views.suggestions import SuggestedField
from jobs_admin.cli.connection import AdminConnectionOptions
from jobs_admin.cli.filters import Service, Type
from jobs_admin.cli.render.output import JsonOutput, print_json, print_text
from jobs_admin.cli.run import run


def suggest(
    field: Annotated[
        SuggestedField, typer.Argument(help="The field of the filter.", show_default=False)
    ],
    output: JsonOutput,
    options: AdminConnectionOptions,
    prefix: Annotated[
        str, typer.Argument(help="What its value begins with.", show_default=False)
    ] = "",
    service: Service = None,
    type: Type = None,
    limit: Annotated[int, typer.Option(help="Maximum number of values.", min=1, max=100)] = 20,
) -> None:
    """Print values that a field of a job filter may have, one in each line.

    For `payload` these are the names of fields, from the contracts of queues, and never values.
    """
    run(_suggest(options, field, prefix, (service, type), limit, output))


async def _suggest(
    options: AdminConnectionOptions,
    field: SuggestedField,
    prefix: str,
    of: tuple[str | None, str | None],
    limit: int,
    output: JsonOutput,
) -> None:
    service, job_type = of
    async with options.admin() as admin:
        found = await admin.suggest(field, prefix, service=service, type=job_type, limit=limit)
    if output.json:
        print_json([each.model_dump(exclude_none=True) for each in found])
        return
    for each in found:
        print_text(each.value)
