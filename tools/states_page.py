"""Writes docs/explain/states.md from the rules: `python -m tools.states_page`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from trellis_jobs.model.events import EventKind
from trellis_jobs.model.reducer import RULES, Rule, always, is_owner, is_owner_or_no_attempt
from trellis_jobs.model.states import LIVE, JobState

PAGE: Final = Path(__file__).parents[1] / "docs" / "explain" / "states.md"

_PAGE: Final = """\
# The states of a job

<!-- Generated from trellis_jobs/model/reducer.py by tools/states_page.py. -->

After reading this page you know the states of a job and the events between them. The legal events
of a job's history determine its state. An event that is not legal in the job's current state is
counted and shown with its reason, and changes nothing.

```mermaid
stateDiagram-v2
{arrows}
```

| event | legal from | leads to | written by |
|---|---|---|---|
{rows}

- Live states: {live}. Every other state is an end that no worker leaves; an operator
  leaves {retriable} with `retried`, and {dismissible} with `dismissed`.
- `started` is legal from `active` too when it names no attempt: a foreign runtime starts
  a redelivered job without writing an event in between.
- `retried` may be the first event of a history, because retention may have purged earlier runs.
- A takeover is a `retry` event that names the lost attempt, followed by `started`.
"""

_WHO: Final = {
    always: "any writer",
    is_owner: "the attempt that owns the job",
    is_owner_or_no_attempt: "the attempt that owns the job, or a writer that names no attempt",
}


def page() -> str:
    return _PAGE.format(
        arrows="\n".join(arrow for kind in EventKind for arrow in _arrows(kind, RULES[kind])),
        rows="\n".join(_row(kind, RULES[kind]) for kind in EventKind),
        live=_named(LIVE),
        retriable=_named(RULES[EventKind.RETRIED].legal_from - {None}),
        dismissible=_named(RULES[EventKind.DISMISSED].legal_from),
    )


def _arrows(kind: EventKind, rule: Rule) -> Iterator[str]:
    if rule.leads_to is None:
        return
    for origin in _in_order(rule.legal_from):
        yield f"    {origin or '[*]'} --> {rule.leads_to}: {kind}"


def _row(kind: EventKind, rule: Rule) -> str:
    everywhere = rule.legal_from == frozenset(JobState)
    origin = "any state" if everywhere else _named(rule.legal_from)
    goal = f"`{rule.leads_to}`" if rule.leads_to else "the same state"
    return f"| `{kind}` | {origin} | {goal} | {_WHO[rule.owner_check]} |"


def _named(states: frozenset[JobState | None] | frozenset[JobState]) -> str:
    return ", ".join(f"`{state}`" if state else "nothing" for state in _in_order(states))


def _in_order(
    states: frozenset[JobState | None] | frozenset[JobState],
) -> list[JobState | None]:
    return [state for state in (None, *JobState) if state in states]


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")
