"""The option `--secret`: values for the secret fields of a payload, which are hidden in it."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Iterable, Sequence
from typing import Annotated

import orjson
import typer

from jobs_admin.cli.exit_codes import UsageError
from jobs_admin.cli.render.escape import harmless
from trellis_jobs.model.json_values import Json
from trellis_jobs.model.redaction import redacted_places, with_value_at

SecretValues = Annotated[
    list[str] | None,
    typer.Option(
        "--secret",
        help="A secret field of the payload: /pin=VALUE for text, /pin:=VALUE for JSON. On a "
        "terminal, those that are not given are asked for. May be repeated.",
        metavar="POINTER=VALUE",
    ),
]


def with_secrets(payload: Json, secrets: Iterable[str], given: Sequence[str] | None) -> Json:
    """The payload with a value for each of its hidden fields. Raises UsageError."""
    places, values = redacted_places(payload, secrets), dict(map(_read, given or ()))
    unknown = [place for place in values if place not in places]
    if unknown:
        known = f"its hidden fields are {', '.join(places)}" if places else "it has none"
        raise UsageError(f"--secret {unknown[0]} is not a hidden field of the payload: {known}")
    missing = [place for place in places if place not in values]
    if missing and not sys.stdin.isatty():
        options = " ".join(f"--secret '{place}=…'" for place in missing)
        raise UsageError(f"the payload has fields whose values are hidden: add {options}")
    for place in missing:
        values[place] = getpass.getpass(harmless(f"Value of {place}: "))
    for place, value in values.items():
        payload = with_value_at(payload, place, value)
    return payload


def _read(given: str) -> tuple[str, Json]:
    """The error does not quote the value, because it is secret."""
    pointer, equals, value = given.partition("=")
    if not equals or not (pointer == "" or pointer.startswith("/") or pointer == ":"):
        raise typer.BadParameter(
            "use POINTER=VALUE, where POINTER begins with /, as in /pin=1234", param_hint="--secret"
        )
    if not pointer.endswith(":"):
        return pointer, value
    try:
        return pointer[:-1], orjson.loads(value)
    except orjson.JSONDecodeError:
        raise typer.BadParameter(
            f"the value of {pointer[:-1]} is not JSON", param_hint="--secret"
        ) from None
