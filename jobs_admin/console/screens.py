"""The table of screens: the navigation, and the routes of the console. Add a screen here."""

from __future__ import annotations

from typing import Final

from jobs_admin.console.pages import diff, job, job_files, jobs, overview
from jobs_admin.console.screen import Screen

SCREENS: Final = (
    Screen({"/": overview.show}, title="Overview", key="o"),
    Screen({"/jobs": jobs.show}, title="Jobs", key="j"),
    Screen(
        {
            "/jobs/{service}/{type}/{id}": job.show,
            "/jobs/{service}/{type}/{id}/raw/{what}": job_files.raw,
            "/jobs/{service}/{type}/{id}/bundle": job_files.bundle,
        },
        {"/jobs/{service}/{type}/{id}": job.change},
    ),
    Screen({"/diff": diff.show}),
)
