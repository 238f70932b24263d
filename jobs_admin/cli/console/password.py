"""`trellis-jobs console password` and `token`: lines of the users file."""

from __future__ import annotations

import sys
from typing import Annotated, Final

import typer

from jobs_admin.cli.exit_codes import UsageError
from jobs_admin.cli.render.output import print_stderr, print_text
from jobs_admin.console.auth.password_hash import PasswordHash, TokenHash, new_token
from jobs_admin.console.auth.users_file import parse_roles
from jobs_admin.console.users import Role

_MIN_LENGTH: Final = 8

Name = Annotated[str, typer.Argument(metavar="NAME", help="Recorded as the author of changes.")]
Roles = Annotated[
    str,
    typer.Option(
        help=f"Roles, separated by commas: {', '.join(Role)}. Each includes {Role.VIEWER}.",
        metavar="ROLE[,…]",
    ),
]


def password(name: Name, roles: Roles = Role.VIEWER.value) -> None:
    """Print a line of the users file for a person, with the hash of a password.

    Asks for the password on a terminal, otherwise reads it from the first line of stdin. Append
    the line to the file: `trellis-jobs console password ann --roles operator >> users`.
    """
    fields = _checked(name, roles)
    given = _ask() if sys.stdin.isatty() else sys.stdin.readline().rstrip("\r\n")
    if len(given) < _MIN_LENGTH:
        raise UsageError(f"the password needs at least {_MIN_LENGTH} characters")
    print_text(f"user {fields} {PasswordHash.of(given)}")


def token(name: Name, roles: Roles = Role.VIEWER.value) -> None:
    """Print a line of the users file for a machine, and on stderr its new token, only this once.

    The machine sends it as `Authorization: Bearer TOKEN`.
    """
    fields = _checked(name, roles)
    made = new_token()
    print_stderr(f"the token of {name}: {made}")
    print_text(f"token {fields} {TokenHash.of(made)}")


def _checked(name: str, roles: str) -> str:
    if name.split() != [name] or ":" in name or not name.isprintable():
        raise UsageError("NAME must be printable, without blanks and colons")
    try:
        found = parse_roles(roles)
    except ValueError as error:
        raise UsageError(f"--roles: {error}") from None
    return f"{name} {','.join(role for role in Role if role in found)}"


def _ask() -> str:
    answer: str = typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    return answer
