"""An event's JSON as it may be shown: without the secrets of its payload or its result."""

from __future__ import annotations

from typing import Any, Final

from trellis_jobs.model.redaction import redacted
from trellis_jobs.wire.fields import secret_pointers

_CONTENTS: Final[tuple[str, ...]] = ("payload", "result")


def redact(body: dict[str, Any]) -> dict[str, Any]:
    """Of an event that was read; it says itself which of its places are secret."""
    secrets = secret_pointers(body, "secrets")
    if not secrets:
        return body
    told = {name: redacted(body[name], secrets) for name in _CONTENTS if name in body}
    return {**body, **told}
