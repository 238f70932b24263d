"""Runs the worker's actions for TERM, INT, TSTP and CONT, and restores the previous handlers."""

from __future__ import annotations

import asyncio
import signal
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

# The current actions: asyncio does not return the action that a new one replaces.
_ACTIONS: Final[dict[signal.Signals, Callable[[], None]]] = {}


@contextmanager
def handle_signals(actions: Mapping[signal.Signals, Callable[[], None]]) -> Iterator[None]:
    """Does nothing outside the main thread, where the host program has to handle signals."""
    loop = asyncio.get_running_loop()
    with ExitStack() as cleanup:
        with suppress(ValueError, RuntimeError, NotImplementedError):
            for number, act in actions.items():
                previous = signal.getsignal(number), _ACTIONS.get(number)
                loop.add_signal_handler(number, act)
                _ACTIONS[number] = act
                cleanup.callback(_restore, loop, number, *previous)
        yield


def _restore(
    loop: asyncio.AbstractEventLoop,
    number: signal.Signals,
    handler: Any,
    action: Callable[[], None] | None,
) -> None:
    loop.remove_signal_handler(number)
    if action is None:
        del _ACTIONS[number]
        signal.signal(number, handler if handler is not None else signal.SIG_DFL)
    else:
        _ACTIONS[number] = action
        loop.add_signal_handler(number, action)
