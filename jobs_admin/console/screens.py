"""The table of screens: the navigation, and the routes of the console. Add a screen here."""

from __future__ import annotations

from typing import Final

from jobs_admin.console.pages import (
    audit,
    bundles,
    completions,
    dead,
    diff,
    job,
    job_changes,
    job_export,
    job_files,
    jobs,
    key,
    keys,
    live_tail,
    new_job,
    operations,
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
    Screen(
        {
            "/jobs": jobs.show,
            "/jobs/change": job_changes.show,
            "/jobs/suggest": completions.show,
            "/jobs.{format}": job_export.show,
        },
        {"/jobs/change": job_changes.start},
        title="Jobs",
        key="j",
    ),
    Screen({"/dead": dead.show}, {"/dead/one": dead.replay_one}, title="Dead letters", key="d"),
    Screen(
        {"/operations": operations.show, "/operations/{id}": operations.show_one},
        {"/operations/{id}/stop": operations.stop},
        title="Operations",
        key="p",
    ),
    Screen({"/live": live_tail.show, "/live/events": live_tail.events}, title="Live tail", key="l"),
    Screen({"/audit": audit.show}, title="Audit", key="a"),
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

# Of a console that shows bundles instead of an installation.
BUNDLE_SCREENS: Final = (
    Screen({"/": bundles.show}, title="Jobs", key="j"),
    Screen({"/diff": diff.show}, title="Compare", key="c"),
    Screen(
        {
            "/jobs/{service}/{type}/{id}": job.show,
            "/jobs/{service}/{type}/{id}/raw/{what}": job_files.raw,
        }
    ),
)
