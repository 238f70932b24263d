"""One try at a job: who runs it, and which delivery of which work message started it."""

from __future__ import annotations

from trellis_jobs.model.values import Value


class Attempt(Value, frozen=True):
    """`work` names a message of the work queue for good: stream sequence and stored time.

    The sequence alone would not do: sequences start again when the stream is recreated.
    """

    id: str
    instance: str
    work: str
    delivery: int


def work_identity(sequence: int, stored_ns: int) -> str:
    return f"{sequence}@{stored_ns}"
