"""`trellis-jobs worker`: run the handlers of a service until it is stopped."""

from __future__ import annotations

from jobs_admin.cli.worker.run import worker

__all__ = ["worker"]
