"""Payload arguments of the command line: JSON, a file, or stdin."""

from __future__ import annotations

import sys
from pathlib import Path

import orjson
import typer

from trellis_jobs.model.json_values import Json


def read_payload(text: str) -> Json:
    try:
        if text == "-":
            text = sys.stdin.read()
        elif text.startswith("@"):
            text = Path(text[1:]).read_text(encoding="utf-8")
        read: Json = orjson.loads(text)
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"cannot read the payload: {error}", param_hint="JSON") from None
    except orjson.JSONDecodeError as error:
        raise typer.BadParameter(
            f"{error} (a JSON string needs double quotes: '\"…\"')", param_hint="JSON"
        ) from None
    return read
