"""Decode the state of a job."""

from __future__ import annotations

from typing import Any, Final

from trellis_jobs.model.states import JobState
from trellis_jobs.wire.fields import BadField, required

_STATES: Final = {state.value: state for state in JobState}


def from_json(body: dict[str, Any]) -> JobState:
    state = required(body, "state", str)
    if state not in _STATES:
        raise BadField(f"state {state!r:.80} is not known")
    return _STATES[state]
