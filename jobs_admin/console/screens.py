"""The table of screens: the navigation, and the routes of the console. Add a screen here."""

from __future__ import annotations

from typing import Final

from jobs_admin.console.pages import jobs, new_job, overview
from jobs_admin.console.screen import Screen

SCREENS: Final = (
    Screen({"/": overview.show}, title="Overview", key="o"),
    Screen({"/jobs": jobs.show}, title="Jobs", key="j"),
    Screen(
        {"/new": new_job.choose, "/queues/{service}/{type}/new": new_job.show},
        {"/queues/{service}/{type}/new": new_job.submit},
        title="New job",
        key="n",
    ),
)
