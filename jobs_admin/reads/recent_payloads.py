"""Reads the payloads of the newest jobs of a queue, each payload once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import orjson

from jobs_admin.api.job_filter import JobFilter
from jobs_admin.api.views.creation import PayloadTemplate
from jobs_admin.reads import jobs
from trellis_jobs.model.redaction import redacted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jobs_admin.reads.readers import Readers

# Among how many jobs different payloads are looked for.
_JOBS_READ: Final = 200
# The documents of all these jobs have at most this size together: parsing a megabyte takes 5 ms.
_BYTES_READ: Final = 2_000_000


async def recent_payloads(
    readers: Readers, service: str, job_type: str, *, secrets: Sequence[str], limit: int
) -> list[PayloadTemplate]:
    """Newest first. `secrets` are those that the queue declares now; jobs name their own too."""
    page = await jobs.page(
        readers,
        JobFilter(service=service, type=job_type),
        offset=0,
        limit=_JOBS_READ,
        max_bytes=_BYTES_READ,
    )
    return distinct(map(orjson.loads, page.documents), secrets, limit)


def distinct(
    documents: Iterable[dict[str, Any]], secrets: Sequence[str], limit: int
) -> list[PayloadTemplate]:
    """One template for each payload, with how many of the jobs have it."""
    found: dict[bytes, PayloadTemplate] = {}
    for document in documents:
        hidden = tuple(dict.fromkeys((*document.get("secrets", ()), *secrets)))
        payload = redacted(document.get("payload"), hidden)
        version = document.get("payloadVersion", 1)
        same = orjson.dumps([version, payload], option=orjson.OPT_SORT_KEYS)
        if same in found:
            found[same] = found[same].model_copy(update={"jobs": found[same].jobs + 1})
        elif len(found) < limit:
            found[same] = PayloadTemplate(
                payload=payload,
                payload_version=version,
                secrets=hidden,
                id=document["id"],
                created_at=document["createdAt"],
                state=document["state"],
                jobs=1,
            )
    return list(found.values())
