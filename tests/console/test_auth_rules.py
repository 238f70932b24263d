"""Signing in: passwords, tokens, the users file, limits, and whether a console may listen."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from jobs_admin.api.errors import ConfigError
from jobs_admin.console.auth.addresses import TrustedProxies, is_loopback, throttle_name
from jobs_admin.console.auth.failed_tries import PER_ADDRESS, PER_USER, WINDOW
from jobs_admin.console.auth.password_hash import InvalidHash, PasswordHash, TokenHash, new_token
from jobs_admin.console.auth.passwords import Passwords
from jobs_admin.console.auth.refusals import TooManyTries
from jobs_admin.console.auth.settings import SignInKind, SignInSettings
from jobs_admin.console.auth.users_file import UsersFile, parse_users
from jobs_admin.console.config import ConsoleConfig
from jobs_admin.console.users import Role

ANNS = PasswordHash.of("correct horse")
HERE = "192.0.2.1"
VIEWER, OPERATOR = Role.VIEWER, Role.OPERATOR


class Clock:
    def __init__(self) -> None:
        self.time = 1_000.0

    def __call__(self) -> float:
        return self.time


def test_a_hash_says_nothing_about_its_password_and_matches_only_it() -> None:
    text = str(ANNS)
    assert "correct" not in text + repr(ANNS)
    assert PasswordHash.parse(text).matches("correct horse")
    assert not PasswordHash.parse(text).matches("correct horse ")
    assert str(PasswordHash.of("correct horse")) != text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "correct horse",
        "scrypt:1:2:3",
        str(ANNS).replace("scrypt", "plain"),
        str(ANNS).replace("32768", "1073741824"),
        str(ANNS).replace("32768", "0"),
        str(ANNS).replace("32768", "-1"),
        str(ANNS)[:-8],
    ],
    ids=["none", "text", "short", "kind", "costly", "no cost", "negative", "cut"],
)
def test_what_is_no_hash_is_refused_and_not_quoted(text: str) -> None:
    with pytest.raises(InvalidHash) as refused:
        PasswordHash.parse(text)
    assert not text or text not in str(refused.value)


def test_a_token_is_known_by_its_hash() -> None:
    token = new_token()
    known = TokenHash.parse(str(TokenHash.of(token)))
    assert known.matches(token)
    assert not known.matches(new_token())
    for text in (token, f"sha256:{token}", "sha256:00"):
        with pytest.raises(InvalidHash):
            TokenHash.parse(text)


async def test_a_password_is_checked_once_and_then_known_for_a_minute() -> None:
    """A check takes 0.1 s, and a page makes several requests."""
    clock = Clock()
    passwords = Passwords(clock)
    assert await passwords.matches("ann", "correct horse", ANNS, HERE)
    for _ in range(PER_ADDRESS):
        assert not await passwords.matches("eve", "guess", None, HERE)
    assert await passwords.matches("ann", "correct horse", ANNS, HERE), "she is signed in already"
    clock.time += WINDOW - 1
    with pytest.raises(TooManyTries):
        await passwords.matches("ann", "correct horse", PasswordHash.of("changed"), HERE)


async def test_a_user_who_goes_on_working_stays_signed_in_while_others_guess() -> None:
    clock = Clock()
    passwords, quick = Passwords(clock), PasswordHash.of("correct horse", cost=2)
    assert await passwords.matches("ann", "correct horse", quick, HERE)
    clock.time += WINDOW - 10
    assert await passwords.matches("ann", "correct horse", quick, HERE)
    clock.time += 20
    for number in range(PER_USER):
        assert not await passwords.matches("ann", f"{number}", quick, f"198.51.100.{number}")
    assert await passwords.matches("ann", "correct horse", quick, HERE)


async def test_wrong_passwords_are_limited_by_address_and_by_user() -> None:
    clock = Clock()
    passwords, quick = Passwords(clock), PasswordHash.of("correct horse", cost=2)
    for number in range(PER_USER):
        address = f"192.0.2.{number}"
        assert not await passwords.matches("ann", f"guess {number}", quick, address)
    with pytest.raises(TooManyTries) as refused:
        await passwords.matches("ann", "correct horse", quick, "192.0.2.200")
    assert refused.value.headers == {"retry-after": str(round(WINDOW))}
    clock.time += WINDOW
    assert await passwords.matches("ann", "correct horse", quick, "192.0.2.200")


FILE = f"""
# People
user ann  operator,secrets  {ANNS}
user bob  viewer
token ci  create  {TokenHash.of("t0ken")}
group oncall operator
everyone viewer
"""


def test_the_users_file_says_who_has_which_role() -> None:
    users = parse_users(FILE)
    assert users.passwords.keys() == {"ann"}
    ann, machine = users.person("ann"), users.machine("t0ken")
    assert ann is not None
    assert ann.roles == {VIEWER, OPERATOR, Role.SECRETS}
    assert machine is not None
    assert machine.name == "ci"
    assert machine.roles == {VIEWER, Role.CREATOR}
    assert users.machine("other") is None
    stranger, member = users.person("eve"), users.person("eve", ["sales", "oncall"])
    assert stranger is not None
    assert stranger.roles == {VIEWER}
    assert member is not None
    assert member.roles == {VIEWER, OPERATOR}
    assert parse_users("user ann operator").person("eve") is None


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("ann hunter2", "use `user NAME ROLES"),
        ("user ann admin", "'admin' are not roles; they are viewer, operator, secrets, create"),
        ("user ann viewer hunter2", "the hash of a password has six fields"),
        ("token ci viewer hunter2", "the hash of a token is sha256:"),
        ("user ann viewer\nuser ann operator", "line 2: ann has two lines"),
    ],
)
def test_a_wrong_line_is_named_and_no_secret_is_quoted(line: str, why: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_users(line)
    assert why in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_a_change_of_the_file_counts_at_once_and_a_mistake_in_it_does_not(tmp_path: Path) -> None:
    file = tmp_path / "users"
    with pytest.raises(ConfigError, match="cannot be read"):
        UsersFile(file)
    file.write_text("user ann operator\n")
    users = UsersFile(file)
    assert users.current().person("ann")
    file.write_text("user bob operator,secrets\n")
    assert users.current().person("ann") is None
    file.write_text("user ann oprator\n")
    assert users.current().person("bob"), "the last good file counts"
    os.unlink(file)
    assert users.current().person("bob")


def test_headers_of_a_proxy_count_only_from_its_networks() -> None:
    proxies = TrustedProxies.parse(["10.0.0.0/8", "::1"])
    assert proxies.trusts("10.1.2.3")
    assert proxies.trusts("::ffff:10.1.2.3")
    assert not proxies.trusts("192.0.2.1")
    assert not proxies.trusts("")
    assert proxies.client("192.0.2.1", "203.0.113.9") == "192.0.2.1"
    assert proxies.client("10.0.0.1", "203.0.113.9, 198.51.100.7") == "198.51.100.7"
    assert proxies.client("10.0.0.1", "203.0.113.9, 10.0.0.2") == "203.0.113.9"
    assert proxies.client("10.0.0.1", "") == "10.0.0.1"
    with pytest.raises(ConfigError, match="--trusted-proxy"):
        TrustedProxies.parse(["proxy.example"])


def test_an_ipv6_client_is_one_client_with_all_its_addresses() -> None:
    assert throttle_name("2001:db8::1") == throttle_name("2001:db8::ffff:1")
    assert throttle_name("2001:db8::1") != throttle_name("2001:db8:0:1::1")
    assert throttle_name(HERE) == HERE


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "::1", "localhost"])
def test_without_signing_in_only_this_machine_is_served(host: str) -> None:
    assert is_loopback(host)
    ConsoleConfig(host=host).check()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "jobs.example", ""])  # noqa: S104
def test_an_address_that_others_reach_needs_a_decision(host: str) -> None:
    with pytest.raises(ConfigError, match="add --auth"):
        ConsoleConfig(host=host).check()
    ConsoleConfig(host=host, sign_in=SignInSettings(is_open=True)).check()


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        (SignInSettings(kinds=(SignInKind.BASIC,)), "--auth needs --users"),
        (SignInSettings(kinds=(SignInKind.PROXY,), users=Path("users")), "--trusted-proxy"),
        (SignInSettings(kinds=(SignInKind.BASIC,), users=Path("u"), is_open=True), "exclude"),
    ],
)
def test_settings_with_which_no_one_or_everyone_could_sign_in_are_refused(
    settings: SignInSettings, why: str
) -> None:
    for host in ("127.0.0.1", "192.0.2.1"):
        with pytest.raises(ConfigError, match=why):
            ConsoleConfig(host=host, sign_in=settings).check()


def test_the_names_of_a_console_are_those_it_was_given() -> None:
    config = ConsoleConfig(host="192.0.2.1", allowed_hosts=("Jobs.example",))
    assert {"192.0.2.1", "jobs.example", "localhost"} <= config.host_names
    assert "0.0.0.0" not in ConsoleConfig(host="0.0.0.0").host_names  # noqa: S104
