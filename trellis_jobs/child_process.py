"""Children that end with their parent: on Linux however it ends, elsewhere unless it is killed."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

# Becomes the program, same pid, after asking the kernel for SIGKILL (9) at the parent's death
# (PR_SET_PDEATHSIG, 1). A parent that died before the question is seen by getppid.
# A process of its own because `preexec_fn` can deadlock in a program with threads.
_BECOME: Final = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 9)
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""


def ending_with_parent(command: Sequence[str]) -> Sequence[str]:
    """The command to start instead; `command` begins with a path.

    Linux counts the end of the *thread* that starts it as the parent's death.
    """
    if sys.platform != "linux":
        return command
    return (sys.executable, "-I", "-S", "-c", _BECOME, str(os.getpid()), *command)
