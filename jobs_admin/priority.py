"""The priority of a thread: the admin runtime yields to work on the same machine."""

from __future__ import annotations

import os
import sys
import threading


def lower_priority(nice: int) -> None:
    """Of the calling thread alone, which only Linux can do; elsewhere nothing changes."""
    if nice and sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), nice)
