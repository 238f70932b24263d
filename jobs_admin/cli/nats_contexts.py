"""The contexts of natscli: named connection settings in the user's configuration folder.

~/.config/nats/context/<name>.json     one file for each context
~/.config/nats/context.txt             the name of the selected context
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import orjson

from trellis_jobs.errors import JobsError
from trellis_jobs.jetstream.client.connect_options import API_PREFIX, ConnectOptions, TlsFiles

# Ignoring one of these would connect in another way than the context says.
_UNSUPPORTED: Final = ("nsc", "socks_proxy", "user_jwt")


class ContextUnusable(JobsError):
    """The context does not exist or cannot be used; the message says why."""


def selected() -> str | None:
    try:
        return (_folder() / "context.txt").read_text(encoding="utf-8").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def names() -> list[str]:
    return sorted(file.stem for file in (_folder() / "context").glob("*.json"))


def load_context(name: str) -> ConnectOptions:
    file = _folder() / "context" / f"{name}.json"
    settings = _settings(name, file)
    for setting in _UNSUPPORTED:
        if settings.get(setting):
            raise ContextUnusable(
                f"context {name!r} ({file}) uses {setting!r}, which is not supported"
            )

    def text(setting: str) -> str | None:
        value = settings.get(setting) or None
        if value is not None and not isinstance(value, str):
            raise ContextUnusable(f"context {name!r} ({file}): {setting} is not a string")
        return value

    def path(setting: str) -> str | None:
        value = text(setting)
        try:
            return None if value is None else str(Path(value).expanduser())
        except RuntimeError as error:  # `~user` of an unknown user
            raise ContextUnusable(
                f"context {name!r} ({file}): {setting} {value}: {error}"
            ) from None

    tls = TlsFiles(ca=path("ca"), certificate=path("cert"), key=path("key"))
    return ConnectOptions(
        servers=text("url") or "nats://127.0.0.1:4222",
        credentials=path("creds"),
        nkey=path("nkey"),
        user=text("user"),
        password=text("password"),
        token=text("token"),
        tls=None if tls == TlsFiles() else tls,
        tls_first=settings.get("tls_first") is True,
        inbox_prefix=text("inbox_prefix"),
        api_prefix=_api_prefix(text("jetstream_domain"), text("jetstream_api_prefix")),
    )


def _api_prefix(domain: str | None, prefix: str | None) -> str:
    """The domain takes precedence, as in natscli."""
    return f"$JS.{domain}.API" if domain else prefix or API_PREFIX


def _settings(name: str, file: Path) -> dict[str, Any]:
    try:
        settings = orjson.loads(file.read_bytes())
    except FileNotFoundError:
        known = ", ".join(names()) or "none"
        raise ContextUnusable(f"there is no NATS context {name!r}; known: {known}") from None
    except (OSError, orjson.JSONDecodeError) as error:
        raise ContextUnusable(f"context {name!r} ({file}) cannot be read: {error}") from error
    if not isinstance(settings, dict):
        raise ContextUnusable(f"context {name!r} ({file}) is not a JSON object")
    return settings


def _folder() -> Path:
    configured = os.environ.get("XDG_CONFIG_HOME")
    return (Path(configured) if configured else Path.home() / ".config") / "nats"
