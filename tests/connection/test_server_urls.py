"""Server URLs: malformed ones are refused with a clear error, and no password is ever shown."""

from __future__ import annotations

import pytest

from trellis_jobs.errors import Unreachable, without_secrets
from trellis_jobs.jetstream.client.connection import Connection


@pytest.mark.parametrize(
    ("servers", "shown"),
    [
        ("nats://h1:4222", "nats://h1:4222"),
        ("nats://a:secret@h1", "nats://h1"),
        ("nats://secret@h1", "nats://h1"),
        ("nats://a:secret@h1,a:secret@h2", "nats://h1,h2"),
        ("nats://h0,nats://a:secret@h1, tls://a:secret@h2", "nats://h0,nats://h1, tls://h2"),
        ("//a:secret@secret@h1", "//h1"),
        ("nats://a:secret/secret@h1", "nats://h1"),
        ("nats://a:secret//secret@h1", "nats://h1"),
        ("a:secret@h1:4222", "h1:4222"),
        ("a:secret//secret@h1", "h1"),
        ("", ""),
    ],
)
def test_an_address_is_shown_without_its_password(servers: str, shown: str) -> None:
    assert without_secrets(servers) == shown


@pytest.mark.parametrize(
    "servers",
    [
        "",
        ",",
        "nats://",
        "nats://:4222",
        "://",
        "nats://host:port",
        "nats://host:99999",
        "nats://[::1",
        "http://127.0.0.1:4222",
        "nats://127.0.0.1:1,",
        "nats://a:secret/secret@127.0.0.1:1",
        "nats://a:secret#@127.0.0.1:1",
    ],
)
async def test_the_error_about_a_malformed_url_shows_a_valid_one(servers: str) -> None:
    with pytest.raises(Unreachable, match="a URL is nats://host:port") as refused:
        await Connection.open(servers, name="test", timeout=1)
    assert "secret" not in str(refused.value)


async def test_urls_that_cannot_be_combined_are_refused_with_the_reason() -> None:
    with pytest.raises(Unreachable, match="mixing"):
        await Connection.open("nats://127.0.0.1:1,ws://127.0.0.1:1", name="test", timeout=1)
