"""`trellis-jobs jobs explain`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import orjson
from pydantic import JsonValue
from rich.console import Group, RenderableType
from rich.table import Table

from jobs_admin.api.views.jobs import ExplanationView
from jobs_admin.bundle.job_bundle import JobBundle
from jobs_admin.cli.connection import AdminConnectionOptions
from jobs_admin.cli.exit_codes import Missing
from jobs_admin.cli.job_names import OptionalJob
from jobs_admin.cli.job_reader.bundle_reader import BundleOption, load_bundle, named_jobs
from jobs_admin.cli.render.output import Output, console, print_json
from jobs_admin.cli.render.states import state_until
from jobs_admin.cli.render.text import Text
from jobs_admin.cli.run import run
from trellis_jobs.model.identity import JobAddress


def explain_job(
    output: Output,
    options: AdminConnectionOptions,
    job: OptionalJob = None,
    bundle: BundleOption = None,
) -> None:
    """Explain why a job is in its state, and what must happen next.

    With --bundle, this is the explanation of when the job was exported.
    """
    exported = None if bundle is None else load_bundle(bundle)
    [named] = named_jobs([] if job is None else [job], exported)
    if exported is None:
        run(_explain(options, named, output))
    else:
        _show(_exported(exported), output, exported.exported_at)


def _exported(bundle: JobBundle) -> ExplanationView:
    if bundle.explanation is None:
        raise Missing(
            "the bundle has no explanation: no admin runtime answered when the job was exported"
        )
    return bundle.explanation


async def _explain(options: AdminConnectionOptions, job: str | JobAddress, output: Output) -> None:
    async with options.admin() as admin:
        explanation = await admin.explain(job)
    _show(explanation, output, datetime.now(UTC))


def _show(explanation: ExplanationView, output: Output, now: datetime) -> None:
    if output.json:
        print_json(explanation)
        return
    console().print(render_explanation(explanation, output, now))


def render_explanation(explained: ExplanationView, output: Output, now: datetime) -> RenderableType:
    queue = f"  {explained.service}/{explained.type}  "
    state = state_until(explained.state, explained.until or explained.since, output, now)
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in _fields(explained, output, now):
        grid.add_row(name, value)
    heading = Text.assemble((explained.id, "bold"), queue, state)
    return Group(heading, Text(explained.sentence), grid)


def _fields(explained: ExplanationView, output: Output, now: datetime) -> Iterator[tuple[str, str]]:
    yield "next", explained.next
    if explained.because != explained.state.value:
        yield "because", explained.because
    for name in ("since", "until", "deadline"):
        at = getattr(explained, name)
        if at is not None:
            yield name, output.time(at, now)
    for name, value in explained.details.items():
        yield name, _detail(value)


def _detail(value: JsonValue) -> str:
    """List items on separate lines, and fields without the quotes of JSON."""
    match value:
        case str():
            return value
        case {"type": str(kind), "message": str(message), "tries": int(tries)}:
            return f"try {tries}: {kind}: {message}"
        case list():
            return "\n".join(map(_detail, value))
        case dict():
            return ", ".join(f"{name} {_detail(each)}" for name, each in value.items())
        case _:
            return orjson.dumps(value).decode()
