"""An attempt: one execution of a job by one worker, started from one delivery."""

from __future__ import annotations

from trellis_jobs.model.values import Value


class Attempt(Value, frozen=True):
    """`work` identifies a message of the work queue by its stream sequence and stored time.

    The sequence alone is not unique, because sequences start again when a stream is recreated.
    """

    id: str
    instance: str
    work: str
    delivery: int


def work_identity(sequence: int, stored_ns: int) -> str:
    return f"{sequence}@{stored_ns}"
