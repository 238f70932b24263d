"""Ways to start a console, and what must be right before it listens."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import httpx
import pytest

from jobs_admin.cli.console.options import ConsoleOptions
from jobs_admin.cli.console.role_connections import role_connections
from jobs_admin.cli.exit_codes import Exit, UsageError
from jobs_admin.console.auth.settings import SignInKind
from jobs_admin.console.auth.users_file import parse_users
from jobs_admin.console.users import Role
from tests.cli.command import Command, environment, running
from tests.cli.shell import shell
from tests.support.fork_server import ROOT
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.jetstream.client.connect_options import ConnectOptions
from trellis_jobs.jetstream.client.user_keys import ensure_seed

AT: Final = re.compile(r"http://127\.0\.0\.1:\d+")
OWN: Final = ConnectOptions(servers="nats://127.0.0.1:4222")


async def page(command: Command, words: str) -> httpx.Response:
    """The first page of the console whose address the command prints after these words."""
    await command.until_prints(words)
    found = AT.search(command.printed.partition(words)[2])
    assert found is not None, command.printed
    async with httpx.AsyncClient(base_url=found[0], trust_env=False, timeout=20) as web:
        return await web.get("/")


async def test_the_console_says_where_it_is_and_ends_with_a_signal(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """Without an admin runtime its pages say so, and what to do."""
    variables = {"TRELLIS_JOBS_CONSOLE_PORT": "0", "TRELLIS_JOBS_CONSOLE_ENVIRONMENT": "the lab"}
    serve = ("console", "serve", "--nats", server.url)
    with running(tmp_path, *serve, env=variables) as console:
        reply = await page(console, "the console is at ")
        assert reply.status_code == 503
        assert "the lab" in reply.text
        assert "trellis-jobs admin serve" in reply.text
        console.send(signal.SIGTERM)
        assert await console.until_exit() == 0


async def test_the_admin_runtime_can_serve_it(server: EmbeddedServer, tmp_path: Path) -> None:
    arguments = ("--nats", server.url, "--db", str(tmp_path / "jobs.sqlite"), "--provision")
    with running(tmp_path, "admin", "serve", *arguments, "--console-port", "0") as admin:
        assert (await page(admin, "console=")).status_code == 200
        admin.send(signal.SIGTERM)
        assert await admin.until_exit() == 0


async def test_dev_has_it_and_opens_it(tmp_path: Path) -> None:
    opened = tmp_path / "opened"
    browser = tmp_path / "browser"
    browser.write_text(f"#!/bin/sh\necho $1 > {opened}\n")
    browser.chmod(0o700)
    arguments = ("dev", "--no-demo", "--port", "0", "--console-port", "0", "--open")
    with running(tmp_path, *arguments, env={"BROWSER": str(browser)}) as dev:
        reply = await page(dev, "console: ")
        assert reply.status_code == 200
        assert dev.printed.splitlines()[2] == f"console: {opened.read_text().strip()}"
        dev.send(signal.SIGINT)
        assert await dev.until_exit() == 0


def test_an_address_that_others_reach_needs_a_decision() -> None:
    ended = shell("console", "serve", "--host", "0.0.0.0", "--port", "0")  # noqa: S104
    assert ended.code == Exit.REFUSED
    assert "add --auth basic, token or proxy, or --no-auth" in ended.err
    ended = shell("admin", "serve", "--console-port", "0", "--console-host", "::")
    assert ended.code == Exit.REFUSED
    assert "add --auth" in ended.err


def test_users_who_sign_in_do_not_get_the_credentials_of_the_admin_runtime(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    users = tmp_path / "users"
    users.write_text("everyone viewer\n")
    arguments = ("--nats", server.url, "--console-port", "0", "--console-auth", "basic")
    ended = shell("admin", "serve", *arguments, "--console-users", str(users))
    assert ended.code == Exit.REFUSED
    assert "--console-auth needs --console-creds" in ended.err


async def test_users_may_sign_in_to_the_console_of_the_admin_runtime(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    users = tmp_path / "users"
    users.write_text("everyone viewer\n")
    arguments = ("--nats", server.url, "--db", str(tmp_path / "jobs.sqlite"), "--provision")
    console = ("--console-port", "0", "--console-auth", "basic", "--console-users", str(users))
    serve = ("admin", "serve", *arguments, *console, "--console-creds", server.url)
    with running(tmp_path, *serve) as admin:
        assert (await page(admin, "console=")).status_code == 401
        admin.send(signal.SIGTERM)
        assert await admin.until_exit() == 0


def test_a_port_that_is_taken_is_said(server: EmbeddedServer) -> None:
    ended = shell("console", "serve", "--nats", server.url, "--port", str(server.port))
    assert ended.code == Exit.REFUSED
    assert f"--port {server.port} cannot be opened" in ended.err


WITHOUT_EXTRA: Final = """
import sys
for name in ("jinja2", "markupsafe", "starlette", "uvicorn"):
    sys.modules[name] = None
from jobs_admin.cli import main
sys.argv = ["trellis-jobs", *sys.argv[1:]]
main()
"""


def without_extra(*arguments: str, timeout: float = 50) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        (sys.executable, "-c", WITHOUT_EXTRA, *arguments),
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def test_without_its_packages_one_line_says_what_to_install(server: EmbeddedServer) -> None:
    ended = without_extra("console", "serve", "--nats", server.url)
    assert ended.returncode == Exit.REFUSED
    assert ended.stderr.count("\n") == 1
    assert "pip install 'trellis-jobs[console]'" in ended.stderr
    assert without_extra("--help").returncode == 0
    assert without_extra("console", "serve", "--help").returncode == 0


def test_other_commands_do_not_load_it() -> None:
    code = "import sys; from jobs_admin.cli.app import command_line; command_line(); "
    code += "print(*(each for each in ('starlette', 'jinja2', 'uvicorn') if each in sys.modules))"
    ended = subprocess.run((sys.executable, "-c", code), capture_output=True, text=True, check=True)
    assert ended.stdout.split() == []


def test_a_console_for_oneself_has_all_roles_on_one_connection() -> None:
    assert role_connections(ConsoleOptions(), OWN) == dict.fromkeys(Role, OWN)


@pytest.mark.parametrize(
    "options",
    [
        ConsoleOptions(auth=[SignInKind.BASIC]),
        ConsoleOptions(host="0.0.0.0", no_auth=True),  # noqa: S104
    ],
)
def test_where_others_sign_in_a_role_without_credentials_does_not_exist(
    options: ConsoleOptions,
) -> None:
    found = role_connections(options, OWN)
    assert found.keys() == {Role.VIEWER}
    assert found[Role.VIEWER].inbox_prefix == "_INBOX_console-viewer"


def test_each_role_can_have_a_user_as_a_file_a_url_or_a_context(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    contexts = tmp_path / "nats" / "context"
    contexts.mkdir(parents=True)
    (contexts / "secret.json").write_text('{"url": "nats://b:1", "inbox_prefix": "_INBOX_sue"}')
    seed = tmp_path / "operator.nk"
    ensure_seed(seed)
    options = ConsoleOptions(
        operator_creds=str(seed), secrets_creds="secret", create_creds="nats://joe:pw@c:1"
    )
    found = role_connections(options, OWN)
    assert found[Role.OPERATOR].nkey == str(seed)
    assert found[Role.OPERATOR].servers == OWN.servers
    assert found[Role.OPERATOR].inbox_prefix == "_INBOX_console-operator"
    assert found[Role.SECRETS].servers == "nats://b:1"
    assert found[Role.SECRETS].inbox_prefix == "_INBOX_sue"
    assert found[Role.CREATOR].servers == "nats://joe:pw@c:1"
    with pytest.raises(UsageError, match="'nothing' is neither a file nor a natscli context"):
        role_connections(ConsoleOptions(operator_creds="nothing"), OWN)


def test_roles_share_the_viewers_connection_only_if_told_to() -> None:
    options = ConsoleOptions(auth=[SignInKind.BASIC], share_connection=True)
    found = role_connections(options, OWN)
    assert found.keys() == set(Role)
    assert len(set(found.values())) == 1


def test_lines_of_the_users_file_are_printed_and_no_password_is() -> None:
    ann = shell("console", "password", "ann", "--roles", "operator,secrets", stdin="long enough\n")
    machine = shell("console", "token", "ci", "--roles", "create")
    assert "long enough" not in ann.out + ann.err
    users = parse_users(ann.out + machine.out)
    assert users.passwords["ann"].matches("long enough")
    token = machine.err.split()[-1]
    assert token not in machine.out
    found = users.machine(token)
    assert found is not None
    assert found.roles == {Role.VIEWER, Role.CREATOR}


@pytest.mark.parametrize(
    ("arguments", "stdin", "why"),
    [
        (("password", "ann"), "short\n", "at least 8 characters"),
        (("password", "ann", "--roles", "admin"), "long enough\n", "'admin' are not roles"),
        (("password", "a b"), "long enough\n", "NAME must be printable"),
        (("token", "a:b"), "", "NAME must be printable"),
    ],
)
def test_what_cannot_be_in_the_file_is_said(
    arguments: tuple[str, ...], stdin: str, why: str
) -> None:
    ended = shell("console", *arguments, stdin=stdin)
    assert (ended.code, ended.out) == (Exit.USAGE, "")
    assert why in ended.err
