"""The options `--in` and `--at`: when a job is to run."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

import typer

from jobs_admin.cli.render.times import stamp
from jobs_admin.cli.time_options import duration, moment_ahead


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTimeOptions:
    delay: Annotated[
        str | None,
        typer.Option("--in", help="Run after this time: 90s, 10m, 2h, 3d.", metavar="DURATION"),
    ] = None
    at: Annotated[
        str | None,
        typer.Option(
            "--at",
            help="Run at this time: RFC 3339, or 14:30 for the next time that it is half past two "
            "here. A time without a zone is local.",
            metavar="TIME",
        ),
    ] = None

    def moment(self, now: datetime) -> datetime | None:
        """Returns None if neither is given."""
        if self.delay is not None and self.at is not None:
            raise typer.BadParameter("give either --in or --at, not both", param_hint="--at")
        if self.delay is not None:
            try:
                return now + duration("--in", self.delay)
            except OverflowError:
                raise typer.BadParameter(
                    f"{self.delay!r} is after the year 9999", param_hint="--in"
                ) from None
        if self.at is None:
            return None
        run_at = moment_ahead("--at", self.at, now)
        if run_at < now:
            raise typer.BadParameter(f"{stamp(run_at)} is in the past", param_hint="--at")
        return run_at
