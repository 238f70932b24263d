"""Everything the admin runtime raises on purpose.

AdminError
└── ProjectionOutdated      the projection's file has another schema: rebuild it
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class AdminError(Exception):
    """Base of every error raised on purpose."""


class ProjectionOutdated(AdminError):
    def __init__(self, path: Path, found: str | None, expected: int) -> None:
        super().__init__(
            f"{path} has schema {found or 'unknown'}, this version needs {expected}: "
            "run `trellis-jobs projection rebuild`, or start the admin runtime, which does it"
        )
        self.path = path
