"""TERM, INT, TSTP, CONT → what the worker does; the handlers of before come back afterwards."""

from __future__ import annotations

import asyncio
import signal
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

# asyncio does not return the action that a new one replaces.
_ACTIONS: Final[dict[signal.Signals, Callable[[], None]]] = {}


@contextmanager
def listening(actions: Mapping[signal.Signals, Callable[[], None]]) -> Iterator[None]:
    """Only the main thread may listen; elsewhere signals are the host program's own business."""
    loop = asyncio.get_running_loop()
    with ExitStack() as undone:
        with suppress(ValueError, RuntimeError, NotImplementedError):
            for number, act in actions.items():
                previous = signal.getsignal(number), _ACTIONS.get(number)
                loop.add_signal_handler(number, act)
                _ACTIONS[number] = act
                undone.callback(_restore, loop, number, *previous)
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
