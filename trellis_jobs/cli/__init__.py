"""The command `trellis-jobs`."""

from __future__ import annotations

from trellis_jobs.cli.app import main

__all__ = ["main"]
