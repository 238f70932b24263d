"""What the screens of a job show, as pure functions of its history."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from jobs_admin.console.job.actions import ACTIONS, actions_in
from jobs_admin.console.job.attempts import attempts_of
from jobs_admin.console.job.comparison import aligned, differences
from jobs_admin.console.job.content import MAX_SHOWN, content_of, shown_json
from jobs_admin.console.job.event_rows import EventRow, event_page
from jobs_admin.console.job.snippets import snippets_of
from tests.console.test_gantt import log_of
from tests.given import (
    SECOND,
    after,
    completed,
    created,
    dead,
    error,
    histories,
    job,
    logged,
    progressed,
    retried,
    retry_scheduled,
    snoozed,
    started,
)
from trellis_jobs import ActiveJob, Jobs, Service
from trellis_jobs import job as queue
from trellis_jobs.model import events as e
from trellis_jobs.model.job import Job
from trellis_jobs.model.states import OVER, JobState
from trellis_jobs.model.values import replace

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=8,
)


@given(histories())
def test_each_start_that_counts_is_an_attempt(history: list[e.Event]) -> None:
    log = log_of(history)
    started_events = [
        entry
        for entry in log.history
        if entry.ignored is None and isinstance(entry.event, e.Started)
    ]
    attempts = attempts_of(log.history)
    assert [each.sequence for each in attempts] == [
        entry.record.sequence for entry in started_events
    ]
    assert all(each.end is not None for each in attempts[:-1])


def test_attempts_say_what_came_of_them_and_keep_their_lines() -> None:
    lost = error(type="worker_death", message="gone")
    attempts = attempts_of(
        log_of(
            (
                created(),
                started(),
                logged(),
                snoozed(),
                started(attempt=SECOND, at=after(70)),
                progressed(attempt=SECOND),
                retry_scheduled(attempt=SECOND, error=lost, next_attempt_at=None),
                started(tries=2),
                dead(tries=2),
                retried(),
                started(),
                completed(),
            )
        ).history
    )
    assert [(each.run, each.number, each.outcome, each.is_failure) for each in attempts] == [
        (1, 1, "snoozed", False),
        (1, 2, "interrupted: the worker died", True),
        (1, 3, "dead", True),
        (2, 1, "completed", False),
    ]
    assert [line.message for line in attempts[0].lines] == ["page 2 done"]
    assert attempts[1].worker == "pod-8"
    assert attempts[1].progress is not None


@given(JSON, JSON)
def test_values_differ_exactly_if_a_path_differs(a: Any, b: Any) -> None:
    assert bool(differences(a, b)) == (orjson.dumps(a) != orjson.dumps(b) and not _equal(a, b))


def _equal(a: Any, b: Any) -> bool:
    """The order of members does not count."""
    option = orjson.OPT_SORT_KEYS
    return orjson.dumps(a, option=option) == orjson.dumps(b, option=option)


def test_differences_are_named_by_their_path() -> None:
    a = {"customer": "c-9", "items": [{"n": 1}, {"n": 2}], "old": True}
    b = {"customer": "c-9", "items": [{"n": 1}, {"n": 3}, {"n": 4}], "new": None}
    found = [(each.path, each.a, each.b) for each in differences(a, b)]
    assert found == [
        ("items[1].n", "2", "3"),
        ("items[2]", None, '{"n":4}'),
        ("old", "true", None),
        ("new", None, "null"),
    ]


@given(st.lists(st.sampled_from("abc"), max_size=8), st.lists(st.sampled_from("abc"), max_size=8))
def test_aligned_lines_keep_both_sides_complete(a: list[str], b: list[str]) -> None:
    lines = aligned(a, b)
    assert [line.a for line in lines if line.a is not None] == a
    assert [line.b for line in lines if line.b is not None] == b


def test_contents_count_their_secrets_and_are_cut() -> None:
    hidden = content_of({"a": "[secret]", "b": ["[secret]", 1]}, ("/a", "/b/*"))
    assert (hidden.hidden, hidden.is_cut) == (2, False)
    assert content_of({"a": "[secret]"}).hidden == 0
    large = content_of("x" * MAX_SHOWN)
    assert large.is_cut
    assert len(large.text) == MAX_SHOWN


def nested(levels: int) -> Any:
    value: Any = "[secret]"
    for _ in range(levels):
        value = [value]
    return value


def test_what_is_nested_too_deeply_to_be_shown_says_so() -> None:
    assert content_of(nested(300)).is_too_deep
    assert not content_of(nested(200)).is_too_deep
    assert shown_json(nested(300)) is None
    deep = ran_with(payload=nested(300), secrets=("/card",))
    assert 'Path("payload.json")' in snippets_of(deep).test


@given(histories())
def test_pages_of_events_have_every_event_once(history: list[e.Event]) -> None:
    log = log_of(history)
    for with_notes in (True, False):
        seen: list[EventRow] = []
        hidden = after_sequence = 0
        while True:
            page = event_page(log.history, after=after_sequence, with_notes=with_notes, size=3)
            seen.extend(page.rows)
            hidden += sum(row.notes for row in page.rows)
            if page.after is None:
                break
            after_sequence = page.after
        if with_notes:
            assert [row.sequence for row in seen] == list(range(1, len(history) + 1))
        assert with_notes or len(seen) + hidden >= len(history)


def test_every_action_is_legal_in_its_states() -> None:
    assert {action.name for action in actions_in(JobState.DEAD)} == {"replay", "dismiss"}
    assert actions_in(JobState.COMPLETED) == ()
    assert actions_in(None) == ()
    for action in ACTIONS:
        assert (action.name == "cancel") <= (not action.states & OVER)


class Order(BaseModel):
    number: int
    note: str = ""


async def run_snippet(code: str, service: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the test as pytest would, in a project whose module `app` has the service."""
    app = types.ModuleType("app")
    app.service = service  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "app", app)
    names: dict[str, Any] = {}
    exec(compile(code, "test_job.py", "exec"), names)  # noqa: S102 - it is what is tested
    (test,) = [value for name, value in names.items() if name.startswith("test_")]
    await test()


def ran_with(**changes: Any) -> Job:
    begun = job(created(**changes))
    return replace(begun, address=replace(begun.address, job_type="ship-order"))


@pytest.mark.parametrize("note", ["", 'it\'s "quoted"\n\\ </script> ☃', "x" * 20_000])
async def test_the_copied_test_runs_the_handler_with_the_payload(
    note: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class ShopJobs(Jobs, service="shop"):
        ship_order = queue(Order, str)

    service, seen = Service(ShopJobs), []

    @service.jobs.ship_order.handle
    async def ship_order(active: ActiveJob[Order]) -> str:
        seen.append(active.payload)
        return "shipped"

    payload = {"number": 7, "note": note}
    (tmp_path / "payload.json").write_text(orjson.dumps(payload).decode())
    monkeypatch.chdir(tmp_path)
    await run_snippet(snippets_of(ran_with(payload=payload)).test, service, monkeypatch)
    assert seen == [Order(number=7, note=note)]


def test_the_copied_test_says_that_secrets_are_missing() -> None:
    snippet = snippets_of(ran_with(payload={"card": "[secret]"}, secrets=("/card",))).test
    assert "Secrets are not shown" in snippet


def test_the_copied_python_is_python() -> None:
    code = snippets_of(ran_with()).python
    compile(f"async def main():\n{_indented(code)}", "job.py", "exec")
    assert "service.jobs.ship_order.ref('01JQEXAMP1E0000000000000AA')" in code


def _indented(code: str) -> str:
    return "".join(f"    {line}\n" for line in code.splitlines())
