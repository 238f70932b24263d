"""`python -m jobs_admin.cli`: the command, where it is not on PATH."""

from __future__ import annotations

from jobs_admin.cli.app import main

main()
