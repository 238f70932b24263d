"""Which jobs a change is meant for: those named, or those that match; never both, never neither."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Final

import typer

from jobs_admin.api.client import JobQuery
from jobs_admin.cli.bulk.verbs import Verb
from jobs_admin.cli.exit_codes import Misused
from jobs_admin.cli.filters import PANEL, Filters, States
from jobs_admin.cli.job_names import named
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.states import JobState

STDIN: Final = "-"


@dataclass(frozen=True, slots=True)
class Named:
    jobs: tuple[str | JobAddress, ...]


@dataclass(frozen=True, slots=True)
class Matching:
    """`query` names the states that are meant; `has_states`: so did the command line."""

    query: JobQuery
    has_states: bool = False

    @property
    def preview(self) -> JobQuery:
        """Where no state was named, a preview tells of jobs in other states too."""
        return self.query if self.has_states else self.query.model_copy(update={"state": None})


Targets = Named | Matching


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice(Filters):
    """Options that say which jobs: ids, or filters, or everything."""

    ids: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ID",
            help="Ids, or SERVICE/TYPE/ID; - reads them from stdin, one a line. None with filters.",
            show_default=False,
        ),
    ] = None
    everything: Annotated[
        bool,
        typer.Option(
            "--everything",
            help="Every job there is that this can be done to.",
            rich_help_panel=PANEL,
        ),
    ] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceOfStates(Choice):
    state: States = None


def choose(choice: Choice, verb: Verb, stdin: Iterable[str]) -> Targets:
    """Raises Misused, with what to say instead, where that is not clear."""
    states = choice.state if isinstance(choice, ChoiceOfStates) else None
    narrows = choice.is_narrow or bool(states)
    if choice.ids:
        if narrows or choice.everything:
            raise Misused(
                f"{verb.name} either the jobs whose ids are given or those that match a filter: "
                "leave out the ids, or the options"
            )
        return Named(tuple(dict.fromkeys(_named(choice.ids, stdin))))
    if choice.everything and narrows:
        raise Misused("--everything means every job: leave it out, or the filters")
    if not (choice.everything or narrows):
        raise Misused(
            f"say which jobs to {verb.name}: their ids (- reads them from stdin), or a filter such "
            f"as --service or --error; --everything means every job that is {_or(verb.states)}"
        )
    return Matching(choice.query(_legal(states, verb)), has_states=bool(states))


def _legal(states: list[JobState] | None, verb: Verb) -> list[JobState]:
    """A job in another state would only refuse, so it is not meant."""
    for state in states or ():
        if state not in verb.legal_from:
            raise Misused(
                f"--state: a job that is {state.value} cannot be {verb.past}, only one that is "
                f"{_or(verb.states)}"
            )
    return states or verb.states


def _named(ids: list[str], stdin: Iterable[str]) -> Iterator[str | JobAddress]:
    for text in ids:
        if text == STDIN:
            yield from (named(line.strip()) for line in stdin if line.strip())
        else:
            yield named(text)


def _or(states: list[JobState]) -> str:
    return " or ".join(state.value for state in states)
