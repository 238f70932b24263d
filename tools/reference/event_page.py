"""docs/reference/events.md: every event as it is written, from the vectors and the rules."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any, Final

from trellis_jobs.model import events
from trellis_jobs.model.events import Event, EventKind
from trellis_jobs.model.reducer import RULES

_VECTORS: Final = Path(__file__).parents[2] / "contracts" / "vectors"
_PAGE: Final = """\
# Events

<!-- Generated from contracts/vectors and the rules by tools/reference/event_page.py: make docs -->

On this page you find every event as it is stored. Each change of a job is one message on
`trellis.jobs.<service>.<type>.<id>.<event>`: a JSON object with these fields, and a few headers.
Times are RFC 3339, durations are milliseconds. Unknown fields are kept and ignored. The examples
are the golden files of [contracts/vectors](../../contracts/vectors/README.md), which every version
reads and writes. [States](../explain/states.md) shows which event is legal in which state.

| Field of every event | |
|---|---|
| `jobId`, `service`, `jobType` | the job; must agree with the subject |
| `eventType` | what happened |
| `timestamp` | when, by the writer's clock |
| `state`, `previousState` | the state after this event, and the state before it; for readers |
| `tries`, `maxTries` | tries used up after this event, and how many there are |
| `runSeq` | the log sequence of the event that began this run |
| `deadline`, `nextAttemptAt` | if there are any |
| `snoozes` | how often handlers have snoozed the job in this run; absent if never |
| `timeoutMs`, `visibilityMs` | in `created` and `retried`: the job's own limits of each try |
| `appVersion` | in `started`: the version of the worker's application, if it has one |
| `attempt` | `id`, `instanceId`, `work` (its work message: sequence@stored time), `delivery` |
| `context` | `requestId`, `traceId`, `traceparent`, `tracestate`: its request and its trace |

A snooze is a `retry` that gives its try back: `errorDetail` has the type `snooze`, the handler's
reason, and in `tries` one more than the event has
([example](../../contracts/vectors/retry-snooze.json)). It is not a failure.

Headers: `Trellis-Event-Id` identifies the event, so that a repeated publish is recognised.
`traceparent`, `tracestate` and `request-id` repeat the context.
`Nats-Expected-Last-Subject-Sequence` and `Nats-Expected-Last-Subject-Sequence-Subject`
are [the guard](../explain/the-guard.md).

{events}"""


def page() -> str:
    classes = {each.kind: each for each in _classes()}
    sections = [_section(kind, classes[kind]) for kind in EventKind]
    return _PAGE.format(events="\n\n".join(sections) + "\n")


def _classes() -> list[type[Event]]:
    found = [each for _, each in inspect.getmembers(events, inspect.isclass)]
    return [each for each in found if issubclass(each, Event) and "kind" in vars(each)]


def _section(kind: EventKind, of: type[Event]) -> str:
    rule = RULES[kind]
    legal = ", ".join(sorted(state.value for state in rule.legal_from if state is not None))
    leads = rule.leads_to.value if rule.leads_to else "the same state"
    origin = "begins a job" if not legal else f"legal from {legal}"
    about = _own_doc(of)
    parts = [f"## {kind.value}", f"{about}{origin[0].upper()}{origin[1:]}; leads to {leads}."]
    return "\n\n".join([*parts, f"```json\n{json.dumps(_body(kind), indent=2)}\n```"])


def _own_doc(of: type[Event]) -> str:
    """Returns "" for a class without a docstring: Python gives it its signature instead."""
    said = vars(of).get("__doc__") or ""
    return "" if said.startswith(f"{of.__name__}(") or not said else f"{said.splitlines()[0]} "


def _body(kind: EventKind) -> dict[str, Any]:
    file = _VECTORS / f"{kind.value}.json"
    body: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))["body"]
    return body
