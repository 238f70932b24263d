"""Selects the queues that a process works on, by the argument `workers` of `connect`."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trellis_jobs.errors import DeclarationError
from trellis_jobs.model.queue_order import SharedLimit, StrictOrder, weighted_order

if TYPE_CHECKING:
    from trellis_jobs.contract.declaration import ServiceContract
    from trellis_jobs.worker.handlers import Handler, Handlers

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Workers:
    """The queues that this process works on, and how many of their jobs it runs at once.

    By default it works on all queues with a handler, each with its declared concurrency.
    `concurrency` replaces that of each queue. `total_concurrency` limits all queues together, and
    then their order counts: a list of queues is in strict order of importance, a mapping has the
    weight of each queue, and without `queues` all have the same weight.
    """

    queues: Collection[str] | Mapping[str, int] | None = None
    concurrency: int | None = None
    total_concurrency: int | None = None


@dataclass(frozen=True, slots=True)
class SelectedWorkers:
    """The handlers in the order of their queues. Without handlers the process runs no workers."""

    handlers: Sequence[Handler] = ()
    concurrency: int | None = None
    shared_limit: SharedLimit | None = None


def select_workers(
    workers: bool | Workers,
    contract: ServiceContract,
    handlers: Handlers,
    names: Mapping[str, str],
) -> SelectedWorkers:
    """Raises DeclarationError for a selection that cannot work.

    `names` has the names on the server of queues that are bound to other names.
    """
    if not isinstance(workers, bool | Workers):
        raise DeclarationError(
            f"workers must be True, False or Workers(queues=[...]), is {workers!r}"
        )
    if workers is False:
        return SelectedWorkers()
    selection = Workers() if workers is True else workers
    _check(selection)
    selected = _selected(selection, contract, handlers, names)
    if workers is not True and not selected:
        raise DeclarationError(
            f"service {contract.service!r} has no handlers, so it cannot run workers"
        )
    if selection.queues is None:
        _warn_of_unhandled_queues(contract, handlers)
    limit = _shared_limit(selection, [handler.queue.name for handler in selected], names)
    return SelectedWorkers(selected, selection.concurrency, limit)


def _check(selection: Workers) -> None:
    for name in ("concurrency", "total_concurrency"):
        count = getattr(selection, name)
        if count is not None and not _is_count(count):
            raise DeclarationError(f"{name} must be at least 1, is {count!r}")
    if isinstance(selection.queues, str):
        raise DeclarationError(f"queues must be a list of names: queues=[{selection.queues!r}]")
    if isinstance(selection.queues, Mapping):
        _check_weights(selection.queues, selection.total_concurrency)
    elif isinstance(selection.queues, Set) and selection.total_concurrency is not None:
        raise DeclarationError(
            "a set of queues has no order: with total_concurrency, queues must be a list, or a "
            "mapping with the weight of each queue"
        )


def _check_weights(weights: Mapping[str, int], total: int | None) -> None:
    for queue, weight in weights.items():
        if not _is_count(weight):
            raise DeclarationError(
                f"the weight of queue {queue!r} must be a whole number of at least 1, is {weight!r}"
            )
    if total is None:
        raise DeclarationError(
            "weights have an effect only on slots that the queues share: set total_concurrency too "
            "(--total-concurrency), or name the queues without weights"
        )


def _is_count(count: object) -> bool:
    return isinstance(count, int) and not isinstance(count, bool) and count >= 1


def _selected(
    selection: Workers, contract: ServiceContract, handlers: Handlers, names: Mapping[str, str]
) -> list[Handler]:
    by_queue = {handler.queue.name: handler for handler in handlers}
    if selection.queues is None:
        return list(by_queue.values())
    selected = list(dict.fromkeys(names.get(queue, queue) for queue in selection.queues))
    for queue in selected:
        if queue not in contract.queues:
            known = ", ".join(sorted(contract.queues))
            raise DeclarationError(
                f"service {contract.service!r} has no queue {queue!r}; its queues are {known}"
            )
        if queue not in by_queue:
            raise DeclarationError(
                f"queue {queue!r} has no handler in this service, so its jobs cannot run"
            )
    return [by_queue[queue] for queue in selected]


def _shared_limit(
    selection: Workers, queues: Sequence[str], names: Mapping[str, str]
) -> SharedLimit | None:
    total = selection.total_concurrency
    if total is None or not queues:
        return None
    if selection.queues is None:
        return SharedLimit(total, weighted_order([1] * len(queues)))
    if isinstance(selection.queues, Mapping):
        weights = {names.get(queue, queue): weight for queue, weight in selection.queues.items()}
        return SharedLimit(total, weighted_order([weights[queue] for queue in queues]))
    return SharedLimit(total, StrictOrder())


def _warn_of_unhandled_queues(contract: ServiceContract, handlers: Handlers) -> None:
    handled = {handler.queue.name for handler in handlers}
    unhandled = sorted(contract.queues.keys() - handled)
    if unhandled:
        log.warning(
            "service %s has no handler for the queues %s, so this process runs none of their "
            "jobs. If other workers run them, pass Workers(queues=[...]) or workers=False",
            contract.service,
            ", ".join(unhandled),
            extra={"service": contract.service, "queues": unhandled},
        )
