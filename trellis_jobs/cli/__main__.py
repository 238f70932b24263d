"""`python -m trellis_jobs.cli`: the command, where it is not on PATH."""

from __future__ import annotations

from trellis_jobs.cli.app import main

main()
