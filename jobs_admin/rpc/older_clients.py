"""Shows delayed jobs as pending to clients that do not know the state `scheduled` (design D27).

Older clients, and those of the original runtimes, check the state of a job against the states that
they know, and would refuse a whole page for one delayed job. A client that knows more states names
them in the header `known-states`, or asks for jobs in them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from trellis_jobs.model.states import JobState

if TYPE_CHECKING:
    from collections.abc import Mapping

# The projection writes the state before anything that a service chooses.
_STATE: Final = b'"state":"'
_DELAYED: Final = f'{JobState.SCHEDULED.value}"'.encode()
_PENDING: Final = f'{JobState.PENDING.value}"'.encode()


def knows_delayed_jobs(known_states: str) -> bool:
    """`known_states` is the value of the header, or empty."""
    return JobState.SCHEDULED.value in (name.strip() for name in known_states.split(","))


def document_for_older_client(document: bytes) -> bytes:
    """A job's JSON as the projection stores it."""
    begin = document.find(_STATE) + len(_STATE)
    if not document.startswith(_DELAYED, begin):
        return document
    return document[:begin] + _PENDING + document[begin + len(_DELAYED) :]


def fields_for_older_client(fields: Mapping[str, Any]) -> dict[str, Any]:
    is_delayed = fields.get("state") == JobState.SCHEDULED
    return {**fields, "state": JobState.PENDING} if is_delayed else dict(fields)
