"""Completions for the words of a job filter."""

from __future__ import annotations

from enum import StrEnum

from jobs_admin.api.views.base import View


class SuggestedField(StrEnum):
    """The fields of a job filter, as its text names them, for which there are suggestions.

    `payload` suggests the paths of fields, and never their values.
    """

    STATE = "state"
    SERVICE = "service"
    TYPE = "type"
    VERSION = "version"
    KEY = "key"
    ERROR = "error"
    PAYLOAD = "payload"


class SuggestionView(View):
    """`value` is what may follow the field's colon. `jobs` is how many jobs have it, if counted."""

    value: str
    jobs: int | None = None


class Suggestions(View):
    """Those of the most jobs first, if jobs are counted, and otherwise in alphabetical order."""

    suggestions: tuple[SuggestionView, ...]
