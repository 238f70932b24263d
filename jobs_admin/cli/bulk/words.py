"""What a change would do, and what it did, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import Final

from rich.console import Console, RenderableType

from jobs_admin.cli.bulk.preview import Look
from jobs_admin.cli.bulk.result import NotDone, Tally, Why
from jobs_admin.cli.bulk.verbs import REPLAY, Verb
from jobs_admin.cli.render.counts import how_many
from jobs_admin.cli.render.job_table import job_table
from jobs_admin.cli.render.output import Output
from jobs_admin.cli.render.text import Text
from trellis_jobs.model.states import JobState

_EXAMPLES: Final = 10


def preview(looked: Look, verb: Verb, output: Output, now: datetime) -> Iterator[RenderableType]:
    if looked.jobs:
        yield job_table(looked.jobs, output, now)
    shown = len(looked.jobs) + len(looked.missing)
    if shown < looked.count:
        yield Text(f"… and {looked.count - shown:,} more", "dim")
    for state, jobs in Counter(job.state.value for job in looked.refusing(verb)).items():
        yield Text(f"{how_many(jobs)} of these will refuse, being {state}", "yellow")
    for state, jobs in _by_state(looked).items():
        yield Text(f"{how_many(jobs)} match and are left as they are, being {state}", "dim")
    for each in looked.missing:
        yield Text(each.message, "yellow")


def _by_state(looked: Look) -> Counter[str]:
    found: Counter[str] = Counter()
    for each in looked.others:
        found[each.state.value] += each.jobs
    return found


def summary(tally: Tally, verb: Verb) -> Iterator[RenderableType]:
    """What was done first; then what was not, by reason, with examples."""
    of_all = "" if tally.done == tally.asked else f" of {tally.asked:,}"
    what = how_many(tally.done) if not of_all else f"{tally.done:,}{of_all} jobs"
    yield Text(f"{verb.past} {what}")
    yield from _part("refused", tally.refused)
    if verb is REPLAY and any(each.state == JobState.FAILED for each in tally.refused):
        yield Text(
            "only dead jobs are replayed: `trellis-jobs jobs retry ID` runs failed ones", "dim"
        )
    yield from _part("not found", tally.of(Why.NOT_FOUND))
    unclear = tally.of(Why.UNCLEAR)
    yield from _part("unclear", unclear)
    if unclear:
        yield Text(
            "unclear: no answer came, so these may have been carried out; `trellis-jobs jobs "
            "events ID` tells, before anything is repeated",
            "dim",
        )


def left(tally: Tally) -> str | None:
    """Why not all were gone through, and how to go on."""
    if tally.stopped is None:
        return None
    rest = max(0, tally.asked - tally.gone_through)
    as_before = "it was" if rest == 1 else "they were"
    return f"stopped: {tally.stopped}; {how_many(rest)} left as {as_before}"


def _part(name: str, those: list[NotDone]) -> Iterator[RenderableType]:
    if not those:
        return
    reasons = Counter(each.reason for each in those)
    told = ", ".join(f"{reason} {jobs:,}" for reason, jobs in reasons.most_common())
    yield Text(f"{name} {len(those):,}" + ("" if list(reasons) == [name] else f": {told}"), "red")
    for each in those[:_EXAMPLES]:
        yield Text(f"  {_sentence(each)}")
    if len(those) > _EXAMPLES:
        yield Text(f"  … and {len(those) - _EXAMPLES:,} more; --json tells each", "dim")


def _sentence(each: NotDone) -> str:
    return each.message if each.id in each.message else f"{each.id}: {each.message}"


def print_to(console: Console, told: Iterator[RenderableType]) -> None:
    for each in told:
        console.print(each)
