"""Job filters as text: what each word means, and that a filter survives being written and read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs_admin.api.filter_text import FilterTextError, format_filter, parse_filter
from jobs_admin.api.job_filter import JobFilter
from trellis_jobs.model.states import JobState

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("", {}),
        ("  \n ", {}),
        ("state:dead", {"state": [JobState.DEAD]}),
        ("state:dead,failed state:retry", {"state": [*map(JobState, ("dead", "failed", "retry"))]}),
        ("type:shop/charge", {"service": "shop", "type": "charge"}),
        ("type:charge", {"type": "charge"}),
        ("service:shop", {"service": "shop"}),
        ("service:shop type:charge", {"service": "shop", "type": "charge"}),
        ('error:"503 from"', {"error": "503 from"}),
        ("error:503", {"error": "503"}),
        ('error:said"no"', {"error": 'said"no"'}),
        (r'error:"a \"b\" \\ c"', {"error": r'a "b" \ c'}),
        ("error:http://x/:y", {"error": "http://x/:y"}),
        ("since:2h", {"since": NOON - timedelta(hours=2)}),
        ("until:11:30", {"until": NOON - timedelta(minutes=30)}),
        ("until:2026-04-30T08:00:00+02:00", {"until": datetime(2026, 4, 30, 6, tzinfo=UTC)}),
        ("id:01M7", {"id_prefix": "01M7"}),
        ("key:acme:7", {"key": "acme:7"}),
        ("version:1.4.2", {"app_version": "1.4.2"}),
        ("request:req-7", {"request_id": "req-7"}),
        (f"trace:{TRACE}", {"trace_id": TRACE}),
        ("schedule:nightly", {"schedule": "nightly"}),
        ("group:00ff00ff00ff00ff", {"error_group": "00ff00ff00ff00ff"}),
        ("job:shop/charge/A,shop/greet/B-1", {"jobs": ["shop/charge/A", "shop/greet/B-1"]}),
        ("payload.customer:c-9", {"payload": {"customer": "c-9"}}),
        ("payload.customer.id:17", {"payload": {"customer.id": 17}}),
        ('payload.customer.id:"17"', {"payload": {"customer.id": "17"}}),
        ("payload.paid:true payload.rate:1.10", {"payload": {"paid": True, "rate": "1.10"}}),
        ('payload."a b:c":""', {"payload": {"a b:c": ""}}),
    ],
)
def test_each_word_of_a_filter_sets_its_field(text: str, fields: dict[str, Any]) -> None:
    assert parse_filter(text, NOON) == JobFilter(**fields)


@pytest.mark.parametrize(
    ("text", "word", "problem"),
    [
        ("state:dead charge", "charge", "write FIELD:VALUE; the fields are state, service, type"),
        ("stat:dead", "stat:dead", "there is no field 'stat'; the fields are state, service"),
        ("state:ded", "state:ded", "'ded' is not a state; the states are"),
        ("state:", "state:", "no value; write state:VALUE"),
        (':"x', ':"x', "write FIELD:VALUE"),
        ('error:"503 from', 'error:"503', "a quotation mark is missing, or text follows it"),
        ('error:"503"from', 'error:"503"from', "a quotation mark is missing, or text follows it"),
        (r'error:"\q"', r'error:"\q"', "is not a JSON string"),
        ('error:""', 'error:""', "the value is empty"),
        ("since:yesterday", "since:yesterday", "is neither a duration (10m, 2h, 3d) nor a time"),
        ("service:x.y", "service:x.y", "'x.y' is not a valid subject token"),
        ("type:shop/", "type:shop/", "is not a valid subject token"),
        ("type:a/b/c", "type:a/b/c", "'b/c' is not a valid subject token"),
        ("trace:7", "trace:7", "a trace id has 32 digits"),
        ("group:7", "group:7", "a group of errors has 16 digits"),
        ("job:shop/charge", "job:shop/charge", "'shop/charge' is not SERVICE/TYPE/ID"),
        ("key:a key:b", "key:b", "the filter has key twice"),
        ("service:a type:b/c", "type:b/c", "the filter has service twice"),
        ("payload.a:1 payload.a:2", "payload.a:2", "the filter has a twice"),
        ("payload.:1", "payload.:1", "name a field of the payload"),
    ],
)
def test_an_error_names_the_word_and_what_is_allowed(text: str, word: str, problem: str) -> None:
    with pytest.raises(FilterTextError) as refused:
        parse_filter(text, NOON)
    assert refused.value.word == word
    assert problem in str(refused.value)


def test_times_without_an_offset_are_in_the_zone_of_the_reader() -> None:
    zone = timezone(timedelta(hours=2))
    assert parse_filter("since:13:00", NOON, zone).since == NOON - timedelta(hours=1)


def texts() -> st.SearchStrategy[str]:
    return st.text(min_size=1) | st.text('" :\\\n/.1', min_size=1, max_size=5)


tokens = st.from_regex(r"[A-Za-z0-9_-]{1,20}", fullmatch=True)
moments = st.timedeltas(timedelta(days=-700_000), timedelta(days=2_900_000)).map(NOON.__add__)
scalars = (
    texts()
    | st.just("")
    | st.sampled_from(["17", "true", "null", "1.0", '"17"'])
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
)
filters = st.builds(
    JobFilter,
    service=st.none() | tokens,
    type=st.none() | tokens,
    state=st.none() | st.lists(st.sampled_from(JobState), min_size=1),
    since=st.none() | moments,
    until=st.none() | moments,
    key=st.none() | texts(),
    id_prefix=st.none() | tokens,
    error=st.none() | texts(),
    app_version=st.none() | texts(),
    request_id=st.none() | texts(),
    trace_id=st.none() | st.from_regex(r"[0-9a-f]{32}", fullmatch=True),
    schedule=st.none() | tokens,
    error_group=st.none() | st.from_regex(r"[0-9a-f]{16}", fullmatch=True),
    jobs=st.none() | st.lists(st.tuples(tokens, tokens, tokens).map("/".join), min_size=1),
    payload=st.none() | st.dictionaries(texts(), scalars, min_size=1, max_size=4),
)


@given(filters)
def test_a_filter_that_is_written_and_read_is_the_same(job_filter: JobFilter) -> None:
    read = parse_filter(format_filter(job_filter), NOON)
    assert read == job_filter
    for path, value in (job_filter.payload or {}).items():
        assert type((read.payload or {})[path]) is type(value)


@given(st.text())
def test_any_text_is_a_filter_or_an_error_that_names_a_word_of_it(text: str) -> None:
    error: FilterTextError | None = None
    try:
        parse_filter(text, NOON)
    except FilterTextError as refused:
        error = refused
    assert error is None or error.word in text
