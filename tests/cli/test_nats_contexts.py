"""The contexts of natscli: which one is used, what is taken from it, and what comes before it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from jobs_admin.cli import nats_contexts
from jobs_admin.cli.connection import ConnectionOptions
from jobs_admin.cli.nats_contexts import ContextUnusable
from tests.cli.shell import shell
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.jetstream.client.connect_options import DEFAULT_SERVER, ConnectOptions, TlsFiles

NOWHERE = "nats://127.0.0.1:1"
PROD = {"url": "nats://prod:4222", "creds": "/etc/prod.creds"}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    made = tmp_path / "nats"
    (made / "context").mkdir(parents=True)
    return made


def given(folder: Path, name: str, settings: dict[str, Any]) -> None:
    (folder / "context" / f"{name}.json").write_bytes(orjson.dumps(settings))


def select(folder: Path, name: str) -> None:
    (folder / "context.txt").write_text(f"{name}\n")


def test_without_any_the_server_is_the_one_of_this_machine() -> None:
    assert nats_contexts.selected() is None
    assert ConnectionOptions().connect_options() == ConnectOptions(servers=DEFAULT_SERVER)


def test_the_selected_one_is_used_unless_another_is_named(folder: Path) -> None:
    given(folder, "prod", PROD)
    given(folder, "lab", {"url": "nats://lab:4222"})
    select(folder, "prod")
    assert ConnectionOptions().connect_options() == ConnectOptions(
        servers="nats://prod:4222", credentials="/etc/prod.creds"
    )
    assert ConnectionOptions(context="lab").connect_options() == ConnectOptions(
        servers="nats://lab:4222"
    )
    assert nats_contexts.names() == ["lab", "prod"]


def test_everything_in_it_is_used(folder: Path) -> None:
    settings = {
        "url": "tls://prod:4222",
        "nkey": "~/seed.nk",
        "user": "ann",
        "password": "secret",
        "token": "t",
        "ca": "/ca.pem",
        "cert": "/cert.pem",
        "key": "/key.pem",
        "inbox_prefix": "_INBOX_ann",
        "creds": "",
        "description": "natscli has more than we need",
    }
    given(folder, "prod", settings)
    assert nats_contexts.load_context("prod") == ConnectOptions(
        servers="tls://prod:4222",
        nkey=str(Path.home() / "seed.nk"),
        user="ann",
        password="secret",  # noqa: S106
        token="t",  # noqa: S106
        tls=TlsFiles(ca="/ca.pem", certificate="/cert.pem", key="/key.pem"),
        inbox_prefix="_INBOX_ann",
    )


def test_what_the_command_line_says_comes_before_what_a_context_says(
    folder: Path, tmp_path: Path
) -> None:
    given(folder, "prod", {**PROD, "user": "ann"})
    select(folder, "prod")
    creds = tmp_path / "mine.creds"
    assert ConnectionOptions(creds=creds).connect_options() == ConnectOptions(
        servers="nats://prod:4222", credentials=str(creds), user="ann"
    )
    both = ConnectionOptions(context="prod", nats="nats://other:4222").connect_options()
    assert (both.servers, both.credentials) == ("nats://other:4222", "/etc/prod.creds")


def test_a_server_that_is_named_is_not_given_the_keys_of_the_selected_context(
    folder: Path,
) -> None:
    given(folder, "prod", PROD)
    select(folder, "prod")
    assert ConnectionOptions(nats="nats://other:4222").connect_options() == ConnectOptions(
        servers="nats://other:4222"
    )


@pytest.mark.parametrize(
    ("settings", "prefix"),
    [
        ({}, "$JS.API"),
        ({"jetstream_api_prefix": "$JS.PLATFORM.API"}, "$JS.PLATFORM.API"),
        ({"jetstream_domain": "hub"}, "$JS.hub.API"),
        ({"jetstream_domain": "hub", "jetstream_api_prefix": "other"}, "$JS.hub.API"),
    ],
)
def test_jetstream_is_asked_where_it_says_unless_the_command_line_says_otherwise(
    folder: Path, settings: dict[str, str], prefix: str
) -> None:
    given(folder, "prod", {**PROD, **settings})
    assert ConnectionOptions(context="prod").connect_options().api_prefix == prefix
    given_options = ConnectionOptions(context="prod", api_prefix="mine", inbox_prefix="_INBOX_ann")
    assert (
        given_options.connect_options().api_prefix,
        given_options.connect_options().inbox_prefix,
    ) == (
        "mine",
        "_INBOX_ann",
    )
    assert given_options.environment()["NATS_API_PREFIX"] == "mine"


@pytest.mark.parametrize("setting", ["nsc", "socks_proxy", "user_jwt"])
def test_one_that_asks_for_what_we_cannot_do_is_refused(folder: Path, setting: str) -> None:
    given(folder, "prod", {**PROD, setting: "x"})
    with pytest.raises(ContextUnusable, match=f"'{setting}', which is not supported"):
        nats_contexts.load_context("prod")
    given(folder, "prod", {**PROD, setting: ""})
    assert nats_contexts.load_context("prod").servers == "nats://prod:4222"


@pytest.mark.parametrize(
    ("content", "why"), [(b"{", "cannot be read"), (b"[1]", "is not a JSON object")]
)
def test_a_file_that_is_none_is_named(folder: Path, content: bytes, why: str) -> None:
    file = folder / "context" / "prod.json"
    file.write_bytes(content)
    with pytest.raises(ContextUnusable, match=why) as refused:
        nats_contexts.load_context("prod")
    assert str(file) in str(refused.value)


def test_one_that_is_missing_is_said_with_those_there_are(folder: Path) -> None:
    with pytest.raises(ContextUnusable, match="known: none"):
        nats_contexts.load_context("prod")
    given(folder, "lab", PROD)
    ended = shell("jobs", "list", "--context", "prod")
    assert ended.code == 1
    assert ended.err == "error: there is no NATS context 'prod'; known: lab\n"


def test_a_command_reaches_the_server_of_its_context(folder: Path, server: EmbeddedServer) -> None:
    """That there is no admin runtime is said by a server that was reached."""
    given(folder, "here", {"url": server.url})
    named = shell("jobs", "list", "--context", "here")
    select(folder, "here")
    selected = shell("jobs", "list")
    for ended in (named, selected):
        assert ended.code == 4
        assert "no admin runtime answers rpc.v1.Jobs.List" in ended.err


def test_a_context_on_the_command_line_comes_before_the_environment(
    folder: Path, server: EmbeddedServer
) -> None:
    """Neither the server nor the keys that the environment names are those of that context."""
    given(folder, "here", {"url": server.url})
    seed = folder / "seed"
    seed.write_text("of another account")
    elsewhere = {"NATS_URL": NOWHERE, "NATS_CREDS": str(seed), "NATS_API_PREFIX": "not.ours"}
    printed = shell("jobs", "list", "--context", "here", env=elsewhere)
    assert "no admin runtime answers rpc.v1.Jobs.List" in printed.err
    assert NOWHERE in shell("jobs", "list", env={"NATS_URL": NOWHERE, "NATS_CONTEXT": "here"}).err
    both = shell("jobs", "list", "--context", "here", "--nats", NOWHERE, env=elsewhere)
    assert NOWHERE in both.err


def test_a_server_on_the_command_line_is_not_given_the_keys_of_the_environments_context(
    folder: Path, server: EmbeddedServer
) -> None:
    given(folder, "prod", {**PROD, "creds": str(folder / "missing.creds")})
    ended = shell("jobs", "list", "--nats", server.url, env={"NATS_CONTEXT": "prod"})
    assert "no admin runtime answers rpc.v1.Jobs.List" in ended.err
