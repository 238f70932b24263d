"""Requests that a page of another site could cause are refused, over HTTP."""

from __future__ import annotations

import re
from typing import Final

import httpx
import pytest

from jobs_admin.console.rendering import FOLDER
from tests.console.installation import ConsoleInstallation

NEW_JOB: Final = "/queues/shop/work/new"
FORM: Final = {"payload/text": "forged", "action": "create"}
shared_loop: Final = pytest.mark.asyncio(loop_scope="session")


@shared_loop
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
        {"sec-fetch-site": "same-origin", "origin": "http://evil.example"},
        {"sec-fetch-site": "same-origin", "origin": "null"},
        {"sec-fetch-site": "same-origin", "origin": "http://127.0.0.1:1"},
        {"sec-fetch-site": "same-origin", "origin": "http://["},
    ],
    ids=lambda headers: " ".join(headers.values()) or "old browser",
)
async def test_a_change_must_come_from_a_page_of_the_console(
    shop: ConsoleInstallation, web: httpx.AsyncClient, headers: dict[str, str]
) -> None:
    before = (await shop.admin.list_jobs()).count
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        refused = await web.request(method, NEW_JOB, data=FORM, headers=headers)
        assert refused.status_code == 403, method
    assert (await shop.admin.list_jobs()).count == before


@shared_loop
@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example", "", "[", "localhost@evil.example", "10.0.0.1"],
)
async def test_a_name_that_is_not_the_consoles_is_refused(
    web: httpx.AsyncClient, host: str
) -> None:
    """Another site's name can be made to lead to a loopback address (DNS rebinding)."""
    refused = await web.get("/jobs", headers={"host": host})
    assert refused.status_code == 421
    assert "order 7" not in refused.text


@shared_loop
async def test_the_names_of_this_machine_are_answered(
    shop: ConsoleInstallation, web: httpx.AsyncClient
) -> None:
    port = shop.address.rpartition(":")[2]
    for host in ("localhost", f"localhost:{port}", f"LOCALHOST:{port}", "127.0.0.1", "[::1]:80"):
        assert (await web.get("/", headers={"host": host})).status_code == 200, host


@shared_loop
async def test_every_reply_forbids_scripts_and_frames_from_elsewhere(
    shop: ConsoleInstallation, web: httpx.AsyncClient
) -> None:
    for path in (*shop.paths(), "/static/console.js", "/static/nothing", "/nothing"):
        reply = await web.get(path)
        policy = reply.headers["content-security-policy"]
        assert "unsafe" not in policy
        assert {"default-src 'none'", "frame-ancestors 'none'", "form-action 'self'"} <= set(
            policy.split("; ")
        )
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in reply.headers


@shared_loop
async def test_only_files_of_the_console_are_served(web: httpx.AsyncClient) -> None:
    for path in ("/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py", "/static/"):
        assert (await web.get(path)).status_code == 404, path


@shared_loop
async def test_a_failure_names_its_request(web: httpx.AsyncClient) -> None:
    given = await web.get("/nothing", headers={"x-request-id": "from-the-proxy.7"})
    assert given.status_code == 404
    assert given.headers["x-request-id"] == "from-the-proxy.7"
    assert "from-the-proxy.7" in given.text
    odd = await web.get("/nothing", headers={"x-request-id": "<b>1</b>"})
    assert odd.headers["x-request-id"].isalnum()


@shared_loop
async def test_every_reply_has_the_id_of_its_request(web: httpx.AsyncClient) -> None:
    headers = {"x-request-id": "from-the-proxy.8", "sec-fetch-site": "same-origin"}
    changed = await web.post(NEW_JOB, data=FORM, headers=headers)
    assert changed.status_code == 303
    assert changed.headers["x-request-id"] == "from-the-proxy.8"
    for path in ("/jobs.csv", "/jobs/suggest?q=st", "/live/events?after=0", "/hints?topics=all"):
        async with web.stream("GET", path, headers=headers) as reply:
            assert reply.status_code == 200
            assert reply.headers.get_list("x-request-id") == ["from-the-proxy.8"], path


@shared_loop
async def test_no_page_is_larger_than_it_may_be(
    shop: ConsoleInstallation, web: httpx.AsyncClient
) -> None:
    for path in shop.paths():
        reply = await web.get(path, follow_redirects=True)
        assert reply.status_code == 200, f"{path}: {reply.text}"
        assert len(reply.content) <= 100_000, path


FORBIDDEN: Final = {
    "a value that is not escaped": re.compile(r"\|\s*safe\b|autoescape|Markup"),
    "an inline style": re.compile(r"<style|\sstyle\s*=", re.IGNORECASE),
    "an inline handler": re.compile(r"\son[a-z]+\s*=", re.IGNORECASE),
    "an inline script": re.compile(r"<script(?![^>]*\ssrc=)", re.IGNORECASE),
    "something from another host": re.compile(r"(?:src|href|action)\s*=\s*[\"']?(?:https?:)?//"),
    "an attribute without quotes": re.compile(r"\s[\w-]+=\{\{"),
    "a script in an attribute of htmx": re.compile(r"hx-on|hx-vals=[\"']js:|javascript:"),
}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_template_contains(what: str) -> None:
    found = [
        f"{file.name}:{number}: {line.strip()}"
        for file in sorted((FOLDER / "templates").rglob("*.html"))
        for number, line in enumerate(file.read_text().splitlines(), start=1)
        if FORBIDDEN[what].search(line)
    ]
    assert found == []


def test_scripts_make_no_html_from_text() -> None:
    """Except `live.js`, which gets rows as HTML from the console, where all values are escaped."""
    scripts = (FOLDER / "static").rglob("*.js")
    own = [file for file in scripts if file.parent.name != "vendor" and file.name != "live.js"]
    assert own
    for file in own:
        text = file.read_text()
        for name in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
            assert name not in text, f"{file.name} uses {name}"
