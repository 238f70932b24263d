"""A console beside a running admin runtime, and a browser's requests without a browser."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

import httpx

from jobs_admin.console.config import ConsoleConfig
from jobs_admin.console.connections import open_connections
from jobs_admin.console.serving import console_serving
from jobs_admin.console.users import Role
from tests.admin.admin_lab import daemon_at
from trellis_jobs.jetstream.client.connect_options import as_connect_options

SAME_ORIGIN = {"sec-fetch-site": "same-origin"}


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.controls: dict[str, str] = {}

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        name = given.get("name")
        if tag == "input" and name is not None:
            self.controls[name] = given.get("value") or ""


@dataclass(frozen=True)
class Seen:
    """A page as its reader sees it: its text in one line, and the values in its fields."""

    status: int
    html: str
    text: str = ""
    fields: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, reply: httpx.Response) -> Seen:
        page = _Page()
        page.feed(reply.text)
        text = " ".join(" ".join(page.texts).split())
        return cls(reply.status_code, reply.text, text, page.controls)


@dataclass(frozen=True)
class ConsoleLab:
    address: str
    http: httpx.AsyncClient

    async def see(self, path: str) -> Seen:
        return Seen.of(await self.http.get(path))

    async def send(self, path: str, **form: str) -> httpx.Response:
        """Post a form as a page of the console would."""
        return await self.http.post(path, data=form, headers=SAME_ORIGIN)


@asynccontextmanager
async def console_lab(url: str, folder: Path) -> AsyncIterator[ConsoleLab]:
    """With an admin runtime that has its projection in this folder."""
    access = as_connect_options(url)
    async with (
        daemon_at(url, folder / "jobs.sqlite", provision=True),
        open_connections(dict.fromkeys(Role, access)) as connections,
        console_serving(ConsoleConfig(port=0), connections) as address,
        httpx.AsyncClient(base_url=address, trust_env=False) as http,
    ):
        yield ConsoleLab(address, http)
