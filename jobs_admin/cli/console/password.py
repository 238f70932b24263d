"""`trellis-jobs console password`: the line of a person in the users file."""

from __future__ import annotations

import sys
from typing import Final

import typer

from jobs_admin.cli.console.user_fields import Name, Roles, user_fields
from jobs_admin.cli.exit_codes import UsageError
from jobs_admin.cli.render.output import print_text
from jobs_admin.console.auth.password_hash import PasswordHash
from jobs_admin.console.users import Role

_MIN_LENGTH: Final = 8


def password(name: Name, roles: Roles = Role.VIEWER.value) -> None:
    """Print a line of the users file for a person, with the hash of a password.

    Asks for the password on a terminal, otherwise reads it from the first line of stdin. Append
    the line to the file: `trellis-jobs console password ann --roles operator >> users`.
    """
    fields = user_fields(name, roles)
    given = _ask() if sys.stdin.isatty() else sys.stdin.readline().rstrip("\r\n")
    if len(given) < _MIN_LENGTH:
        raise UsageError(f"the password needs at least {_MIN_LENGTH} characters")
    print_text(f"user {fields} {PasswordHash.of(given)}")


def _ask() -> str:
    answer: str = typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    return answer
