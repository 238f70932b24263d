"""Timeouts and retry delays of requests to JetStream, in seconds."""

from __future__ import annotations

from typing import Final

ACK_TIMEOUT: Final = 5.0
# A stream without a leader looks like a missing one; electing one took up to 8 s (measured).
FAILOVER_TIMEOUT: Final = 10.0
FOREVER: Final = float("inf")
# How many requests may stay without a reply before the caller gets NotConfirmed.
MAX_UNANSWERED: Final = 15
RETRY_DELAYS: Final = (0.005, 0.02, 0.05, 0.1, 0.25)


def retry_delay(retries: int) -> float:
    """Returns the delay after that many retries; the last one repeats."""
    return RETRY_DELAYS[min(retries, len(RETRY_DELAYS) - 1)]
