"""Which jobs a bulk change applies to: jobs given by id, or jobs that match a filter."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Final

import typer

from jobs_admin.api.job_filter import JobFilter
from jobs_admin.cli.bulk.verbs import Verb
from jobs_admin.cli.exit_codes import UsageError
from jobs_admin.cli.filters import PANEL, Filters, States
from jobs_admin.cli.job_names import parse_job
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.states import JobState

STDIN: Final = "-"


@dataclass(frozen=True, slots=True)
class Named:
    jobs: tuple[str | JobAddress, ...]


@dataclass(frozen=True, slots=True)
class Matching:
    """`query` always restricts the states; `has_states` is true if the command line did."""

    query: JobFilter
    has_states: bool = False

    @property
    def preview(self) -> JobFilter:
        """If the command line names no state, the preview also counts jobs in other states."""
        return self.query if self.has_states else self.query.model_copy(update={"state": None})


Targets = Named | Matching


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSelection(Filters):
    """Options that select jobs: ids, filters, or everything."""

    ids: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ID",
            help="Job ids, or SERVICE/TYPE/ID; - reads them from stdin, one per line. Not together "
            "with filters.",
            show_default=False,
        ),
    ] = None
    everything: Annotated[
        bool,
        typer.Option(
            "--everything",
            help="Select every job that is in a suitable state.",
            rich_help_panel=PANEL,
        ),
    ] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSelectionByState(JobSelection):
    state: States = None


def resolve_targets(selection: JobSelection, verb: Verb, stdin: Iterable[str]) -> Targets:
    """Raises UsageError, with the remedy, if the selection is empty or contradictory."""
    states = selection.state if isinstance(selection, JobSelectionByState) else None
    has_filters = selection.has_filters or bool(states)
    if selection.ids:
        if has_filters or selection.everything:
            raise UsageError(
                f"{verb.name} takes either ids or filters: remove the ids, or the options"
            )
        return Named(tuple(dict.fromkeys(_parse_ids(selection.ids, stdin))))
    if selection.everything and has_filters:
        raise UsageError("--everything selects every job: remove it, or remove the filters")
    if not (selection.everything or has_filters):
        raise UsageError(
            f"no jobs selected: give the ids of the jobs to {verb.imperative} (- reads them from "
            "stdin), or a filter such as --service or --error; --everything selects every job that "
            f"is {_or(verb.states)}"
        )
    return Matching(selection.query(_legal(states, verb)), has_states=bool(states))


def _legal(states: list[JobState] | None, verb: Verb) -> list[JobState]:
    """The states to filter by; the admin runtime would refuse jobs in any other state."""
    for state in states or ():
        if state not in verb.states:
            raise UsageError(
                f"--state {state.value}: only jobs that are {_or(verb.states)} can be {verb.past}"
            )
    return states or verb.states


def _parse_ids(ids: list[str], stdin: Iterable[str]) -> Iterator[str | JobAddress]:
    for text in ids:
        if text == STDIN:
            yield from (parse_job(line.strip()) for line in stdin if line.strip())
        else:
            yield parse_job(text)


def _or(states: list[JobState]) -> str:
    return " or ".join(state.value for state in states)
