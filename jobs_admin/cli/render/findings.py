"""How urgent a finding is, as a coloured word."""

from __future__ import annotations

from typing import Final

from jobs_admin.api.views.doctor import Level
from jobs_admin.cli.render.text import Text

LABELS: Final = {
    Level.FINE: Text("ok", "green"),
    Level.NOTE: Text("note", "cyan"),
    Level.WARNING: Text("warn", "yellow"),
    Level.BROKEN: Text("broken", "bold red"),
}
