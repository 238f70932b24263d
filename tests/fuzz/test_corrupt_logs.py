"""Whatever lies in the log, it is taken in, told, explained and archived; nothing stops on it."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path

import orjson
import pytest

from jobs_admin.api.views.jobs import LogEntry
from jobs_admin.explain.explain import explain
from jobs_admin.explain.explanation import Facts
from jobs_admin.explain.views import explanation_view, log_entries
from jobs_admin.maintenance.retention.archive import FolderArchive
from jobs_admin.projection.ingest import Ingest
from jobs_admin.projection.store import Projection
from jobs_admin.projection.writer import Writer
from tests.fuzz.corrupt_logs import SpoiltLog
from tests.fuzz.quantity import INPUTS, SEED
from tests.given import after
from trellis_jobs.jetstream.log.feed import LogMessage
from trellis_jobs.model.delivery_decision import DeliveryRef, decide
from trellis_jobs.model.job import Entry, Job, fold
from trellis_jobs.model.timeline import LogRecord, timeline
from trellis_jobs.wire import log as wire
from trellis_jobs.wire.events import Undecodable

NOW = after(10**6)


def recorded(messages: Sequence[LogMessage]) -> Iterator[LogRecord]:
    for message in messages:
        read = wire.read(message.subject, message.sequence, message.data, message.headers)
        if isinstance(read, Entry | Undecodable):
            told = read if isinstance(read, Entry) else read.reason
            yield LogRecord(message.sequence, message.stored_at, told)


def entries(messages: Sequence[LogMessage]) -> list[Entry]:
    """Those of one job: the first that is named."""
    found = [each.read for each in recorded(messages) if isinstance(each.read, Entry)]
    return [entry for entry in found if entry.event.job == found[0].event.job]


@pytest.mark.timeout(600)
async def test_the_projection_takes_in_every_message_and_knows_its_rows_again(
    tmp_path: Path,
) -> None:
    log, seen = SpoiltLog(SEED), 0
    async with Projection.open(tmp_path / "jobs.sqlite") as projection:
        while seen < INPUTS:
            batch = log.stretch(100)
            seen += len(batch)
            ingest = Ingest(projection, await projection.do(Writer.position))
            await ingest.apply(batch)
            addresses = {entry.event.job for entry in entries(batch)}
            assert (await projection.do(Writer.load, addresses)).keys() <= addresses
        assert (await projection.do(Writer.position)).sequence == seen


@pytest.mark.timeout(600)
def test_every_history_can_be_told_and_explained() -> None:
    log, seen = SpoiltLog(SEED), 0
    while seen < INPUTS:
        messages = log.history()
        seen += len(messages)
        try:
            _tell(messages)
        except Exception as error:
            error.add_note(f"seed {SEED}: {messages!r}")
            raise


def _tell(messages: Sequence[LogMessage]) -> None:
    for told in log_entries(messages):
        LogEntry.model_validate_json(told.encode())
    timeline(recorded(messages), NOW)
    job = fold(entries(messages))
    if job is not None:
        for facts in (Facts(now=NOW), Facts(now=NOW, owner_is_present=False, has_work=False)):
            explanation_view(job, explain(job, facts)).encode()
        decide(job.status, DeliveryRef("41@1", 2, job.status.run), now=NOW)


@pytest.mark.timeout(600)
async def test_every_history_can_be_archived(tmp_path: Path) -> None:
    log, seen = SpoiltLog(SEED), 0
    archive, histories = FolderArchive(tmp_path), list[tuple[Job, list[Entry]]]()
    while seen < INPUTS:
        messages = log.history()
        seen += len(messages)
        history = entries(messages)
        job = fold(history)
        if job is not None:
            histories.append((job, history))
    await archive.keep(histories, date(2026, 3, 28))
    lines = gzip.decompress((tmp_path / "2026-03-28-documents.jsonl.gz").read_bytes()).splitlines()
    assert len(lines) == len(histories)
    assert all(orjson.loads(line)["events"] for line in lines)
