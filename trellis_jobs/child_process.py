"""Starts child processes that end with their parent (on Linux even if it is killed)."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

# Asks the kernel for SIGKILL (9) at the parent's death (PR_SET_PDEATHSIG, 1) and then executes the
# program, with the same pid. getppid shows a parent that died before that call. This is a separate
# process because `preexec_fn` can deadlock in a program with threads.
_BECOME: Final = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 9)
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""


def ending_with_parent(command: Sequence[str]) -> Sequence[str]:
    """Returns the command to start instead of `command`, which begins with a path.

    Linux treats the end of the *thread* that starts it as the parent's death.
    """
    if sys.platform != "linux":
        return command
    return (sys.executable, "-I", "-S", "-c", _BECOME, str(os.getpid()), *command)
