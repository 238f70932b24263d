"""Styled text that is escaped when it is created, so that its width is right."""

from __future__ import annotations

from typing import Any

from rich import text as rich_text

from jobs_admin.cli.render.escape import harmless


class Text(rich_text.Text):
    """Used instead of rich's Text, which removes some control characters and keeps others."""

    def __init__(self, text: str = "", *args: Any, **kwargs: Any) -> None:
        super().__init__(harmless(text), *args, **kwargs)

    def append(self, text: rich_text.Text | str, style: Any = None) -> Text:
        super().append(harmless(text) if isinstance(text, str) else text, style)
        return self

    @classmethod
    def assemble(cls, *parts: str | rich_text.Text | tuple[str, Any], **kwargs: Any) -> Text:
        made = cls(**kwargs)
        for part in parts:
            made.append(*part) if isinstance(part, tuple) else made.append(part)
        return made
