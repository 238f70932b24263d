"""Payloads in which secrets are hidden cannot become jobs: `[secret]` would be the secret."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobs_admin.api.errors import Issue
from trellis_jobs.model.redaction import REDACTED, redacted_places

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trellis_jobs.model.json_values import Json


@dataclass(frozen=True, slots=True)
class HiddenValues:
    """`places` are JSON Pointers to the secrets that are hidden in a payload."""

    places: tuple[str, ...]

    @classmethod
    def of(cls, payload: Json, secrets: Iterable[str]) -> HiddenValues | None:
        """Returns None if no secret is hidden."""
        places = redacted_places(payload, secrets)
        return cls(places) if places else None

    @property
    def problem(self) -> str:
        where = ", ".join(place or "the payload" for place in self.places)
        return f"secrets are hidden ({REDACTED}) and must be entered again: {where}"

    @property
    def issues(self) -> list[Issue]:
        problem = f"the secret is hidden ({REDACTED}): enter it again"
        return [Issue(f"/payload{place}", problem) for place in self.places]
