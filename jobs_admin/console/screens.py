"""The table of screens: the navigation, and the routes of the console. Add a screen here."""

from __future__ import annotations

from typing import Final

from jobs_admin.console.pages import (
    jobs,
    key,
    keys,
    new_job,
    overview,
    queue,
    queues,
    schedule,
    schedules,
    system,
    workers,
)
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
    Screen(
        {"/queues": queues.show, "/queues/{service}/{type}": queue.show},
        {
            "/queues/{service}/{type}/pause": queue.pause,
            "/queues/{service}/{type}/resume": queue.resume,
        },
        title="Queues",
        key="q",
    ),
    Screen(
        {
            "/keys": keys.show,
            "/keys/{service}/{type}": key.show,
            "/keys/{service}/{type}/{key:path}": key.show,
        },
        {"/keys/{service}/{type}/release": key.release},
        title="Keys",
        key="k",
    ),
    Screen(
        {
            "/schedules": schedules.show,
            "/schedules/new": schedule.edit,
            "/schedules/{service}/{type}/{name}": schedule.show,
        },
        {
            "/schedules": schedule.put,
            "/schedules/{service}/{type}/{name}/pause": schedule.pause,
            "/schedules/{service}/{type}/{name}/resume": schedule.resume,
            "/schedules/{service}/{type}/{name}/trigger": schedule.trigger,
            "/schedules/{service}/{type}/{name}/delete": schedule.delete,
        },
        title="Schedules",
        key="s",
    ),
    Screen(
        {"/workers": workers.show}, {"/workers/direct": workers.direct}, title="Workers", key="w"
    ),
    Screen({"/system": system.show}, title="System", key="y"),
)
