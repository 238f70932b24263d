"""Redact the secrets in the JSON of an event."""

from __future__ import annotations

from typing import Any, Final

from trellis_jobs.model.redaction import redacted
from trellis_jobs.wire.fields import secret_pointers

_CONTENTS: Final[tuple[str, ...]] = ("payload", "result")


def redact(body: dict[str, Any]) -> dict[str, Any]:
    """Redact a decoded event body. The body itself lists its secret fields."""
    secrets = secret_pointers(body, "secrets")
    if not secrets:
        return body
    contents = {name: redacted(body[name], secrets) for name in _CONTENTS if name in body}
    return {**body, **contents}
