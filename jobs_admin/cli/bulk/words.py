"""The preview and the result of a bulk change, as lines of text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import Final

from rich.console import Console, RenderableType

from jobs_admin.cli.bulk.preview import Preview
from jobs_admin.cli.bulk.result import BulkResult, NotDone, NotDoneReason
from jobs_admin.cli.bulk.verbs import REPLAY, Verb
from jobs_admin.cli.render.counts import how_many
from jobs_admin.cli.render.job_table import job_table
from jobs_admin.cli.render.output import Output
from jobs_admin.cli.render.states import state_name
from jobs_admin.cli.render.text import Text
from trellis_jobs.model.states import JobState

_EXAMPLES: Final = 10


def preview_lines(
    preview: Preview, verb: Verb, output: Output, now: datetime
) -> Iterator[RenderableType]:
    if preview.jobs:
        yield job_table(preview.jobs, output, now)
    shown = len(preview.jobs) + len(preview.missing)
    if shown < preview.count:
        yield Text(f"… and {preview.count - shown:,} more", "dim")
    for state, jobs in Counter(state_name(job.state) for job in preview.refusing(verb)).items():
        yield Text(f"{how_many(jobs)} will be refused: {_state_words(state, jobs)}", "yellow")
    for state, jobs in _by_state(preview).items():
        verb_form = "matches but stays" if jobs == 1 else "match but stay"
        yield Text(f"{how_many(jobs)} {verb_form} unchanged: {_state_words(state, jobs)}", "dim")
    for each in preview.missing:
        yield Text(each.message, "yellow")


def _state_words(state: str, jobs: int) -> str:
    return f"{'it is' if jobs == 1 else 'they are'} {state}"


def _by_state(preview: Preview) -> Counter[str]:
    found: Counter[str] = Counter()
    for each in preview.others:
        found[state_name(each.state)] += each.jobs
    return found


def summary_lines(result: BulkResult, verb: Verb) -> Iterator[RenderableType]:
    """What was done, then what was not done, by reason and with examples."""
    if result.done == result.requested:
        yield Text(f"{verb.past} {how_many(result.done)}")
    else:
        yield Text(f"{verb.past} {result.done:,} of {how_many(result.requested)}")
    for reason, jobs in _by_reason(result.refused):
        yield from _group(f"{len(jobs):,} refused: {reason}", jobs)
    if verb is REPLAY and any(each.state == JobState.FAILED for each in result.refused):
        yield Text(
            "dlq replay takes only dead jobs; run failed jobs again with `trellis-jobs jobs retry "
            "ID`",
            "dim",
        )
    yield from _group_if_any("not found", result.with_reason(NotDoneReason.NOT_FOUND))
    unclear = result.with_reason(NotDoneReason.UNCLEAR)
    yield from _group_if_any("unclear", unclear)
    if unclear:
        yield Text(
            "unclear: the admin runtime did not answer, so these may have been changed; check with "
            "`trellis-jobs jobs events ID` before you repeat the command",
            "dim",
        )


def stop_message(result: BulkResult) -> str | None:
    """Why not all jobs were processed. Returns None when they were."""
    if result.stopped is None:
        return None
    rest = max(0, result.requested - result.processed)
    return f"stopped: {result.stopped}; {how_many(rest)} not processed"


def _by_reason(jobs: list[NotDone]) -> list[tuple[str, list[NotDone]]]:
    """Groups with the same reason, the largest first."""
    reasons = Counter(each.words for each in jobs)
    return [
        (reason, [each for each in jobs if each.words == reason])
        for reason, _ in reasons.most_common()
    ]


def _group_if_any(heading: str, jobs: list[NotDone]) -> Iterator[RenderableType]:
    if jobs:
        yield from _group(f"{len(jobs):,} {heading}", jobs)


def _group(heading: str, jobs: list[NotDone]) -> Iterator[RenderableType]:
    yield Text(heading, "red")
    for each in jobs[:_EXAMPLES]:
        yield Text(f"  {_sentence(each)}")
    if len(jobs) > _EXAMPLES:
        yield Text(f"  … and {len(jobs) - _EXAMPLES:,} more; --json lists all", "dim")


def _sentence(each: NotDone) -> str:
    return each.message if each.id in each.message else f"{each.id}: {each.message}"


def print_to(console: Console, lines: Iterator[RenderableType]) -> None:
    for line in lines:
        console.print(line)
