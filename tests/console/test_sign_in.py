"""Who may use a console, over HTTP: passwords, tokens, and users that a proxy has signed in."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import httpx
import pytest

from jobs_admin.console.auth.addresses import TrustedProxies
from jobs_admin.console.auth.failed_tries import PER_ADDRESS
from jobs_admin.console.auth.password_hash import PasswordHash, TokenHash
from jobs_admin.console.auth.settings import SignInKind, SignInSettings
from tests.console.installation import ConsoleInstallation, console_at
from tests.console.lab import SAME_ORIGIN
from tests.support.facts import until

pytestmark = pytest.mark.asyncio(loop_scope="session")

PASSWORD, TOKEN = "correct horse", "a-token-of-a-machine"
NEW_JOB = "/queues/shop/work/new"
ANN, BOB = ("ann", PASSWORD), ("bob", PASSWORD)


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("users") / "users"
    file.write_text(
        f"user ann create {PasswordHash.of(PASSWORD, cost=2)}\n"
        f"user bob viewer {PasswordHash.of(PASSWORD, cost=2)}\n"
        f"token ci create {TokenHash.of(TOKEN)}\n"
        "group oncall create\n"
    )
    return file


def settings(users: Path, *kinds: SignInKind, proxies: tuple[str, ...] = ()) -> dict[str, Any]:
    trusted = TrustedProxies.parse(proxies)
    return {"sign_in": SignInSettings(kinds=kinds, users=users, proxies=trusted)}


def client(address: str, **options: Any) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=address, trust_env=False, timeout=20, **options)


async def created_by(shop: ConsoleInstallation, web: httpx.AsyncClient, **request: Any) -> str:
    """Creates a job with the form of the console, and returns who did it by the log."""
    headers = httpx.Headers({**SAME_ORIGIN})
    headers.update(request.pop("headers", {}))
    form = {"payload/text": "by hand", "action": "create", "reason": "a try"}
    reply = await web.post(NEW_JOB, data=form, headers=headers, **request)
    assert reply.status_code == 303, reply.text
    job_id = reply.headers["location"].rpartition("/")[2]

    async def found() -> str | None:
        entries = (await shop.admin.list_events(job_id)).entries
        return (entries[0].event or {}).get("by") if entries else None

    return await until(found, "the log says who created it")


async def test_a_password_is_asked_for_and_its_user_is_the_author_of_changes(
    shop: ConsoleInstallation, users: Path
) -> None:
    async with (
        console_at(shop.url, **settings(users, SignInKind.BASIC)) as address,
        client(address) as web,
    ):
        for path in ("/", "/hints", "/static/console.css", "/nothing"):
            refused = await web.get(path)
            assert refused.status_code == 401, path
            assert refused.headers["www-authenticate"].startswith("Basic ")
            assert "content-security-policy" in refused.headers
        assert (await web.get("/", auth=("ann", "wrong"))).status_code == 401
        assert (await web.get("/", auth=("eve", PASSWORD))).status_code == 401
        assert (await web.get("/", headers={"authorization": "Basic !"})).status_code == 401
        assert "ann" in (await web.get("/", auth=ANN)).text
        assert await created_by(shop, web, auth=ANN) == "ann"


async def test_a_viewer_who_posts_changes_nothing(shop: ConsoleInstallation, users: Path) -> None:
    before = (await shop.admin.list_jobs()).count
    async with (
        console_at(shop.url, **settings(users, SignInKind.BASIC)) as address,
        client(address, auth=BOB, headers=SAME_ORIGIN) as web,
    ):
        form = {"payload/text": "by hand", "action": "create"}
        refused = await web.post(NEW_JOB, data=form)
        assert refused.status_code == 403
        assert "you have not the role create" in refused.text
        for path in shop.change_paths():
            reply = await web.post(path, data={})
            assert reply.status_code not in {303, 500}, f"{path}: {reply.text}"
    assert (await shop.admin.list_jobs()).count == before


async def test_wrong_passwords_are_limited_and_no_secret_is_logged(
    shop: ConsoleInstallation, users: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with (
        console_at(shop.url, **settings(users, SignInKind.BASIC, SignInKind.TOKEN)) as address,
        client(address) as web,
    ):
        assert (await web.get("/", auth=ANN)).status_code == 200
        bearer = {"authorization": "Bearer guessed-token"}
        assert (await web.get("/", headers=bearer)).status_code == 401
        # A password that was typed into the field for the name.
        assert (await web.get("/", auth=("my-secret-word", "x"))).status_code == 401
        for number in range(PER_ADDRESS - 1):
            assert (await web.get("/", auth=("ann", f"guess-{number}"))).status_code == 401
        limited = await web.get("/", auth=("bob", PASSWORD))
        assert limited.status_code == 429
        assert int(limited.headers["retry-after"]) > 0
        assert (await web.get("/", auth=ANN)).status_code == 200, "she is signed in already"
    assert "sign-in to the console refused: ann, from 127.0.0.1" in caplog.text
    for secret in ("guess-", "guessed-token", "my-secret-word", PASSWORD):
        assert secret not in caplog.text


async def test_a_machine_signs_in_with_a_token(shop: ConsoleInstallation, users: Path) -> None:
    bearer = {"authorization": f"Bearer {TOKEN}"}
    async with (
        console_at(shop.url, **settings(users, SignInKind.TOKEN)) as address,
        client(address) as web,
    ):
        refused = await web.get("/")
        assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
        assert (await web.get("/", auth=ANN)).status_code == 401, "passwords are not on"
        assert (await web.get("/", headers=bearer)).status_code == 200
        assert await created_by(shop, web, headers=bearer) == "ci"


async def test_a_proxy_names_the_user_and_groups(shop: ConsoleInstallation, users: Path) -> None:
    signed_in = {b"x-forwarded-user": "zoë".encode(), b"x-forwarded-groups": b"sales, oncall"}
    on = settings(users, SignInKind.PROXY, proxies=("127.0.0.0/8",))
    async with console_at(shop.url, **on) as address, client(address) as web:
        assert (await web.get("/")).status_code == 401
        unknown = await web.get("/", headers={"x-forwarded-user": "eve"})
        assert (unknown.status_code, "has no role" in unknown.text) == (403, True)
        twice = [("x-forwarded-user", "ann"), ("x-forwarded-user", "eve")]
        assert (await web.get("/", headers=twice)).status_code == 403
        assert "zoë" in (await web.get("/", headers=signed_in)).text
        assert await created_by(shop, web, headers=signed_in) == "zoë"


async def test_names_from_elsewhere_than_the_proxy_do_not_count(
    shop: ConsoleInstallation, users: Path
) -> None:
    on = settings(users, SignInKind.PROXY, proxies=("192.0.2.0/24",))
    forged = {"x-forwarded-user": "ann", "x-forwarded-for": "192.0.2.7"}
    async with console_at(shop.url, **on) as address, client(address) as web:
        refused = await web.get("/", headers=forged)
        assert (refused.status_code, "trusted proxy" in refused.text) == (403, True)


async def test_a_forged_address_does_not_escape_the_limit_of_wrong_passwords(
    shop: ConsoleInstallation, users: Path
) -> None:
    """The proxy adds a line of its header after the one that the client sent."""
    on = settings(users, SignInKind.BASIC, proxies=("127.0.0.0/8",))
    async with console_at(shop.url, **on) as address, client(address) as web:
        for number in range(PER_ADDRESS + 1):
            forged = ("x-forwarded-for", f"198.51.100.{number}")
            headers = [forged, ("x-forwarded-for", "203.0.113.9")]
            reply = await web.get("/", auth=("ann", f"guess-{number}"), headers=headers)
        assert reply.status_code == 429


async def test_a_user_who_is_removed_from_the_file_is_out(
    shop: ConsoleInstallation, tmp_path: Path
) -> None:
    file = tmp_path / "users"
    file.write_text(f"user ann viewer {PasswordHash.of(PASSWORD, cost=2)}\n")
    async with (
        console_at(shop.url, **settings(file, SignInKind.BASIC)) as address,
        client(address, auth=ANN) as web,
    ):
        assert (await web.get("/")).status_code == 200
        file.write_text("# no users\n")
        assert (await web.get("/")).status_code == 401
