"""`jobs list`, `get`, `explain` and `events`, asked of a real admin runtime."""

from __future__ import annotations

import re
from collections.abc import Iterator

import orjson
import pytest

from tests.cli.library import Library, library


@pytest.fixture(scope="module")
def books(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    with library(tmp_path_factory.mktemp("library")) as made:
        yield made


def test_a_list_in_80_columns_has_whole_ids_and_nothing_folded(books: Library) -> None:
    listed = books.stage.at_terminal("jobs", "list", columns=80)
    assert listed.code == 0
    head, *rows, footer = listed.plain.splitlines()
    assert head.split()[:3] == ["id", "queue", "state"]
    assert [row.split()[0] for row in rows] == [books.torn, books.read, books.lent]
    assert all(len(row) <= 80 for row in rows)
    assert footer == "3 of 3 jobs"


def test_a_wide_terminal_shows_when_jobs_changed_and_their_keys(books: Library) -> None:
    listed = books.stage.at_terminal("jobs", "list", columns=150)
    head, torn, *_ = listed.plain.splitlines()
    assert head.split()[3:] == ["tries", "created", "changed", "key", "error"]
    assert "shelf:B" in torn
    assert "RuntimeError: page 7 is missing" in torn


def test_every_filter_narrows_the_list(books: Library) -> None:
    for options, expected in (
        (["--state", "dead"], [books.torn]),
        (["--type", "lend"], [books.lent]),
        (["--key", "shelf:A"], [books.read]),
        (["--error", "PAGE 7"], [books.torn]),
        (["--payload", "title=lent"], [books.lent]),
        (["--id-prefix", books.read], [books.read]),
        (["--until", "1h"], []),
        (["--service", "library", "--since", "1h", "--limit", "1"], [books.torn]),
    ):
        listed = books.stage.shell("jobs", "list", "--json", *options)
        assert [job["id"] for job in listed.json["entries"]] == expected, options


def test_all_jobs_come_one_a_line_for_scripts(books: Library) -> None:
    listed = books.stage.shell("jobs", "list", "--all", "--json")
    jobs = [orjson.loads(line) for line in listed.out.splitlines()]
    assert [job["id"] for job in jobs] == [books.torn, books.read, books.lent]
    assert "3 jobs" in books.stage.shell("jobs", "list", "--all").out


def test_watching_a_list_needs_a_terminal(books: Library) -> None:
    refused = books.stage.shell("jobs", "list", "--watch")
    assert (refused.code, refused.out) == (2, "")
    assert "it needs a terminal" in re.sub(r"[│\s]+", " ", refused.err)


def test_a_sheet_tells_all_of_a_job(books: Library) -> None:
    shown = books.stage.at_terminal("jobs", "get", books.torn, columns=100).plain
    head, *fields = shown.splitlines()
    assert head == f"{books.torn}  library/index  dead"
    told = {line[:9].strip(): line[9:].strip() for line in fields}
    assert told["why"].startswith("It is dead after 2 of 2 tries")
    assert told["tries"] == "2 of 2"
    assert told["retried"].endswith("by ann")
    assert told["key"] == "shelf:B"
    assert "━" in told["progress"]
    assert told["progress"].endswith("1/2 pages")
    assert told["payload"] == '{"title":"torn","shelf":"B"}'
    assert told["errors"].startswith("2; ")
    assert told["log lines"].startswith("4; ")
    assert "RuntimeError: page 7 is missing" in told["run 1"]
    assert "Traceback" not in shown


def test_errors_come_with_their_tracebacks_when_asked_for(books: Library) -> None:
    shown = books.stage.shell("jobs", "get", "--errors", books.torn).out
    assert shown.count("Traceback (most recent call last):") == 4
    assert shown.count("\nRuntimeError: page 7 is missing\n") == 4
    assert re.findall(r"^((?:run \d, )?try \d), ", shown, re.MULTILINE) == [
        *("run 1, try 1", "run 1, try 2"),
        *("try 1", "try 2"),
    ]


def test_several_jobs_are_several_documents_and_one_that_is_not_there_is_said(
    books: Library,
) -> None:
    found = books.stage.shell("jobs", "get", "--json", books.read, "nope", books.lent)
    assert found.code == 3
    assert found.err == "error: there is no job nope\n"
    first, second = found.out.split("\n}\n{")
    assert orjson.loads(first + "}")["result"] == 2
    assert orjson.loads("{" + second)["state"] == "pending"


def test_a_job_is_told_as_it_was(books: Library) -> None:
    entries = books.stage.shell("jobs", "events", "--json", books.torn).json["entries"]
    died = next(entry for entry in entries if entry["state"] == "dead")
    for entry in (entries[0], died, entries[-2]):
        then = books.stage.shell("jobs", "get", "--json", "--at", entry["storedAt"], books.torn)
        assert then.json["state"] == entry["state"]
        assert then.json["lastSeq"] == entry["seq"]
    begun = entries[0]["storedAt"]
    sheet = books.stage.shell("jobs", "get", "--at", begun, books.torn).out
    assert f"state at  {begun[:23]}" in sheet
    assert "ages are relative to this time" in sheet
    assert re.search(r"^created +at that time \(", sheet, re.MULTILINE)


def test_there_is_no_job_before_it_was_created_nor_in_the_future(books: Library) -> None:
    before = books.stage.shell("jobs", "get", "--at", "1h", books.torn)
    assert before.code == 3
    assert re.fullmatch(
        rf"error: job {books.torn} did not exist at \S+Z; it was created at \S+Z\n", before.err
    )
    ahead = books.stage.shell("jobs", "get", "--at", "2999-01-01T00:00:00Z", books.torn)
    assert (ahead.code, ahead.out) == (2, "")
    assert "is in the future" in ahead.err


def test_a_job_may_be_named_with_its_queue(books: Library) -> None:
    named = f"library/lend/{books.lent}"
    assert books.stage.shell("jobs", "get", "--json", named).json["id"] == books.lent
    elsewhere = books.stage.shell("jobs", "get", f"library/index/{books.lent}")
    assert elsewhere.code == 3
    for nonsense in ("a/b", "a.b", "*"):
        assert books.stage.shell("jobs", "get", nonsense).code == 2


def test_an_explanation_is_a_sentence_and_what_must_happen_next(books: Library) -> None:
    told = books.stage.at_terminal("jobs", "explain", books.lent).plain
    assert "No worker serves the queue library/lend" in told
    assert re.search(r"^next +a worker of service library", told, re.MULTILINE)
    assert re.search(r"^because +no-worker *$", told, re.MULTILINE)
    asked = books.stage.shell("jobs", "explain", "--json", books.torn)
    assert asked.json["because"] == "out-of-tries"
    assert f"`trellis-jobs dlq replay {books.torn}`" in asked.json["next"]
    assert books.stage.shell("jobs", "explain", "nope").code == 3


def test_events_are_a_story_of_what_lay_between_them(books: Library) -> None:
    told = books.stage.at_terminal("jobs", "events", books.torn).plain
    kinds = re.findall(r"^[\d:.]{12}  (\w+)", told, re.MULTILINE)
    between = re.findall(r"│ (\D+) \d", told)
    assert [kind for kind in kinds if kind not in {"logged", "progress"}] == [
        *("created", "started", "retry", "started", "dead"),
        *("retried", "started", "retry", "started", "dead"),
    ]
    run = ["ran", "waited for the retry", "waited for a worker", "ran"]
    assert between == ["waited for a worker", *run, "had ended", "waited for a worker", *run]
    assert all(len(line) <= 80 for line in told.splitlines())


def test_what_is_no_event_is_shown_as_such(books: Library) -> None:
    told = books.stage.shell("jobs", "events", books.lent).out.splitlines()
    assert re.search(r"unknown +ignored: not JSON", told[2])
    assert re.search(r"│ waits for a worker, .* so far", told[3])


def test_events_for_scripts_are_as_they_were_written(books: Library) -> None:
    told = books.stage.shell("jobs", "events", "--json", books.lent).json
    written, scribbled = told["entries"]
    assert written["event"]["payload"] == {"title": "lent", "shelf": "A"}
    assert "not JSON" in scribbled["undecodable"]
    assert [each["phase"] for each in told["between"]] == ["waiting-for-worker"]
    raw = books.stage.shell("jobs", "events", "--raw", books.lent)
    assert orjson.loads(raw.out) == written["event"]
    assert raw.err.startswith(f"message {scribbled['seq']} is omitted: not JSON")
    assert books.stage.shell("jobs", "events", "--raw", "--json", books.lent).code == 2


def test_log_lines_of_all_runs_are_told(books: Library) -> None:
    told = books.stage.shell("jobs", "logs", books.torn).out.splitlines()
    printed = [line.rpartition("info   ")[2] for line in told]
    assert printed == [*["opening torn"] * 2, "the job was retried", *["opening torn"] * 2]
    lines = books.stage.shell("jobs", "logs", "--json", books.torn).out.splitlines()
    assert len({orjson.loads(line)["runSeq"] for line in lines}) == 2
    silent = books.stage.shell("jobs", "logs", books.lent)
    assert (silent.code, silent.out, silent.err) == (0, "", "The job has no log lines.\n")
