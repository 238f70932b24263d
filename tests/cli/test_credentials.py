"""`trellis-jobs credentials new`: seeds that let their owners in, and that only they can read."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from tests.cli.shell import shell
from trellis_jobs import ConnectOptions
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.errors import CredentialsRefused
from trellis_jobs.jetstream.client.connection import Connection


def new(folder: Path, *users: str) -> dict[str, str]:
    made = shell("credentials", "new", *users, "--folder", str(folder))
    assert made.code == 0, made.err
    return dict(line.split("=") for line in made.out.splitlines())


async def test_a_server_that_knows_the_public_key_lets_its_seed_in(tmp_path: Path) -> None:
    keys = new(tmp_path / "keys", "ann", "bob")
    known = f'authorization: {{ users: [{{ nkey: "{keys["ann"]}" }}] }}'
    with EmbeddedServer.start(config=known) as server:

        def access(user: str) -> ConnectOptions:
            return ConnectOptions(servers=server.url, nkey=str(tmp_path / "keys" / f"{user}.nk"))

        connection = await Connection.open(access("ann"), name="ann")
        await connection.close()
        with pytest.raises(CredentialsRefused):
            await Connection.open(access("bob"), name="bob")


def test_only_its_owner_reads_a_seed(tmp_path: Path) -> None:
    folder = tmp_path / "keys"
    new(folder, "ann")
    assert stat.S_IMODE((folder / "ann.nk").stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_seed_that_is_there_is_kept(tmp_path: Path) -> None:
    first = new(tmp_path, "ann")
    seed = (tmp_path / "ann.nk").read_bytes()
    both = new(tmp_path, "bob", "ann")
    assert both["ann"] == first["ann"] != both["bob"]
    assert (tmp_path / "ann.nk").read_bytes() == seed


def test_what_is_printed_is_what_permissions_takes(tmp_path: Path) -> None:
    printed = shell("credentials", "new", "jobs-admin", "ann", "--folder", str(tmp_path)).out
    told = shell(
        *("permissions", "--admin", "--operator", "ann=read", "--shape", "accounts"),
        env={"TRELLIS_JOBS_PERMISSIONS_NKEY": printed},
    )
    assert told.code == 0, told.err
    for key in (line.split("=")[1] for line in printed.splitlines()):
        assert f'nkey: "{key}"' in told.out
    assert "password" not in told.out


@pytest.mark.parametrize(
    ("content", "why"),
    [("a diary", "does not hold the seed of a user"), ("SUABC", "does not hold the seed")],
    ids=["diary", "cut"],
)
def test_a_file_that_is_something_else_is_left_alone(
    tmp_path: Path, content: str, why: str
) -> None:
    file = tmp_path / "ann.nk"
    file.write_text(content)
    refused = shell("credentials", "new", "ann", "--folder", str(tmp_path))
    assert (refused.code, refused.out) == (1, "")
    assert why in refused.err
    assert content not in refused.err
    assert file.read_text() == content


def test_a_name_that_could_not_be_an_inbox_is_refused_before_anything_is_made(
    tmp_path: Path,
) -> None:
    refused = shell("credentials", "new", "ann", "b.ob", "--folder", str(tmp_path))
    assert refused.code == 2
    assert list(tmp_path.iterdir()) == []
