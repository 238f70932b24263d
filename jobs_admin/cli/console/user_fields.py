"""The name and the roles of a line of the users file."""

from __future__ import annotations

from typing import Annotated

import typer

from jobs_admin.cli.exit_codes import UsageError
from jobs_admin.console.auth.users_file import parse_roles
from jobs_admin.console.users import Role

Name = Annotated[str, typer.Argument(metavar="NAME", help="Recorded as the author of changes.")]
Roles = Annotated[
    str,
    typer.Option(
        help=f"Roles, separated by commas: {', '.join(Role)}. Each includes {Role.VIEWER}.",
        metavar="ROLE[,…]",
    ),
]


def user_fields(name: str, roles: str) -> str:
    """The fields as the file has them. Raises UsageError."""
    if name.split() != [name] or ":" in name or not name.isprintable():
        raise UsageError("NAME must be printable, without blanks and colons")
    try:
        found = parse_roles(roles)
    except ValueError as error:
        raise UsageError(f"--roles: {error}") from None
    return f"{name} {','.join(role for role in Role if role in found)}"
