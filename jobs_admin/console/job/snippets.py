"""A job as text to paste: a command, Python that finds it, and a test that runs its handler."""

from __future__ import annotations

import keyword
import pprint
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from jobs_admin.console.job.content import shown_json
from trellis_jobs.model.redaction import REDACTED, redacted_places

if TYPE_CHECKING:
    from trellis_jobs.model.job import Job

# A larger payload is read from a file, so that the test stays readable.
MAX_PAYLOAD: Final = 8_000


@dataclass(frozen=True, slots=True)
class Snippets:
    cli: str
    python: str
    test: str


def snippets_of(job: Job) -> Snippets:
    return Snippets(cli=_cli(job), python=_python(job), test=_test(job))


def _cli(job: Job) -> str:
    address = job.address
    return f"trellis-jobs jobs get {address.service}/{address.job_type}/{job.id}"


def _python(job: Job) -> str:
    return f"""\
from app import service  # the module of your service

async with service.connect(workers=False):
    ref = service.jobs.{_attribute(job)}.ref({job.id!r})
    job = await ref.get()
    print(job.state, job.payload)
"""


def _test(job: Job) -> str:
    text = shown_json(job.payload)
    secret = redacted_places(job.payload, job.run.secrets)
    hint = (
        f"\n# Secrets are not shown: replace each {REDACTED!r} in the payload.\n" if secret else ""
    )
    is_large = text is None or len(text) > MAX_PAYLOAD
    reads = "import json\nfrom pathlib import Path\n\n" if is_large else ""
    payload = (
        'json.loads(Path("payload.json").read_text())  # download it from the page of the job'
        if is_large
        else pprint.pformat(job.payload, width=88, sort_dicts=False)
    )
    return f"""\
{reads}from app import service  # the module of your service
from trellis_jobs.testing import run_handler
{hint}
PAYLOAD = {payload}


async def test_{_identifier(job.address.job_type)}_as_job_{_identifier(job.id)}():
    result = await run_handler(
        service.jobs.{_attribute(job)}, PAYLOAD, version={job.run.version}
    )
    print(result)
"""


def _attribute(job: Job) -> str:
    """The attribute of a queue, unless its declaration gives the queue another name."""
    name = _identifier(job.address.job_type)
    return f"{name}_" if keyword.iskeyword(name) or name[:1].isdigit() else name


def _identifier(text: str) -> str:
    return re.sub(r"\W", "_", text, flags=re.ASCII)
