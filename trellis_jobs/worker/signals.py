"""TERM, INT, TSTP, CONT → what the worker does; the handlers of before come back afterwards."""

from __future__ import annotations

import asyncio
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


@contextmanager
def listening(actions: Mapping[signal.Signals, Callable[[], None]]) -> Iterator[None]:
    """Only the main thread may listen; elsewhere signals are the host program's own business."""
    loop = asyncio.get_running_loop()
    before = {}
    try:
        for number, act in actions.items():
            previous = signal.getsignal(number)
            loop.add_signal_handler(number, act)
            before[number] = previous
    except (ValueError, RuntimeError, NotImplementedError):
        before = {}
    try:
        yield
    finally:
        for number, previous in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, previous if previous is not None else signal.SIG_DFL)
