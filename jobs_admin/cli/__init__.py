"""The command `trellis-jobs`."""

from __future__ import annotations

from jobs_admin.cli.app import main

__all__ = ["main"]
