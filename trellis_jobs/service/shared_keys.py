"""Warns about shared queues whose keys other runtimes keep in another bucket."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from trellis_jobs.model.keys.state import KEYS_BUCKET

if TYPE_CHECKING:
    from trellis_jobs.contract.declaration import ServiceContract

log = logging.getLogger(__name__)


def warn_about_separate_keys(contract: ServiceContract) -> None:
    for name, queue in contract.queues.items():
        if queue.shared and queue.key_policy is not None and queue.key_policy.bucket == KEYS_BUCKET:
            log.warning(
                "queue %s is shared and has a key, but other runtimes keep keys in the bucket "
                "JOBS_KEYS_%s: the limit holds only among workers of this library. Name the "
                "bucket in the bindings of the service (keysBucket)",
                name,
                contract.service,
            )
