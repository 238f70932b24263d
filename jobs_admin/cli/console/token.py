"""`trellis-jobs console token`: the line of a machine in the users file."""

from __future__ import annotations

from jobs_admin.cli.console.user_fields import Name, Roles, user_fields
from jobs_admin.cli.render.output import print_stderr, print_text
from jobs_admin.console.auth.password_hash import TokenHash, new_token
from jobs_admin.console.users import Role


def token(name: Name, roles: Roles = Role.VIEWER.value) -> None:
    """Print a line of the users file for a machine, and on stderr its new token, only this once.

    The machine sends it as `Authorization: Bearer TOKEN`.
    """
    fields = user_fields(name, roles)
    made = new_token()
    print_stderr(f"the token of {name}: {made}")
    print_text(f"token {fields} {TokenHash.of(made)}")
