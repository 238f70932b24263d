"""What users may import from `trellis_jobs.testing`."""

from __future__ import annotations

from trellis_jobs import testing


def test_the_public_names_are_these() -> None:
    assert testing.__all__ == [
        "Accounts",
        "Clock",
        "ConnectService",
        "Drained",
        "Enqueued",
        "HandlerRun",
        "NotDrained",
        "RecordedCalls",
        "assert_enqueued",
        "drain",
        "enqueued",
        "inline",
        "refute_enqueued",
        "run_handler",
    ]
    assert all(hasattr(testing, name) for name in testing.__all__)
