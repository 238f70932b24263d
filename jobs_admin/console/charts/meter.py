"""A bar that is partly full: used slots, or the rest of a lease."""

from __future__ import annotations

from typing import Final

from markupsafe import Markup

WIDTH: Final = 60.0


def meter(share: float, label: str, kind: str = "busy") -> Markup:
    """`share` is from 0 to 1. `kind` chooses the colour: busy, good, warn or bad."""
    filled = round(max(0.0, min(1.0, share)) * WIDTH, 1)
    return Markup(
        '<svg class="meter meter-{}" viewBox="0 0 {} 10" preserveAspectRatio="none" role="img" '
        'aria-label="{}"><title>{}</title><rect class="room" width="{}" height="10"/>'
        '<rect class="filled" width="{}" height="10"/></svg>'
    ).format(kind, WIDTH, label, label, WIDTH, filled)
