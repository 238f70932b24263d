"""Who decided something about a job, why, and with which request, survives the wire."""

from __future__ import annotations

import pytest

from tests.given import REPORT, cancelled, dismissed, expired, retried, skipped, status
from trellis_jobs.model import events as e
from trellis_jobs.model.job import Entry
from trellis_jobs.model.values import replace
from trellis_jobs.wire import events as wire


@pytest.mark.parametrize("event", [cancelled(), dismissed(), expired(), retried(), skipped()])
def test_a_decision_is_read_back_with_all_that_was_said_about_it(
    event: e.Decided | e.Retried,
) -> None:
    said = replace(event, by="ann", reason="not needed", request="REQ-17")
    data = wire.encode(said, status(state=_leads_to(said), tries=said.tries), None)
    read = wire.decode(data, expected=REPORT, sequence=7)
    assert isinstance(read, Entry)
    assert read.event == said
    assert b'"byRequestId":"REQ-17"' in data


def _leads_to(event: e.Event) -> str:
    return {"dismissed": "dismissed", "retried": "pending"}.get(event.kind, event.kind)


def test_an_event_without_a_request_names_none() -> None:
    data = wire.encode(expired(), status(state="expired"), None)
    assert b"byRequestId" not in data
