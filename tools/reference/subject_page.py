"""docs/reference/subjects.md: subjects, streams and consumers, from the topology."""

from __future__ import annotations

import json
from typing import Final

from pydantic import BaseModel

from trellis_jobs import Jobs, job
from trellis_jobs.contract.features import LEVEL_2_14, Features
from trellis_jobs.contract.topology import (
    Topology,
    advisory_consumer,
    delivery_subject,
    due_consumer,
    queue_consumer,
)
from trellis_jobs.model import subjects

_PAGE: Final = """\
# Subjects, streams and consumers

<!-- Generated from the topology by tools/reference/subject_page.py: make docs -->

On this page you find every subject, and the configuration of every stream and consumer.

```text
{grammar}
```

The configurations are those that a server from 2.14 on gets; `num_replicas` is that of a single
server. [Provisioning](../operate/provisioning.md) explains when each is created, and what happens
to existing ones.

{streams}

## JOBS/to-work

The server stores here how far the work queue has sourced the log. Each installation has another
`deliver_subject`, which services cannot learn.

{to_work}

## JOBS_WORK/&lt;service&gt;-&lt;type&gt;

One for each queue, created by the service itself; here for `helpdesk` / `sync-tickets`.

{queue}

## JOBS_ALARMS_&lt;service&gt;/due

One for each service, created by its workers, which share it; here for `helpdesk`.

{due}

## JOBS_ADVISORIES/jobs-advisories

The admin runtime creates it, and all replicas share it.

{advisories}
"""


class _Nothing(BaseModel): ...


class _HelpdeskJobs(Jobs, service="helpdesk"):
    sync_tickets = job(_Nothing)


def page() -> str:
    topology = Topology(
        Features("2.15.1", LEVEL_2_14),
        work_delivery=delivery_subject("<random>"),
        alarms_of=("helpdesk",),
    )
    to_work = topology.to_work()
    assert to_work is not None
    grammar = (subjects.__doc__ or "").split("\n\n", 1)[1].strip()
    return _PAGE.format(
        grammar=grammar,
        streams="\n\n".join(f"## {each['name']}\n\n{_block(each)}" for each in topology.streams()),
        to_work=_block(to_work),
        queue=_block(queue_consumer("helpdesk", _HelpdeskJobs.sync_tickets)),
        due=_block(due_consumer("helpdesk")),
        advisories=_block(advisory_consumer()),
    )


def _block(config: dict[str, object]) -> str:
    return f"```json\n{json.dumps(config, indent=2)}\n```"
