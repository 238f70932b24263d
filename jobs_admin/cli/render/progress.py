"""The progress of a job, as a bar and as text."""

from __future__ import annotations

from typing import Final

from jobs_admin.cli.render.text import Text
from jobs_admin.explain.event_words import progress_words
from trellis_jobs.model.notes import Progress

_WIDTH: Final = 24


def progress_text(progress: Progress, *, bar: bool = True) -> Text:
    """The bar is drawn only on a terminal, and only if the total is known."""
    words = Text(progress_words(progress))
    if not bar or not progress.total:
        return words
    done = round(_WIDTH * min(1.0, max(0.0, (progress.current or 0) / progress.total)))
    style = "green" if done == _WIDTH else "cyan"
    return Text.assemble(("━" * done, style), ("━" * (_WIDTH - done), "bright_black"), " ", words)
