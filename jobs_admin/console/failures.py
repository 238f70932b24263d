"""What the console answers when a request cannot be carried out: what happened, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from jobs_admin.api.errors import Busy, Denied, Invalid, NotFound
from jobs_admin.console.connections import RoleMissing
from jobs_admin.console.console_request import FormTooLarge
from jobs_admin.console.form_values import FormInvalid
from trellis_jobs.errors import JobsError, NoAnswer, NotPermitted, ServiceMissing


@dataclass(frozen=True, slots=True)
class Failure:
    status: int
    title: str
    message: str
    remedy: str


_DENIED: Final = "Nothing was changed: the NATS server refused it. See docs/operate/permissions.md."
# The first line that fits an error counts.
_ANSWERS: Final[tuple[tuple[type[Exception], int, str, str], ...]] = (
    (
        NotFound,
        404,
        "Not found",
        "It may have been removed after its retention time, or the link is incomplete.",
    ),
    (Invalid, 409, "Not possible", "Go back, change what is named above, and try again."),
    (FormInvalid, 422, "Not possible", "Go back, correct the form, and send it again."),
    (RoleMissing, 403, "Not permitted", "Nothing was changed."),
    (Denied, 403, "Not permitted", _DENIED),
    (NotPermitted, 403, "Not permitted", _DENIED),
    (Busy, 503, "Busy", "Nothing was done. Try again in a moment."),
    (
        ServiceMissing,
        503,
        "No admin runtime answers",
        "Jobs go on running. Start one: trellis-jobs admin serve",
    ),
    (
        NoAnswer,
        504,
        "No reply in time",
        "Narrow the filter, or look at the log of the admin runtime.",
    ),
    (FormTooLarge, 413, "Too large", "Send less, or use the command line."),
    (JobsError, 502, "The request failed", "The log of the admin runtime has the details."),
)


def failure_of(error: Exception) -> Failure | None:
    """Returns None for an error that the console did not expect."""
    for kind, status, title, remedy in _ANSWERS:
        if isinstance(error, kind):
            return Failure(status, title, str(error), remedy)
    return None
