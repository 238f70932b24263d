"""`trellis-jobs credentials new`: create key pairs for NATS users."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from jobs_admin.cli.render.output import print_text
from trellis_jobs.errors import CredentialsUnusable, InvalidToken
from trellis_jobs.jetstream.client.user_keys import ensure_seed
from trellis_jobs.model.identity import check_token

_OWNER_ONLY: Final = 0o700


def new(
    users: Annotated[list[str], typer.Argument(metavar="USER", help="Names of users.")],
    folder: Annotated[
        Path, typer.Option(help="Folder for the seed files.", metavar="FOLDER", file_okay=False)
    ] = Path(),
) -> None:
    """Write a seed for each user to FOLDER/USER.nk. Existing seeds are kept.

    Only the owner can read the files. Prints USER=KEY for each user, with the public key, in the
    form that `permissions --nkey` takes.
    """
    for user in users:
        _check(user)
    _create(folder)
    for user in users:
        print_text(f"{user}={ensure_seed(folder / f'{user}.nk')}")


def _check(user: str) -> None:
    try:
        check_token("user", user)
    except InvalidToken as error:
        raise typer.BadParameter(str(error), param_hint="USER") from None


def _create(folder: Path) -> None:
    try:
        folder.mkdir(mode=_OWNER_ONLY, parents=True, exist_ok=True)
    except OSError as error:
        raise CredentialsUnusable(str(folder), error.strerror or str(error)) from error
