"""The steps of every bulk change: select the jobs, preview, confirm, run, report."""

from __future__ import annotations

import signal
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

import typer

from jobs_admin.cli.actor import By, Reason, actor_name
from jobs_admin.cli.bulk.operation import (
    OperationRequest,
    next_step,
    operation_summary,
    run_operation,
    to_json,
)
from jobs_admin.cli.bulk.preview import Preview, load_preview
from jobs_admin.cli.bulk.result import BulkResult
from jobs_admin.cli.bulk.runner import BulkRunner
from jobs_admin.cli.bulk.targets import JobSelection, Matching, Named, Targets, resolve_targets
from jobs_admin.cli.bulk.verbs import Verb
from jobs_admin.cli.bulk.words import preview_lines, print_to, stop_message, summary_lines
from jobs_admin.cli.confirm import PANEL, Yes, confirm, require_terminal_or_yes
from jobs_admin.cli.connection import AdminConnectionOptions
from jobs_admin.cli.exit_codes import Exit
from jobs_admin.cli.render.counts import how_many
from jobs_admin.cli.render.output import (
    Output,
    console,
    print_json,
    print_stderr,
    print_text,
    progress_bar,
    stderr_console,
)
from jobs_admin.cli.run import run_and_return
from jobs_admin.operations.pace import Pace
from trellis_jobs.worker.signals import handle_signals


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkOptions:
    """Options of every command that changes many jobs."""

    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Show how many and which jobs would change, and change nothing.",
            rich_help_panel=PANEL,
        ),
    ] = False
    yes: Yes = False
    reason: Reason = None
    by: By = None
    rate: Annotated[
        float | None,
        typer.Option(
            help="Maximum number of jobs per second.",
            min=0.001,
            metavar="N",
            rich_help_panel=PANEL,
        ),
    ] = None


def run_bulk(
    verb: Verb,
    selection: JobSelection,
    bulk: BulkOptions,
    output: Output,
    options: AdminConnectionOptions,
) -> None:
    targets = resolve_targets(selection, verb, sys.stdin)
    preview = run_and_return(_load_preview(options, targets, verb))
    require_terminal_or_yes(
        bulk.yes or bulk.dry_run or not preview.count,
        f"{verb.imperative} {how_many(preview.count)}",
    )
    if bulk.dry_run:
        _show_dry_run(preview, verb, output)
        return
    if preview.count and not bulk.yes:
        _ask(preview, verb, output)
    if isinstance(targets, Matching) and preview.count:
        sys.exit(_run_operation(targets, verb, bulk, output, options))
    result = BulkResult(verb.name, preview.count, by_name=isinstance(targets, Named))
    if isinstance(targets, Named):
        run_and_return(_change_each(options, targets, verb, bulk, result))
    _show(result, verb, output)
    sys.exit(result.exit)


async def _load_preview(options: AdminConnectionOptions, targets: Targets, verb: Verb) -> Preview:
    async with options.admin() as admin:
        return await load_preview(admin, targets, verb)


def _run_operation(
    targets: Matching,
    verb: Verb,
    bulk: BulkOptions,
    output: Output,
    options: AdminConnectionOptions,
) -> Exit:
    request = OperationRequest(
        verb=verb, query=targets.query, reason=bulk.reason, rate=bulk.rate, by=actor_name(bulk.by)
    )
    followed = run_operation(options, request)
    if output.json:
        print_json(to_json(followed, verb))
    else:
        print_to(console(), operation_summary(followed.operation))
    message = next_step(followed)
    if message is not None:
        print_stderr(message)
    return followed.exit


def _ask(preview: Preview, verb: Verb, output: Output) -> None:
    print_to(stderr_console(), preview_lines(preview, verb, output, datetime.now(UTC)))
    confirm(f"{verb.imperative.capitalize()} {how_many(preview.count)}?")


async def _change_each(
    options: AdminConnectionOptions,
    targets: Named,
    verb: Verb,
    bulk: BulkOptions,
    result: BulkResult,
) -> None:
    async with options.admin(by=actor_name(bulk.by)) as admin:
        with progress_bar(verb.going) as bar:
            runner = BulkRunner(
                admin,
                verb,
                bulk.reason,
                Pace(bulk.rate),
                result,
                lambda: bar(result.processed, result.requested),
            )

            def interrupt() -> None:
                result.stopped = "interrupted"
                runner.stop.set()

            with handle_signals({signal.SIGINT: interrupt, signal.SIGTERM: interrupt}):
                await runner.run(targets)


def _show_dry_run(preview: Preview, verb: Verb, output: Output) -> None:
    if output.json:
        print_json(preview.to_json(verb))
        return
    print_to(console(), preview_lines(preview, verb, output, datetime.now(UTC)))
    print_text(f"dry run: {verb.name} would affect {how_many(preview.count)}; nothing was changed")


def _show(result: BulkResult, verb: Verb, output: Output) -> None:
    if output.json:
        print_json(result.to_json())
    elif result.requested:
        print_to(console(), summary_lines(result, verb))
    else:
        print_text("no jobs match; nothing was changed")
    message = stop_message(result)
    if message is not None:
        print_stderr(message)
