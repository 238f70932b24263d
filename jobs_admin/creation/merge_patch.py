"""Changes of a JSON value by another JSON value, as RFC 7396 defines them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trellis_jobs.model.json_values import Json


def merged(value: Json, changes: Json) -> Json:
    """Objects are merged, null removes a member, and anything else replaces the value."""
    if not isinstance(changes, dict):
        return changes
    before = value if isinstance(value, dict) else {}
    kept = {name: member for name, member in before.items() if name not in changes}
    changed = {
        name: merged(before.get(name), change)
        for name, change in changes.items()
        if change is not None
    }
    return {**kept, **changed}
