"""`trellis-jobs credentials`: key pairs for those who connect."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from jobs_admin.cli.render.output import print_text
from trellis_jobs.errors import CredentialsUnusable, InvalidToken
from trellis_jobs.jetstream.client.user_keys import ensure_seed
from trellis_jobs.model.identity import check_token

_ONLY_THEIR_OWNER: Final = 0o700

credentials = typer.Typer(help="Key pairs for those who connect.", no_args_is_help=True)


@credentials.command("new")
def new(
    users: Annotated[list[str], typer.Argument(metavar="USER", help="Names of users.")],
    folder: Annotated[
        Path, typer.Option(help="Where the seeds are kept.", metavar="FOLDER", file_okay=False)
    ] = Path(),
) -> None:
    """A seed for each, in FOLDER/USER.nk, which nobody else can read; one that is there is kept.

    Prints USER=KEY for each, with the public key: what `permissions` takes as --nkey.
    """
    for user in users:
        _check(user)
    _make(folder)
    for user in users:
        print_text(f"{user}={ensure_seed(folder / f'{user}.nk')}")


def _check(user: str) -> None:
    try:
        check_token("user", user)
    except InvalidToken as error:
        raise typer.BadParameter(str(error), param_hint="USER") from None


def _make(folder: Path) -> None:
    try:
        folder.mkdir(mode=_ONLY_THEIR_OWNER, parents=True, exist_ok=True)
    except OSError as error:
        raise CredentialsUnusable(str(folder), error.strerror or str(error)) from error
