"""Exit codes that scripts can rely on.

0  done, or stopped by a signal as asked
1  refused: not found, declared wrongly, or the server side is not as it must be
2  the command line itself is wrong
4  no server answers: worth trying again later
"""

from __future__ import annotations

import sys
from enum import IntEnum

from trellis_jobs.errors import JobsError, Unreachable


class Exit(IntEnum):
    OK = 0
    REFUSED = 1
    USAGE = 2
    UNREACHABLE = 4


def complain(error: JobsError) -> Exit:
    """Say what is wrong, without a traceback: the messages of our errors lead to the culprit."""
    print(f"error: {error}", file=sys.stderr, flush=True)
    return Exit.UNREACHABLE if isinstance(error, Unreachable) else Exit.REFUSED
