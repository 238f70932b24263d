"""The order in which every change of many jobs goes: choose, look, ask, do, tell."""

from __future__ import annotations

import signal
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

import typer

from jobs_admin.cli.actor import By, Reason, person
from jobs_admin.cli.bulk.operation import Wanted, carry_out, how_to_go_on, to_json
from jobs_admin.cli.bulk.operation import summary as operation_summary
from jobs_admin.cli.bulk.preview import Look, look
from jobs_admin.cli.bulk.result import Tally
from jobs_admin.cli.bulk.runner import Sweep
from jobs_admin.cli.bulk.targets import Choice, Matching, Named, Targets, choose
from jobs_admin.cli.bulk.verbs import Verb
from jobs_admin.cli.bulk.words import left, preview, print_to, summary
from jobs_admin.cli.confirm import PANEL, Yes, ask, check_askable
from jobs_admin.cli.connection import AdminConnectionOptions
from jobs_admin.cli.exit_codes import Exit
from jobs_admin.cli.render.counts import how_many
from jobs_admin.cli.render.output import (
    Output,
    console,
    print_json,
    print_text,
    progress_bar,
    say,
    stderr_console,
)
from jobs_admin.cli.run import outcome_of
from jobs_admin.operations.pace import Pace
from trellis_jobs.worker.signals import handle_signals


@dataclass(frozen=True, slots=True, kw_only=True)
class Changing:
    """Options of every command that changes many jobs."""

    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Only show how many and which.", rich_help_panel=PANEL),
    ] = False
    yes: Yes = False
    reason: Reason = None
    by: By = None
    rate: Annotated[
        float | None,
        typer.Option(
            help="At most so many a second.", min=0.001, metavar="N", rich_help_panel=PANEL
        ),
    ] = None


def change(
    verb: Verb, choice: Choice, how: Changing, output: Output, reach: AdminConnectionOptions
) -> None:
    targets = choose(choice, verb, sys.stdin)
    looked = outcome_of(_look(reach, targets, verb))
    check_askable(
        how.yes or how.dry_run or not looked.count, f"{verb.name} {how_many(looked.count)}"
    )
    if how.dry_run:
        _show_dry_run(looked, verb, output)
        return
    if looked.count and not how.yes:
        _ask(looked, verb, output)
    if isinstance(targets, Matching) and looked.count:
        sys.exit(_operate(targets, verb, how, output, reach))
    tally = Tally(verb.name, looked.count, by_name=isinstance(targets, Named))
    if isinstance(targets, Named):
        outcome_of(_do(reach, targets, verb, how, tally))
    _show(tally, verb, output)
    sys.exit(tally.exit)


async def _look(reach: AdminConnectionOptions, targets: Targets, verb: Verb) -> Look:
    async with reach.admin() as admin:
        return await look(admin, targets, verb)


def _operate(
    targets: Matching, verb: Verb, how: Changing, output: Output, reach: AdminConnectionOptions
) -> Exit:
    wanted = Wanted(
        verb=verb, query=targets.query, reason=how.reason, rate=how.rate, by=person(how.by)
    )
    followed = carry_out(reach, wanted)
    if output.json:
        print_json(to_json(followed, verb))
    else:
        print_to(console(), operation_summary(followed.operation, verb))
    rest = how_to_go_on(followed)
    if rest is not None:
        say(rest)
    return followed.exit


def _ask(looked: Look, verb: Verb, output: Output) -> None:
    print_to(stderr_console(), preview(looked, verb, output, datetime.now(UTC)))
    ask(f"{verb.name} {how_many(looked.count)}?")


async def _do(
    reach: AdminConnectionOptions, targets: Named, verb: Verb, how: Changing, tally: Tally
) -> None:
    async with reach.admin(by=person(how.by)) as admin:
        with progress_bar(verb.going) as bar:
            sweep = Sweep(
                admin,
                verb,
                how.reason,
                Pace(how.rate),
                tally,
                lambda: bar(tally.gone_through, tally.asked),
            )

            def interrupt() -> None:
                tally.stopped = "interrupted"
                sweep.stop.set()

            with handle_signals({signal.SIGINT: interrupt, signal.SIGTERM: interrupt}):
                await sweep.run(targets)


def _show_dry_run(looked: Look, verb: Verb, output: Output) -> None:
    if output.json:
        print_json(looked.to_json(verb))
        return
    print_to(console(), preview(looked, verb, output, datetime.now(UTC)))
    print_text(f"{verb.name} would touch {how_many(looked.count)}; nothing was changed")


def _show(tally: Tally, verb: Verb, output: Output) -> None:
    if output.json:
        print_json(tally.to_json())
    elif tally.asked:
        print_to(console(), summary(tally, verb))
    else:
        print_text("no job matches: nothing to do")
    rest = left(tally)
    if rest is not None:
        say(rest)
